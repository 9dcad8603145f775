"""Handing a call to another agent: its run is a child workflow of this one, with a history of its own.

Nothing in here looks at what came of it. The run is waited for, however it ends, also by a person who stopped or
cancelled that one alone, and also when this run is cancelled, which cancels it; then a worker reads how it ended.
"""

import contextlib
from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

from perdure.core.contracts import Delegated, Limits, Request, Start
from workflows import calls
from workflows.gate import Gate

NOTHING_LEFT = (
    "not run: nothing is left of this run's budget to hand work on with. Nothing was done. Answer with what is known, "
    "and say what is missing."
)
_RESET = "the run that it works for was reset to before it began"
_STILL_THERE = 6  # times that a run of the same id is in the way, before a person is asked; the pauses double


class Budgeting:
    """`share`: what one more run may spend; None for nothing. `changed`: is called when one begins or ends."""

    def __init__(self, share: Callable[[], Limits | None], changed: Callable[[], object]) -> None:
        self.share, self.changed = share, changed


async def handed_over(gate: Gate, start: Start, run_id: str, stuck: Callable[[str], Request]) -> Delegated:
    """Start the run and wait for its end.

    After a reset of this run, an earlier one for the same call may still be there: it is told to end, and waited for.
    """
    tries = 0
    while True:
        try:
            return await calls.run_agent(start, run_id)
        except WorkflowAlreadyStartedError:
            gate.refuse_when_closed()
            if not tries:
                await _told_to_end(run_id)
            tries += 1
            if tries % _STILL_THERE:
                await workflow.sleep(timedelta(seconds=2 ** (tries % _STILL_THERE - 1)))
            else:
                await gate.mended(stuck(f"run {run_id!r} is there already, and does not end: cancel it, then retry"))


async def _told_to_end(run_id: str) -> None:
    with contextlib.suppress(ApplicationError):  # it has ended meanwhile
        await workflow.get_external_workflow_handle(run_id).cancel(reason=_RESET)
