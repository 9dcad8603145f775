"""Where the root modules live: beside this package in a checkout, in `perdure._app` in a wheel (docs/adr/0001).

Only entry points come here; nothing that they load knows which of the two it is. Run as a file, this module is the
process of its own that `command` describes: with `-P`, so that neither the current folder nor an author's file can
put an `activities` or a `workflows` of its own in front of ours.
"""

import importlib.util
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).resolve().parent
_ROOT = _PACKAGE.parent


class NameTakenError(ImportError):
    """In a checkout: another package of the same name was imported first."""


def in_wheel() -> bool:
    return (_PACKAGE / "_app").is_dir()


def dotted(name: str) -> str:
    """`name` (`"worker"`, `"workflows.run"`) as it is imported: itself in a checkout, else below `perdure._app`."""
    return f"perdure._app.{name}" if in_wheel() else name


def load(name: str) -> ModuleType:
    """A root module: workflows, activities, worker, client, examples, or one inside them.

    Raises NameTakenError when a stranger holds the name (a checkout only), ImportError when there is no such module.
    """
    if in_wheel():
        return import_module(dotted(name))
    with _root_first():
        module = import_module(name)
    if not _ours(module):
        raise NameTakenError(
            f"{name!r} is already loaded from {module.__file__!r}, not from the checkout. "
            "Rename that module, or install perdure as a wheel, where the names are free."
        )
    return module


def script(name: str) -> Path:
    """The file of a root module. To look at; to run it use `command`: as a script its folder would lead sys.path."""
    return (_PACKAGE / "_app" if in_wheel() else _ROOT).joinpath(*name.split(".")).with_suffix(".py")


def command(name: str, *args: str) -> list[str]:
    """The argument vector that runs a root module as `__main__` in a process of its own, from any current folder."""
    return [sys.executable, "-P", str(_PACKAGE / "_home.py"), name, *args]


@contextmanager
def _root_first() -> Iterator[None]:
    """For the import alone: an installed `workflows` would win otherwise, and everybody else must see it again."""
    sys.path.insert(0, str(_ROOT))
    try:
        yield
    finally:
        sys.path.remove(str(_ROOT))


def _ours(module: ModuleType) -> bool:
    places = [module.__file__] if module.__file__ else list(getattr(module, "__path__", []))
    return any(Path(place).resolve().is_relative_to(_ROOT) for place in places)


def _run(name: str, *args: str) -> None:
    if not in_wheel():
        sys.path.insert(0, str(_ROOT))  # to stay: the workflow sandbox imports `workflows` anew for every run
    elif importlib.util.find_spec("perdure") is None:
        sys.path.append(str(_ROOT))
    sys.argv = [str(script(name)), *args]
    runpy.run_module(dotted(name), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run(*sys.argv[1:])
