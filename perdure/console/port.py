"""What the console needs of the world: `perdure.temporal.runs.Runs` is the real one."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from perdure.core.contracts import Decision, Outcome, Request, RunState, Settled
from perdure.traces.events import Event


class RunNotFoundError(Exception):
    """No run (or request) by that id, or more than one; the text says which and what to do."""


class DecisionRefusedError(Exception):
    """The run did not take the decision: already decided by whom and when, unknown request, other bytes, not allowed."""


class UnreachableError(Exception):
    """No server, no namespace, or no permission; the text says where it looked and the next command."""


@dataclass(frozen=True)
class RunRow:
    """One line of a list. From visibility and memo alone: no query, no worker."""

    run_id: str
    agent: str
    state: RunState
    started: datetime
    ended: datetime | None
    requests: tuple[Request, ...]  # what waits
    outcome: Outcome | None  # without its answer
    segment_id: str


@dataclass(frozen=True)
class Started:
    run_id: str
    new: bool  # False: a run with this id exists already, and this is it


class RunsPort(Protocol):
    """Ids may be shortened wherever unambiguous. All raise UnreachableError; those with an id, RunNotFoundError."""

    async def start(self, agent: str, task: str, *, run_id: str | None = None) -> Started: ...
    async def list(self, *, state: RunState | None = None, agent: str | None = None, limit: int = 50) -> list[RunRow]: ...
    async def find(self, run_id: str) -> RunRow: ...
    async def find_request(self, request_id: str) -> tuple[RunRow, Request]: ...
    async def events(self, run_id: str) -> Sequence[Event]: ...
    def watch(self, run_id: str) -> AsyncIterator[Event]:
        """Every event so far, then each as it comes, to the run's end. Survives the server going away for a while."""
        ...

    async def result(self, run_id: str) -> Outcome: ...
    async def decide(self, run_id: str, decision: Decision) -> Settled: ...
    async def cancel(self, run_id: str, *, reason: str = "") -> None: ...
    def web_url(self, row: RunRow) -> str | None: ...
