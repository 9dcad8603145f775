"""Modules that are imported many times, with one copy of their code.

Temporal's sandbox imports a workflow's modules anew for every run, so that no run sees what another keeps in them. What
differs are the modules; the code in them is the same, and one copy serves all: it is read once, takes memory once, and
stays warm, for CPython specialises code while it runs (PEP 659).
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_loader
from types import CodeType, ModuleType


def share_code(package: str) -> None:
    """From now on, whoever imports a module of this package again gets a new module with the code of the first."""
    if not any(isinstance(each, _Finder) and each.package == package for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder(package))


class _Finder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self.package = package
        self._loaders: dict[str, _Loader] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not f"{fullname}.".startswith(f"{self.package}."):
            return None
        if fullname not in self._loaders:
            found = PathFinder.find_spec(fullname, path, target)
            if found is None or type(found.loader) is not SourceFileLoader:
                return found
            self._loaders[fullname] = _Loader(fullname, found.loader.path)
        return spec_from_loader(fullname, self._loaders[fullname])


class _Loader(SourceFileLoader):
    _code: CodeType | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        self._code = self._code or super().get_code(fullname)
        return self._code
