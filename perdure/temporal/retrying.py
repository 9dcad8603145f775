"""Taking a failed run on from where it failed: a reset of Temporal's, to just before the failure.

The history up to there is kept, and with it every observation: what was done is not done again. What follows is handed
to a worker again, so the point lies as late as it can: before the word that stopped the run was believed, or before the
step that a bug broke. A run that was terminated ended in the middle, and goes on from its last step; where that step
had sent a call that may be done once, nobody knows what came of it, and the run is not taken on.
"""

from collections.abc import Sequence

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from perdure.core.contracts import CHECK_DECISION, CheckDecision, Checked, Choice, Effect
from perdure.core.runs import SteeringRefusedError
from perdure.traces import events as e
from perdure.traces.turns import read, trace


def point_before_failure(raw: Sequence[HistoryEvent], told: Sequence[e.Event]) -> int:
    """The workflow task to go back to, by the id of the event that ended it. Of one segment, `told` decoded.

    Raises:
        SteeringRefusedError: it never took a step.
    """
    done = [event for event in raw if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    if not done:
        raise SteeringRefusedError("the run ended before its first step: there is nothing to go on from. Start another")
    believed = _stop_believed(told)
    after = [each for each in done if each.workflow_task_completed_event_attributes.started_event_id > believed]
    if believed and after:
        return after[0].event_id
    broken = [each for each in raw if each.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED]
    if broken:  # only a run that breaks off tells its activities to end
        return broken[0].activity_task_cancel_requested_event_attributes.workflow_task_completed_event_id
    return _end_published(raw, told) or done[-1].event_id


def _end_published(raw: Sequence[HistoryEvent], told: Sequence[e.Event]) -> int:
    """The task that published how the run ended, which it does before its trace is kept; 0 if none did."""
    ends = {event.id for event in told if isinstance(event, e.StandingChanged) and event.standing.outcome}
    tasks = (
        each.workflow_properties_modified_event_attributes.workflow_task_completed_event_id
        for each in raw
        if each.event_id in ends
    )
    return min(tasks, default=0)


def _stop_believed(told: Sequence[e.Event]) -> int:
    """The event by which an operator's word to stop was accepted; 0 if there is none."""
    asked = {event.activity_id for event in told if isinstance(event, e.ActivityScheduled) and _is_stop(event)}
    ends = [event for event in told if isinstance(event, e.ActivityCompleted) and event.activity_id in asked]
    return max((end.id for end in ends if (checked := read(Checked, end.result)) and checked.accepted), default=0)


def _is_stop(event: e.ActivityScheduled) -> bool:
    asked = read(CheckDecision, event.input) if event.activity == CHECK_DECISION else None
    return asked is not None and asked.decision.choice is Choice.STOP


def refuse_what_might_be_repeated(whole: Sequence[e.Event], segment: Sequence[e.Event], point: int) -> None:
    """Refuse to go back over the sending of a call that may be done once, or to where another run was at work.

    When a run is terminated, those that work for it are told to end, and nobody tells it any more that they did.

    Raises:
        SteeringRefusedError: there is one, and which.
    """
    again = {event.activity_id for event in segment if isinstance(event, e.ActivityScheduled) and event.id > point}
    calls = [call for turn in trace(whole).turns for call in turn.calls if call.effect is Effect.ONCE]
    back = {event.run_id for event in segment if isinstance(event, e.WorkReturned)}
    handed = [event for event in segment if isinstance(event, e.WorkHanded)]
    if lost := [event.run_id for event in handed if event.id > point or event.run_id not in back]:
        raise SteeringRefusedError(
            f"nothing was retried: run {', '.join(lost)} was working for this one when it ended, and its work would be "
            "lost, or done again from the beginning. Look at what it did, then start another run that knows"
        )
    if risky := [call.title for call in calls if again & {each.activity_id for each in call.executions}]:
        raise SteeringRefusedError(
            f"nothing was retried: {', '.join(risky)} had been sent when the run ended, may be done once, and would be "
            "sent again. Find out what came of it, then start another run that knows"
        )
