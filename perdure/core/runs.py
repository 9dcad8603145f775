"""A run seen from outside: what a list shows of it, and what can go wrong when one asks."""

from dataclasses import dataclass
from datetime import datetime

from perdure.core.contracts import Outcome, Request, RunState, Settled


class RunNotFoundError(Exception):
    """No run (or request) by that id, or more than one; the text says which and what to do."""


class AgentNotServedError(RunNotFoundError):
    """No worker that is up serves the agent; the text says which agents are served."""

    def __init__(self, agent: str, served: frozenset[str]) -> None:
        names = ", ".join(map(repr, sorted(served))) or "none"
        super().__init__(f"no worker serves an agent {agent!r}, so nothing was started; served now: {names}")


class DecisionRefusedError(Exception):
    """The run did not take the decision: already decided (by whom, when), unknown request, other bytes."""


class AlreadyDecidedError(DecisionRefusedError):
    """The request was settled before, as `settled` says. The same choice again is harmless."""

    def __init__(self, run_id: str, settled: Settled) -> None:
        said = f"{settled.choice} by {settled.by!r} at {settled.decided.isoformat(timespec='seconds')}"
        super().__init__(f"request {settled.request!r} of run {run_id!r} was decided before: {said}")
        self.run_id, self.settled = run_id, settled


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
