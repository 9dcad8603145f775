"""Where agents come from: a file, a module, `module:attribute`; the environment; installed packages.

Loading runs an author's code, so what goes wrong is told in the author's terms: the line of theirs that failed.
"""

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

from perdure.tools.agents import Agent
from perdure.tools.delegating import with_delegates
from perdure.tools.models import AgentError

VARIABLE: Final = "PERDURE_AGENTS"
GROUP: Final = "perdure.agents"
_OURS = str(Path(__file__).resolve().parent.parent)


class AgentLoadError(Exception):
    """Agents that could not be loaded: what, why, what to do."""


def load(specs: Sequence[str] = ()) -> dict[str, Agent]:
    """The agents that `specs` name, and those that they hand work to, by name.

    Args:
        specs: "path/to/file.py", "package.module", "module:attribute" or "file.py:attribute". Without any: those in
            the variable PERDURE_AGENTS (separated by commas, or paths by the platform's path separator), else those
            that installed packages offer as entry points in the group "perdure.agents".

    Raises:
        AgentLoadError: missing, not importable, empty, or two agents of one name.
    """
    asked = list(dict.fromkeys(specs or separated(os.environ.get(VARIABLE, ""))))
    found: dict[str, tuple[Agent, str]] = {}
    loaded: dict[str, ModuleType] = {}
    for spec in asked:
        _add(found, _named(spec, loaded), spec)
    if not asked:
        for point in entry_points(group=GROUP):
            _add(found, _offered(point), f"the entry point {point.value!r}")
    if not found:
        raise AgentLoadError(f"no agents. Name a file or module that declares one, or set {VARIABLE}.")
    try:
        return with_delegates(agent for agent, _ in found.values())
    except AgentError as error:
        raise AgentLoadError(str(error)) from None


def separated(text: str) -> list[str]:
    """The specs in PERDURE_AGENTS. Where ':' separates paths, `x:y` with y a plain name is still an attribute of x."""
    found: list[str] = []
    for part in text.split(","):
        pieces: list[str] = []
        for piece in part.strip().split(os.pathsep):
            if pieces and os.pathsep == ":" and piece.isidentifier() and ":" not in pieces[-1]:
                pieces[-1] += f":{piece}"
            else:
                pieces.append(piece)
        found += [piece.strip() for piece in pieces if piece.strip()]
    return found


def _add(found: dict[str, tuple[Agent, str]], agents: Iterable[Agent], origin: str) -> None:
    for agent in agents:
        earlier = found.get(agent.name)
        if earlier is not None and earlier[0] is not agent:
            raise AgentLoadError(
                f"two agents are named {agent.name!r}: one of {earlier[1]}, one of {origin}. Rename one of them."
            )
        found.setdefault(agent.name, (agent, origin))


def _named(spec: str, loaded: dict[str, ModuleType]) -> list[Agent]:
    source, attribute = _split(spec)
    if source not in loaded:
        loaded[source] = _of_file(source) if _is_path(source) else _of_module(source)
    module = loaded[source]
    if attribute:
        return [_attribute(module, attribute, spec)]
    agents = list({id(each): each for each in vars(module).values() if isinstance(each, Agent)}.values())
    if not agents:
        raise AgentLoadError(f"{source!r} declares no agent. Assign one at module level: desk = Agent('desk', ...).")
    return agents


def _split(spec: str) -> tuple[str, str]:
    source, colon, attribute = spec.rpartition(":")
    return (source, attribute) if colon and source and re.fullmatch(r"[\w.]+", attribute) else (spec, "")


def _is_path(source: str) -> bool:
    return source.endswith(".py") or source.startswith(".") or os.sep in source or "/" in source


def _attribute(module: ModuleType, attribute: str, spec: str) -> Agent:
    value = getattr(module, attribute, None)
    if isinstance(value, Agent):
        return value
    there = [name for name, each in vars(module).items() if isinstance(each, Agent)]
    hint = f"It has: {', '.join(there)}." if there else "It declares none."
    raise AgentLoadError(f"{spec!r}: {attribute!r} is no Agent. {hint}")


def _of_file(source: str) -> ModuleType:
    """Run an author's file, under a name of its own, with its folder importable as for a script."""
    path = Path(source).expanduser().resolve()
    if path.is_dir():
        raise AgentLoadError(f"{source!r} is a folder. Name the file in it that declares the agent.")
    if not path.is_file():
        raise AgentLoadError(f"there is no file {source!r} (looked for {path}). Check the path, and where you are.")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise AgentLoadError(f"{source!r} is no Python file. Agents are declared in a .py file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise AgentLoadError(_told(source, error, path.parent)) from error
    return module


def _module_name(path: Path) -> str:
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", path.stem)
    return f"perdure_agents_{plain}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def _of_module(source: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name is not None and (source == error.name or source.startswith(f"{error.name}.")):
            raise AgentLoadError(
                f"there is no module {source!r}. Install it, run from the folder that holds it, or name the file: "
                f"{source.replace('.', '/')}.py"
            ) from None
        raise AgentLoadError(_told(source, error, Path.cwd())) from error
    except (Exception, SystemExit) as error:
        raise AgentLoadError(_told(source, error, Path.cwd())) from error


def _offered(point: EntryPoint) -> list[Agent]:
    try:
        offered = point.load()
    except (Exception, SystemExit) as error:
        raise AgentLoadError(_told(f"the entry point {point.value!r}", error, Path.cwd())) from error
    if isinstance(offered, Agent):
        return [offered]
    return [each for each in vars(offered).values() if isinstance(each, Agent)] if hasattr(offered, "__dict__") else []


def _told(source: str, error: BaseException, home: Path) -> str:
    """What failed while running an author's code: their line, not the machinery's."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{source!r} does not load: {error.filename}:{error.lineno}: {said}. Mend that line."
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _machinery(frame.filename)]
    theirs = [frame for frame in frames if Path(frame.filename).is_relative_to(home)] or frames
    at = f"{theirs[-1].filename}:{theirs[-1].lineno}: {theirs[-1].line}\n  " if theirs else ""
    todo = "Install what is missing, or mend that line." if isinstance(error, ImportError) else "Mend that line."
    return f"{source!r} does not load.\n  {at}{said}\n{todo}"


def _machinery(filename: str) -> bool:
    return filename.startswith((_OURS, "<frozen importlib")) or f"{os.sep}importlib{os.sep}" in filename
