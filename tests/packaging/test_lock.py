"""requirements.lock: one file for uv and pip, whole, hashed, and free of any place but the default index."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())
WANTED = [Requirement(r) for r in DECLARED["project"]["dependencies"] + DECLARED["dependency-groups"]["dev"]]
LOCK = (ROOT / "requirements.lock").read_text()
PINS = {m[1]: Version(m[2]) for m in re.finditer(r"^([a-z0-9-]+)==([^ ;\\]+)", LOCK, flags=re.M)}


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_what_is_declared_is_locked_at_a_version_that_fits(wanted: Requirement) -> None:
    assert PINS[canonicalize_name(wanted.name)] in wanted.specifier


def test_every_pin_has_a_hash() -> None:
    entries = re.split(r"^(?=[a-z0-9])", LOCK, flags=re.M)[1:]
    assert len(entries) == len(PINS)
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_no_line_names_a_place() -> None:
    assert re.findall(r"^\s*(?:-[fi]|--(?!hash)).*|\S*(?:file|https?)://\S*|^[^#]* @ .*", LOCK, flags=re.M) == []
