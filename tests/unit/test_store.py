"""The store: bytes under keys, whole or not at all, and no key that leads out of it."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.store import MOST_KEY, Store, StoreError, StoreMissError, named, store_from_env

URLS = ["{folder}", "file://{folder}", "memory://{folder}"]


@pytest.fixture(params=URLS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(str(request.param).format(folder=tmp_path / "kept"))


async def test_what_is_put_is_got(store: Store) -> None:
    await store.put("runs/a/observations/x", b"\x00bytes")
    await store.put("runs/a/observations/x", b"others")
    assert await store.get("runs/a/observations/x") == b"others"


async def test_what_is_not_there_is_said_to_be_missing(store: Store) -> None:
    with pytest.raises(StoreMissError, match="runs/b"):
        await store.get("runs/b")


async def test_keys_are_those_under_a_folder_and_not_of_its_neighbour(store: Store) -> None:
    assert await store.keys() == []
    for key in ("runs/a/2", "runs/a/1", "runs/ab/1", "files/a"):
        await store.put(key, b"")
    assert await store.keys("runs/a") == ["runs/a/1", "runs/a/2"]
    assert await store.keys() == ["files/a", "runs/a/1", "runs/a/2", "runs/ab/1"]
    assert await store.keys("nothing/here") == []


async def test_what_another_process_wrote_is_listed(tmp_path: Path) -> None:
    ours, theirs = Store(str(tmp_path)), Store(str(tmp_path))
    assert await ours.keys("runs") == []
    await theirs.put("runs/a", b"x")
    assert await ours.keys("runs") == ["runs/a"]


@pytest.mark.parametrize(
    "key",
    ["", "/", "/etc/passwd", "../x", "runs/../../x", "runs//x", "a/", "~/x", ".x", "A", "a\n", "a\\b", "a::b", "a*"],
)
async def test_a_key_that_might_lead_elsewhere_is_none(store: Store, key: str) -> None:
    with pytest.raises(StoreError, match="is no key"):
        await store.put(key, b"x")
    with pytest.raises(StoreError, match="is no key"):
        await store.get(key)


async def test_a_key_is_bounded(store: Store) -> None:
    with pytest.raises(StoreError, match="is no key"):
        await store.put("/".join(["a" * 100] * (MOST_KEY // 100 + 1)), b"x")


@given(st.lists(st.text(), min_size=1, max_size=3), st.lists(st.text(), min_size=1, max_size=3))
def test_any_parts_make_a_key_and_no_two_the_same_one(one: list[str], other: list[str]) -> None:
    keys = [named(*parts) for parts in (one, other)]
    assert (keys[0].casefold() == keys[1].casefold()) == (one == other)
    for key in keys:
        assert Store("memory://x")._place(key) == f"/x/{key}"


@pytest.mark.parametrize("run_id", ["..", "../../etc", "Order-17", "order 17", "a/b", "~", "", "x" * 1_000, "a."])
def test_a_run_id_is_one_name_of_bounded_length(run_id: str) -> None:
    key = named("runs", run_id)
    assert key.count("/") == 1
    assert len(key) < 130
    assert run_id not in key.split("/")


def test_a_plain_run_id_is_its_own_name() -> None:
    assert named("runs", "order-17", "segments") == "runs/order-17/segments"


async def test_a_folder_holds_nothing_but_what_is_whole(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    large = [bytes([n]) * 300_000 for n in range(8)]
    reading = True

    async def look() -> None:
        while reading:
            for key in await store.keys():
                assert await store.get(key) in large

    looking = asyncio.create_task(look())
    await asyncio.gather(*(store.put("runs/a", each) for each in large))
    reading = False
    await looking
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a"]


async def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    store = Store(str(tmp_path))
    with pytest.raises(StoreError, match=r"cannot keep 'runs/a'.*Next: perdure doctor"):
        await store.put("runs/a", b"x")
    assert os.listdir(tmp_path) == ["runs"]


async def test_a_check_leaves_nothing(store: Store) -> None:
    await store.check()
    assert await store.keys() == []


async def test_a_check_of_a_folder_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(StoreError, match="kept"):
        await Store(str(tmp_path / "kept")).check()


@pytest.mark.parametrize("value", [None, "", "  "])
def test_without_the_variable_there_is_no_store(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    if value is not None:
        monkeypatch.setenv("PERDURE_STORE", value)
    assert store_from_env() is None


@pytest.mark.parametrize("url", ["zzz://x", "s3://bucket", "sftp://ann:pa55word@host/x", "/tmp/a::b"])
def test_a_store_that_cannot_be_opened_says_what_to_do(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_STORE", url)
    with pytest.raises(StoreError, match=r"PERDURE_STORE=.*(install|Name a folder)") as refused:
        store_from_env()
    assert "pa55word" not in str(refused.value)
