"""What came of a call that was handed to another agent's run: an observation like that of any tool.

The run is looked up on the server. It must be one that the asking run started for this very call.
"""

from temporalio import activity
from temporalio.service import RPCError

from activities.own import segment, trouble
from perdure import Tool
from perdure.core.contracts import NOT_RUN, Delegated, Ending, Observation, Outcome, RunState, Spent
from perdure.temporal.delegated import NotDelegatedError, outcome_of
from perdure.tools.invoke import Keeping, observation, observed

_MOST_SHORT = 200  # characters


async def seen_of(by: Delegated, key: str, tool: Tool, keep: Keeping) -> Observation:
    """What the model is to see of it.

    Raises:
        ApplicationError: of type NOT_RUN, the server does not answer.
    """
    try:
        outcome = await outcome_of(activity.client(), by, parent=segment().workflow_id, root=key)
    except NotDelegatedError as error:
        return observation(Ending.ERROR, f"no result: {error}", str(error))
    except RPCError as error:
        raise trouble(f"how run {by.run_id!r} ended cannot be read: {error.message}", NOT_RUN) from error
    seen = await observed(_told(outcome), tool.limit, keep)
    short = f"run {by.run_id} {_in_short(outcome)}"
    spent = Spent(usage=outcome.usage, cost=outcome.cost, seconds=outcome.seconds)
    ending = Ending.OK if outcome.answer.strip() else Ending.ERROR
    return seen.model_copy(update={"ending": ending, "reason": short, "spent": spent})


def _in_short(outcome: Outcome) -> str:
    if outcome.state is RunState.ANSWERED:
        return "answered"
    did = f"; {'; '.join(outcome.report)}" if outcome.report else ""
    return f"ended {outcome.state}: {outcome.reason}"[:_MOST_SHORT] + did[:_MOST_SHORT]


def _told(outcome: Outcome) -> str:
    """An answer as it is. All else says plainly that it is none, or not a whole one, and what was going on then."""
    if outcome.state is RunState.ANSWERED:
        return outcome.answer
    if outcome.answer.strip():
        return f"[not complete: the agent's run ended {outcome.state}, since {outcome.reason}]\n{outcome.answer}"
    begun = "".join(f"\n- {line}" for line in outcome.report)
    return (
        f"no answer: the agent's run ended {outcome.state} ({outcome.reason}). What it had done before is not undone."
        + (f" Its last calls:{begun}" if begun else "")
    )
