"""A run seen from outside: what a list shows of it, and what can go wrong when one asks."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from perdure.core.contracts import Outcome, Request, RunState, Settled, Steered

MOST_TASK: Final = 1_000_000  # bytes of UTF-8; the server takes 2 MiB, with what stands around it
MOST_ID: Final = 255  # characters: what some of Temporal's databases have room for
_MOST_ID_BYTES: Final = 1_000  # Temporal's own limit


class RunNotFoundError(Exception):
    """No run (or request) by that id, or more than one; the text says which and what to do."""


class AgentNotServedError(RunNotFoundError):
    """No worker that is up serves the agent; the text says which agents are served."""

    def __init__(self, agent: str, served: frozenset[str]) -> None:
        names = ", ".join(map(repr, sorted(served))) or "none"
        super().__init__(f"no worker serves an agent {agent!r}, so nothing was started; served now: {names}")


class DecisionRefusedError(Exception):
    """The run did not take the decision: already decided (by whom, when), unknown request, other bytes."""


class SteeringRefusedError(Exception):
    """The run did not take what an operator said: it has ended, too much is said already, not allowed."""


class AlreadyDecidedError(DecisionRefusedError):
    """The request was settled before, as `settled` says. The same choice again is harmless."""

    def __init__(self, run_id: str, settled: Settled) -> None:
        said = f"{settled.choice} by {settled.by!r} at {settled.decided.isoformat(timespec='seconds')}"
        super().__init__(f"request {settled.request!r} of run {run_id!r} was decided before: {said}")
        self.run_id, self.settled = run_id, settled


class StartRefusedError(ValueError):
    """No run can be started with such words: the text says which, why, and what to do."""


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
    paused: Steered | None = None
    parent: str = ""  # the run that it works for


@dataclass(frozen=True)
class Started:
    run_id: str
    new: bool  # False: a run with this id exists already, and this is it


def check_start(agent: str, task: str, run_id: str | None = None, tools: Sequence[str] | None = None) -> None:
    """Whether a run may be started with these words. An empty `run_id` is none: one is made.

    Raises:
        StartRefusedError: something is empty, too long, or no text.
    """
    for what, text in (("agent's name", agent), ("task", task), ("run's id", run_id or "-")):
        if not text.strip():
            raise StartRefusedError(f"the {what} is empty ({text[:20]!r}): say {_WANTED[what]}")
        if broken := next((char for char in text if "\ud800" <= char <= "\udfff"), ""):
            raise StartRefusedError(
                f"the {what} is no text: it holds {broken!r}, half a character. Give it in UTF-8, from a file say"
            )
    for what, text in (("agent's name", agent), ("run's id", run_id or "-")):
        _check_name(what, text)
    for name in tools or ():
        if isinstance(tools, str) or not _TOOL.fullmatch(name):
            raise StartRefusedError(f"{tools!r} names no tools: give a list of names, as in ['order', 'refund']")
    _check_size(task)


_TOOL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WANTED: Final = {
    "agent's name": "which agent is to run",
    "task": "what is to be done",
    "run's id": "which one, or leave it out",
}


def _check_name(what: str, text: str) -> None:
    if len(text) > MOST_ID or len(text.encode()) > _MOST_ID_BYTES:
        raise StartRefusedError(
            f"the {what} has {len(text):,} characters ({text[:20]!r}...): give at most {MOST_ID}, and the rest as task"
        )
    if not text.isprintable():
        raise StartRefusedError(
            f"the {what} {text!r} holds what cannot be seen: give printable characters alone, on one line"
        )


def _check_size(task: str) -> None:
    size, recorded = len(task.encode()), len(json.dumps(task, ensure_ascii=False).encode()) - 2  # quotes
    if size > MOST_TASK or recorded > 2 * MOST_TASK:  # a control character is recorded as six bytes
        raise StartRefusedError(
            f"the task has {size:,} bytes ({recorded:,} as recorded): give at most {MOST_TASK:,}, and let a tool of "
            "the agent read the rest, page by page"
        )
