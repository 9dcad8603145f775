"""The wheel's build: the root modules move into perdure/_app, their imports of each other with them (docs/adr/0001).

Only import statements change, at the place the syntax tree gives. The result is parsed again and must equal the
original tree with its imports moved: a spelling that this file does not know fails the build, never the user.
"""

import ast
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOTS = ("workflows", "activities", "worker", "client", "examples")
HOME = "perdure._app"


class UnmovableImportError(Exception):
    """An import of a root module in a spelling that cannot be moved line by line; the text gives one that can."""


class AppHook(BuildHookInterface[Any]):
    """An editable install leaves the roots where they are; a wheel gets moved copies."""

    PLUGIN_NAME = "custom"
    _staged: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._staged = Path(tempfile.mkdtemp(prefix="perdure-wheel-"))
        build_data["force_include"] |= stage(Path(self.root), self._staged)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._staged:
            shutil.rmtree(self._staged)


def stage(root: Path, into: Path) -> dict[str, str]:
    """Moved copies of every root module below `into`; returns hatch's force_include: file -> path in the wheel."""
    _put(into / "__init__.py", '"""The checkout\'s root modules, moved here by the wheel\'s build."""\n')
    for source in sources(root):
        moved = into / source.relative_to(root)
        _put(moved, moved_imports(source.read_text(encoding="utf-8"), source.relative_to(root)))
    return {str(p): f"perdure/_app/{p.relative_to(into).as_posix()}" for p in sorted(into.rglob("*")) if p.is_file()}


def sources(root: Path) -> list[Path]:
    """The root modules' files. Raises FileNotFoundError when one of them is missing: a wheel without it is broken."""
    found: list[Path] = []
    for name in ROOTS:
        files = [p for p in (root / f"{name}.py", *sorted((root / name).rglob("*.py"))) if p.is_file()]
        if not files:
            raise FileNotFoundError(f"no root module {name!r} in {root}: build from a whole checkout or sdist")
        found += files
    return found


def moved_imports(text: str, where: Path) -> str:
    """The same module with each absolute import of a root module pointing into `perdure._app`.

    Raises UnmovableImportError, naming file and line.
    """
    tree = ast.parse(text)
    lines = text.encode().splitlines(keepends=True)  # the tree counts columns in UTF-8 bytes
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            line, start = lines[node.lineno - 1], node.col_offset
            lines[node.lineno - 1] = line[:start] + _respelled(line[start:].decode(), node, where).encode()
        elif isinstance(node, ast.Call):
            _refuse_by_string(node, where)
    moved = b"".join(lines).decode()
    if ast.dump(ast.parse(moved)) != ast.dump(_Moved().visit(tree)):
        raise UnmovableImportError(f"{where}: an import of a root module is spelled in a way that cannot be moved")
    return moved


def _respelled(statement: str, node: ast.Import | ast.ImportFrom, where: Path) -> str:
    """`statement` starts with `node`; what follows on the line stays."""
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return statement.replace(f"from {module}", f"from {HOME}.{module}", 1) if _is_root(module) else statement
    if not any(_is_root(alias.name) for alias in node.names):
        return statement
    alias = node.names[0]
    if len(node.names) > 1 or ("." in alias.name and not alias.asname):
        raise UnmovableImportError(f"{where}:{node.lineno}: write 'from {alias.name} import ...', one root a statement")
    if alias.asname:
        return statement.replace(alias.name, f"{HOME}.{alias.name}", 1)
    return statement.replace("import", f"from {HOME} import", 1)


class _Moved(ast.NodeTransformer):
    """What the moved text has to mean."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if _is_root(node.module or ""):
            node.module = f"{HOME}.{node.module}"
        return node

    def visit_Import(self, node: ast.Import) -> ast.Import | ast.ImportFrom:
        alias = node.names[0]
        if not _is_root(alias.name):
            return node
        if alias.asname:
            alias.name = f"{HOME}.{alias.name}"
            return node
        return ast.ImportFrom(module=HOME, names=node.names, level=0)


def _refuse_by_string(call: ast.Call, where: Path) -> None:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    named = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else ""
    if called in {"import_module", "__import__", "run_module"} and isinstance(named, str) and _is_root(named):
        raise UnmovableImportError(f"{where}:{call.lineno}: {called}({named!r}): use perdure._home.load({named!r})")


def _is_root(module: str) -> bool:
    return module.split(".")[0] in ROOTS


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
