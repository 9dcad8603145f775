"""Where things live. import-linter (`make check`) holds the arrows; this holds what it cannot say."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hatch_build
from perdure import _home

ROOT = Path(__file__).parents[2]
ROOMS = ("perdure", "workflows", "activities")
CODE = [p for room in ROOMS for p in sorted((ROOT / room).rglob("*.py"))] + [ROOT / "worker.py", ROOT / "client.py"]

# temporalio's four words are also the names of our four homes. The client belongs to the room that reads and connects.
HOMES = {
    "workflow": {"workflows"},
    "activity": {"activities"},
    "worker": {"worker.py", "perdure"},  # perdure.temporal wraps the runner that worker.py builds
}


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("word", sorted(HOMES))
def test_temporals_module_has_its_home(word: str) -> None:
    start = f"temporalio.{word}."
    users = {p.relative_to(ROOT).parts[0] for p in CODE if any(f"{i}.".startswith(start) for i in imported(p))}
    assert users == HOMES[word]


def test_workflows_see_of_ours_only_the_core() -> None:
    ours = {i for p in (ROOT / "workflows").rglob("*.py") for i in imported(p) if i.split(".")[0] == "perdure"}
    assert ours
    assert {i for i in ours if not i.startswith("perdure.core.")} == set()


def test_importing_the_package_imports_no_room_no_vendor_and_no_temporal() -> None:
    look = "import sys, perdure; print(*sys.modules)"
    seen = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    assert [m for m in seen if m.split(".")[0] in {"perdure", "temporalio", "anthropic", "openai", "pydantic"}] == [
        "perdure"
    ]


def test_every_root_module_can_move_into_the_wheel() -> None:
    for source in hatch_build.sources(ROOT):
        hatch_build.moved_imports(source.read_text(encoding="utf-8"), source.relative_to(ROOT))


def test_a_root_module_is_loaded_from_this_checkout() -> None:
    assert Path(_home.load("worker").__file__ or "") == ROOT / "worker.py" == _home.script("worker")


def test_no_module_of_ours_can_be_mistaken_for_a_module_of_the_standard_library() -> None:
    names = {p.stem for p in CODE if p.stem not in {"__init__", "__main__"}} & sys.stdlib_module_names
    assert names == set()
