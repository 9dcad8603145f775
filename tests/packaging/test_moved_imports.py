"""What the wheel's build does to an import, and what it refuses to guess."""

from pathlib import Path

import pytest

import hatch_build

HERE = Path("worker.py")


@pytest.mark.parametrize(
    ("written", "moved"),
    [
        ("import os\n", "import os\n"),
        ("import worker\n", "from perdure._app import worker\n"),
        ("import worker as w  # worker\n", "import perdure._app.worker as w  # worker\n"),
        ("import activities.model as m\n", "import perdure._app.activities.model as m\n"),
        ("from workflows import RUN\n", "from perdure._app.workflows import RUN\n"),
        ("from workflows.run import (\n    A,\n)\n", "from perdure._app.workflows.run import (\n    A,\n)\n"),
        ("if 1:\n    x = 'é'; import client\n", "if 1:\n    x = 'é'; from perdure._app import client\n"),
        ("from workflows_of_others import x\n", "from workflows_of_others import x\n"),
        ("from perdure.core import worker\n", "from perdure.core import worker\n"),
        ("from . import worker\n", "from . import worker\n"),
        ("text = 'import worker'\n", "text = 'import worker'\n"),
    ],
)
def test_an_import_of_a_root_module_moves_and_nothing_else_does(written: str, moved: str) -> None:
    assert hatch_build.moved_imports(written, HERE) == moved


@pytest.mark.parametrize(
    "written",
    [
        "import os, worker\n",
        "import worker, client\n",
        "import workflows.run\n",
        "from  workflows import run\n",
        "import importlib\nimportlib.import_module('workflows.run')\n",
    ],
)
def test_a_spelling_that_cannot_be_moved_fails_the_build(written: str) -> None:
    with pytest.raises(hatch_build.UnmovableImportError, match=r"worker\.py"):
        hatch_build.moved_imports(written, HERE)


def test_a_checkout_without_one_of_the_roots_builds_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "worker.py").touch()
    with pytest.raises(FileNotFoundError, match="workflows"):
        hatch_build.stage(tmp_path, tmp_path / "staged")


def test_every_file_of_a_root_is_staged_with_its_imports_moved(tmp_path: Path) -> None:
    for name in hatch_build.ROOTS:
        (tmp_path / "from" / name).mkdir(parents=True)
        (tmp_path / "from" / name / "__init__.py").write_text("from workflows import x\n")
    included = hatch_build.stage(tmp_path / "from", tmp_path / "to")
    assert set(included.values()) == {
        "perdure/_app/__init__.py",
        *(f"perdure/_app/{name}/__init__.py" for name in hatch_build.ROOTS),
    }
    texts = [Path(p).read_text() for p, to in included.items() if to != "perdure/_app/__init__.py"]
    assert set(texts) == {"from perdure._app.workflows import x\n"}
