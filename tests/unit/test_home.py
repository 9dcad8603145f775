"""Finding the root modules while strangers hold their names. Each case is a process of its own, as in real life."""

import subprocess
import sys
from pathlib import Path

import pytest

from perdure import _home

ROOT = Path(__file__).parents[2]


def python(code: str, *, folder: Path) -> "subprocess.CompletedProcess[str]":
    """`folder` leads sys.path, as an author's does."""
    told = f"import sys; sys.path.insert(0, {str(folder)!r}); sys.path.append({str(ROOT)!r})\n{code}"
    return subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, cwd=folder)


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    for name in ("workflows", "activities"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    return tmp_path


def test_an_installed_package_of_the_same_name_does_not_win(strangers: Path) -> None:
    done = python("from perdure import _home; print(_home.load('workflows').__file__)", folder=strangers)
    assert done.stdout.strip() == str(ROOT / "workflows/__init__.py"), done.stderr


def test_after_a_load_the_path_is_as_it_was(strangers: Path) -> None:
    code = "from perdure import _home; before = sys.path[:]; _home.load('workflows'); print(sys.path == before)"
    assert python(code, folder=strangers).stdout.strip() == "True"


def test_a_name_that_is_taken_is_told_with_its_place(strangers: Path) -> None:
    done = python("import activities; from perdure import _home; _home.load('activities')", folder=strangers)
    assert "NameTakenError" in done.stderr
    assert str(strangers / "activities/__init__.py") in done.stderr


def test_a_process_of_its_own_starts_from_any_folder(strangers: Path) -> None:
    """The example is a root module too; `worker` would go and look for a server."""
    done = subprocess.run(_home.command("client", "--help"), capture_output=True, text=True, cwd=strangers)
    assert done.returncode == 0, done.stderr
