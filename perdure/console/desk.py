"""The operator's desk: what every verb needs, and what stands behind it.

`World` is all that the console asks of its surroundings; `perdure.console.entry` fills it with the real ones, tests
with others. A verb is a coroutine that returns an exit code; `Desk.do` runs it and turns what is expected to go wrong
into a message and a code.
"""

import asyncio
import getpass
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Protocol, TypeVar

import typer

from perdure.console import exits
from perdure.console.port import (
    DecisionRefusedError,
    RunNotFoundError,
    RunsPort,
    SteeringRefusedError,
    UnreachableError,
)
from perdure.console.screen import Screen
from perdure.core import inert
from perdure.files import File
from perdure.store import Store, StoreError
from perdure.tools.agents import Agent
from perdure.tools.discovery import AgentLoadError
from perdure.traces.events import Event
from perdure.traces.text import View

T = TypeVar("T")
MOST_NAMED = 200  # characters of who decides: `Decision.by`


class SetupError(Exception):
    """Something about this machine is wrong; the text says what and the next command."""


class IdTakenError(Exception):
    """A run of the wanted id exists, and is another one; the text says in what they differ."""


@dataclass(frozen=True)
class Finding:
    """One check of `perdure doctor`. `next` is the command that mends it; `ok` None: could not be looked at."""

    check: str
    ok: bool | None
    found: str
    next: str = ""


class World(Protocol):
    """What stands behind the verbs."""

    async def runs(self) -> RunsPort:
        """Raises UnreachableError."""
        ...

    async def history_json(self, run_id: str) -> str:
        """A run's history as Temporal's own JSON."""
        ...

    async def read_history(self, text: str) -> Sequence[Event]:
        """The events of such a JSON. Raises ValueError."""
        ...

    def agents(self, specs: Sequence[str]) -> Mapping[str, Agent]:
        """Raises AgentLoadError."""
        ...

    def server(self, told: Callable[[str], None]) -> AbstractAsyncContextManager[str]:
        """A server for `dev`: an embedded one, or the one that the environment names. Yields where its page is."""
        ...

    def survey(self) -> AsyncIterator[Finding]:
        """What `doctor` finds of Temporal: binary, server, namespace, retention, attributes, pollers, key."""
        ...

    def store(self) -> Store | None:
        """Where workers that are served from here keep what is cut. Raises StoreError, UnreachableError."""
        ...

    async def work(self, specs: Sequence[str]) -> int:
        """Serve agents until SIGTERM."""
        ...

    def command(self, *words: str) -> Sequence[str]:
        """The argument vector of a verb of ours in a process of its own."""
        ...


@dataclass
class Desk:
    world: World
    screen: Screen = field(default_factory=Screen)
    zone: tzinfo | None = None  # None: this machine's

    @property
    def operator(self) -> str:
        return operator()

    def view(self, *, full: bool = False) -> View:
        now = datetime.now(UTC)
        return View(now=now, zone=self.zone, limit=None) if full else View(now=now, zone=self.zone)

    def do(self, verb: Coroutine[Any, Any, int]) -> None:
        """Run a verb to its exit code.

        Raises:
            typer.Exit: always.
        """
        raise typer.Exit(self._code(verb))

    def _code(self, verb: Coroutine[Any, Any, int]) -> int:
        try:
            return asyncio.run(verb)
        except RunNotFoundError as error:
            return self._refused(error, exits.NOT_FOUND)
        except (DecisionRefusedError, IdTakenError, SteeringRefusedError) as error:
            return self._refused(error, exits.NOT_TAKEN)
        except UnreachableError as error:
            return self._refused(error, exits.UNREACHABLE)
        except (AgentLoadError, SetupError, StoreError) as error:
            return self._refused(error, exits.SETUP)

    def _refused(self, error: Exception, code: int) -> int:
        self.screen.error(inert.block(str(error)))
        return code


def operator() -> str:
    """Who decides, if --by does not say: $PERDURE_OPERATOR or the login name."""
    try:
        return (os.environ.get("PERDURE_OPERATOR") or getpass.getuser())[:MOST_NAMED]
    except (KeyError, OSError):
        return "unknown"


def desk(context: typer.Context) -> Desk:
    """The desk that a command was given."""
    found = context.obj
    assert isinstance(found, Desk), "entry.py puts a desk there"
    return found


async def within(seconds: float | None, waiting: Awaitable[T]) -> T | None:
    """Its result, or None when time is over."""
    try:
        async with asyncio.timeout(seconds):
            return await waiting
    except TimeoutError:
        return None


def read_text(path: Path, wanted: str = "a file saved by `perdure trace --save`") -> str:
    """A file's text. `wanted`: what it should be.

    Raises:
        RunNotFoundError: it cannot be read, and why.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunNotFoundError(f"cannot read {str(path)!r}: {error}. Give {wanted}") from None


def read_file(path: Path) -> File:
    """A file for a run.

    Raises:
        RunNotFoundError: it cannot be read, and why.
        FileError: it is larger than any model takes.
    """
    try:
        return File.read(path)
    except OSError as error:
        why = error.strerror or str(error)
        raise RunNotFoundError(f"cannot read {str(path)!r}: {why}. Nothing was started; give a file") from None


def write_text(path: Path, told: str) -> None:
    """Write a file.

    Raises:
        RunNotFoundError: it cannot be written, and why.
    """
    try:
        path.write_text(told, encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise RunNotFoundError(
            f"cannot write {str(path)!r}: {why}. Nothing was saved; give a file in a folder that exists"
        ) from None
