"""A run's history, decoded: one value per event that means something, payloads as JSON, nothing of Temporal's wire.

Ids are the history's own event ids (ascending within a segment); times carry their zone (UTC). The events of a run that
went on in new segments follow one another, a RunStarted at the head of each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure.core.contracts import CALL_MODEL, CallModel, Decision, Settled, Standing, Start, Steering
from perdure.core.transcript import Record


@dataclass(frozen=True)
class Event:
    """What every event has."""

    id: int
    at: datetime


@dataclass(frozen=True)
class RunStarted(Event):
    run_id: str
    segment_id: str  # Temporal's run id
    first_segment_id: str
    start: Start
    by: str  # the client's own word for itself
    task_queue: str = ""
    continues: str = ""  # the segment before
    parent: str = ""  # the run that it works for


@dataclass(frozen=True)
class ActivityScheduled(Event):
    activity_id: str
    activity: str  # its name
    input: Any
    summary: str = ""
    start_to_close: float = 0.0  # seconds


@dataclass(frozen=True)
class ActivityStarted(Event):
    """Recorded by the server only when the activity closes, or read from the pending list of a running one."""

    activity_id: str
    attempt: int  # from 1
    worker: str
    last_failure: str = ""  # of the attempt before


@dataclass(frozen=True)
class ActivityCompleted(Event):
    activity_id: str
    result: Any


@dataclass(frozen=True)
class ActivityFailed(Event):
    """`kind`: the application's failure type, or "timeout:heartbeat", "timeout:start_to_close", ..., or "cancelled"."""

    activity_id: str
    kind: str
    message: str


@dataclass(frozen=True)
class WorkHanded(Event):
    """A call was handed to another run, which has begun."""

    run_id: str
    segment_id: str


@dataclass(frozen=True)
class WorkReturned(Event):
    """The run that a call was handed to has ended. `status` is Temporal's."""

    run_id: str
    status: str


@dataclass(frozen=True)
class StandingChanged(Event):
    """The workflow published what waits, or how it ended."""

    standing: Standing


@dataclass(frozen=True)
class DecisionReceived(Event):
    """A decision reached the run; whether it settled anything is said by the request's end, or `settled`."""

    decision: Decision
    via: str  # "update" | "signal"
    by: str  # the client's identity, unverified


@dataclass(frozen=True)
class DecisionAnswered(Event):
    """An update's answer. One of the two is set."""

    decision_id: str
    settled: Settled | None = None
    refused: str = ""


@dataclass(frozen=True)
class SteeringReceived(Event):
    """An operator's word reached the run; whether it counts is said by the activity that checks it."""

    steering: Steering
    via: str  # "update" | "signal"
    by: str  # the client's identity, unverified


@dataclass(frozen=True)
class RunRetried(Event):
    """An operator took the failed run on from here. `by` is unverified."""

    by: str
    reason: str


@dataclass(frozen=True)
class CancelRequested(Event):
    by: str
    reason: str


@dataclass(frozen=True)
class RunEnded(Event):
    """`status` is Temporal's: completed, failed, cancelled, terminated, timed_out, continued. `result` if completed."""

    status: str
    result: Any = None
    failure_type: str = ""
    failure: str = ""
    continued_by: str = ""  # the segment after


@dataclass(frozen=True)
class WorkflowTaskFailed(Event):
    """A worker could not take the run on: code drift, or a bug. The server tries again for ever: say so loudly."""

    cause: str
    message: str
    worker: str


def record(events: Sequence[Event]) -> Record:
    """What a run's transcript is rebuilt from: all that these events hold, of one segment or several."""
    started = next(e for e in events if isinstance(e, RunStarted))
    scheduled = [e for e in events if isinstance(e, ActivityScheduled) and e.activity == CALL_MODEL]
    carried = started.start.carried
    return Record(
        task=started.start.task,
        asked={e.activity_id: CallModel.model_validate(e.input) for e in scheduled},
        results=(carried.records if carried else {})
        | {e.activity_id: e.result for e in events if isinstance(e, ActivityCompleted)},
        carried=carried,
        files=started.start.files,
    )
