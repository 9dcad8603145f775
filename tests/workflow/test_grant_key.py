"""The key that seals grants: there whole or not at all, and never a short one."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from activities.grants import grant_key
from perdure.temporal.survey import survey


@pytest.fixture(autouse=True)
def no_key_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_GRANT_KEY", raising=False)


def test_the_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    key = grant_key(folder)
    assert (len(key), grant_key(folder)) == (64, key)
    assert stat.S_IMODE((folder / "grant.key").stat().st_mode) == 0o600
    assert os.listdir(folder) == ["grant.key"]


def test_workers_that_start_together_have_one_key(tmp_path: Path) -> None:
    for turn in range(20):
        with ThreadPoolExecutor(8) as pool:
            keys = set(pool.map(grant_key, [tmp_path / str(turn)] * 8))
        assert len(keys) == 1


@pytest.mark.parametrize("cut", [b"", b"5c0ffee"])
async def test_a_key_file_that_was_cut_short_is_refused_with_what_to_do(
    tmp_path: Path, cut: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grant.key").write_bytes(cut)
    with pytest.raises(ValueError, match=r"grant\.key' holds \d bytes, which is no key .* Remove the file"):
        grant_key(tmp_path)
    monkeypatch.setenv("PERDURE_STATE", str(tmp_path))
    monkeypatch.setenv("TEMPORAL_ADDRESS", "localhost:1")
    [found] = [each async for each in survey() if each.check == "grant key"]
    assert (found.ok, found.next) == (False, f"rm {tmp_path / 'grant.key'}")


def test_a_short_key_of_the_environment_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_GRANT_KEY", "short")
    with pytest.raises(ValueError, match="openssl rand -hex 32"):
        grant_key(tmp_path)
