"""What the console needs of the world: `perdure.temporal.runs.Runs` is the real one."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol

from perdure.core.contracts import Decision, Outcome, Request, RunState, Settled, Steered, Steering
from perdure.core.runs import (
    AgentNotServedError,
    AlreadyDecidedError,
    DecisionRefusedError,
    RunNotFoundError,
    RunRow,
    Started,
    SteeringRefusedError,
    UnreachableError,
)
from perdure.files import File
from perdure.traces.events import Event

__all__ = [
    "AgentNotServedError",
    "AlreadyDecidedError",
    "DecisionRefusedError",
    "RunNotFoundError",
    "RunRow",
    "RunsPort",
    "Started",
    "SteeringRefusedError",
    "UnreachableError",
]


class RunsPort(Protocol):
    """Ids may be shortened wherever unambiguous. All raise UnreachableError; those with an id, RunNotFoundError."""

    async def served(self) -> frozenset[str] | None:
        """The agents that some worker serves now; None if that can't be known."""
        ...

    async def workers(self) -> Sequence[str] | None:
        """What the workers that are up call themselves; None if that can't be known."""
        ...

    async def start(
        self,
        agent: str,
        task: str,
        *,
        run_id: str | None = None,
        files: Sequence[File | str | Path] = (),
        tools: Sequence[str] | None = None,
    ) -> Started: ...
    async def list(
        self, *, state: RunState | None = None, agent: str | None = None, limit: int = 50
    ) -> Sequence[RunRow]: ...
    async def find(self, run_id: str) -> RunRow: ...
    async def find_request(self, request_id: str) -> tuple[RunRow, Request]: ...
    async def events(self, run_id: str) -> Sequence[Event]: ...
    def watch(self, run_id: str) -> AsyncIterator[Event]:
        """Every event so far, then each as it comes, to the run's end. Survives the server going away for a while."""
        ...

    async def result(self, run_id: str) -> Outcome: ...
    async def decide(self, run_id: str, decision: Decision) -> Settled | None:
        """None: no worker answered in time; the decision is left for the next one. Raises DecisionRefusedError."""
        ...

    async def steer(self, run_id: str, steering: Steering) -> Steered | None:
        """None: no worker answered in time; the word is left for the next one. Raises SteeringRefusedError."""
        ...

    async def retry(self, run_id: str, *, by: str, reason: str = "") -> None:
        """Take a failed run on. Raises SteeringRefusedError."""
        ...

    async def cancel(self, run_id: str, *, reason: str = "", by: str = "") -> None: ...
    def web_url(self, row: RunRow) -> str | None: ...
