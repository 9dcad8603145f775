"""Temporal's history, fetched and decoded into `perdure.traces.events`. Payload codecs are undone here."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, TimeoutType, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from perdure.core.contracts import (
    DECIDE,
    STANDING,
    STEER,
    WAITING_PREFIX,
    Decision,
    Request,
    Settled,
    Standing,
    Start,
    Steering,
)
from perdure.traces import events as e

_RETRIED = "perdure retry by "  # begins the reason of a reset that is a retry: who it was, and why

_Payloads = Iterable[Payload]


@dataclass
class Decoder:
    """Decodes a run's events, segment after segment. Keeps what later events only refer to, for as long as they may.

    Events that tell an operator nothing (timers, workflow tasks that went well) decode to None.
    """

    converter: DataConverter
    run_id: str
    running: dict[int, str] = field(default_factory=dict)  # scheduled event id -> activity id, until it closes
    deciding: dict[int, str] = field(default_factory=dict)  # accepted event id -> decision id, until it is answered
    waiting: dict[str, Request] = field(default_factory=dict)  # by memo key

    async def decode(self, event: HistoryEvent) -> e.Event | None:
        read = _READERS.get(event.event_type)
        return await read(self, event) if read else None

    async def value(self, payloads: _Payloads) -> Any:
        """The first payload as JSON values; None if there is none."""
        found = list(payloads)
        if not found:
            return None
        [value] = await self.converter.decode(found[:1])
        return value

    async def failure(self, failure: Failure) -> tuple[str, str]:
        """(kind, message) of the innermost failure that says something."""
        copy = Failure()
        copy.CopyFrom(failure)
        if self.converter.payload_codec:
            await self.converter.payload_codec.decode_failure(copy)
        return _described(copy)


def _described(failure: Failure) -> tuple[str, str]:
    if failure.HasField("timeout_failure_info"):
        return f"timeout:{TimeoutType.Name(failure.timeout_failure_info.timeout_type)[13:].lower()}", failure.message
    if failure.HasField("canceled_failure_info"):
        return "cancelled", failure.message
    if failure.HasField("application_failure_info"):
        return failure.application_failure_info.type, failure.message
    if failure.HasField("cause"):
        return _described(failure.cause)
    return "failure", failure.message


def _at(event: HistoryEvent) -> datetime:
    return moment(event.event_time)


def moment(time: Timestamp) -> datetime:
    """A protobuf time with its zone, UTC."""
    return time.ToDatetime(tzinfo=UTC)


# --- one reader an event type -----------------------------------------------------------------------------------------


async def _started(d: Decoder, event: HistoryEvent) -> e.Event:
    a = event.workflow_execution_started_event_attributes
    start = _start(await d.value(a.input.payloads))
    d.running.clear()
    d.deciding.clear()
    await _waiting(d, a.memo.fields)
    return e.RunStarted(
        event.event_id,
        _at(event),
        run_id=d.run_id,
        segment_id=a.original_execution_run_id,
        first_segment_id=a.first_execution_run_id,
        start=start,
        by=a.identity,
        task_queue=a.task_queue.name,
        continues=a.continued_execution_run_id,
        parent=a.parent_workflow_execution.workflow_id,
    )


async def _waiting(d: Decoder, memo: Mapping[str, Payload]) -> None:
    """Take in what the memo says of what waits: each request in a slot of its own, or nothing in it any more."""
    for key in [key for key in memo if key.startswith(WAITING_PREFIX)]:
        d.waiting.pop(key, None)
        with suppress(ValueError):  # written by whoever started the run
            if (request := await d.value([memo[key]])) is not None:
                d.waiting[key] = Request.model_validate(request)


def _start(raw: Any) -> Start:
    try:
        return Start.model_validate(raw)
    except ValueError:
        return _NO_START


_NO_START = Start(agent="?", task="(this run was started with something that is not a perdure start)")


async def _scheduled(d: Decoder, event: HistoryEvent) -> e.Event:
    a = event.activity_task_scheduled_event_attributes
    d.running[event.event_id] = a.activity_id
    summary = await d.value([event.user_metadata.summary]) if event.user_metadata.HasField("summary") else ""
    return e.ActivityScheduled(
        event.event_id,
        _at(event),
        activity_id=a.activity_id,
        activity=a.activity_type.name,
        input=await d.value(a.input.payloads),
        summary=summary or "",
        start_to_close=a.start_to_close_timeout.ToTimedelta().total_seconds(),
    )


async def _activity_started(d: Decoder, event: HistoryEvent) -> e.Event:
    a = event.activity_task_started_event_attributes
    last = (await d.failure(a.last_failure))[1] if a.HasField("last_failure") else ""
    return e.ActivityStarted(
        event.event_id,
        _at(event),
        activity_id=d.running.get(a.scheduled_event_id, "?"),
        attempt=a.attempt,
        worker=a.identity,
        last_failure=last,
    )


async def _completed(d: Decoder, event: HistoryEvent) -> e.Event:
    a = event.activity_task_completed_event_attributes
    activity_id = d.running.pop(a.scheduled_event_id, "?")
    return e.ActivityCompleted(event.event_id, _at(event), activity_id, await d.value(a.result.payloads))


async def _failed(d: Decoder, event: HistoryEvent) -> e.Event:
    a = event.activity_task_failed_event_attributes
    kind, message = await d.failure(a.failure)
    return e.ActivityFailed(event.event_id, _at(event), d.running.pop(a.scheduled_event_id, "?"), kind, message)


async def _timed_out(d: Decoder, event: HistoryEvent) -> e.Event:
    a = event.activity_task_timed_out_event_attributes
    kind, message = await d.failure(a.failure)
    return e.ActivityFailed(event.event_id, _at(event), d.running.pop(a.scheduled_event_id, "?"), kind, message)


async def _cancelled(d: Decoder, event: HistoryEvent) -> e.Event:
    a = event.activity_task_canceled_event_attributes
    activity_id = d.running.pop(a.scheduled_event_id, "?")
    return e.ActivityFailed(event.event_id, _at(event), activity_id, "cancelled", "cancelled")


async def _handed(d: Decoder, event: HistoryEvent) -> e.Event:
    run = event.child_workflow_execution_started_event_attributes.workflow_execution
    return e.WorkHanded(event.event_id, _at(event), run.workflow_id, run.run_id)


def _returned(status: str) -> "_Reader":
    async def read(d: Decoder, event: HistoryEvent) -> e.Event:
        a = getattr(event, f"child_workflow_execution_{status}_event_attributes")
        return e.WorkReturned(event.event_id, _at(event), a.workflow_execution.workflow_id, status)

    return read


async def _properties(d: Decoder, event: HistoryEvent) -> e.Event | None:
    fields = event.workflow_properties_modified_event_attributes.upserted_memo.fields
    if STANDING not in fields:
        return None
    await _waiting(d, fields)
    standing = Standing.model_validate(await d.value([fields[STANDING]]))
    waits = sorted(d.waiting.values(), key=lambda each: (each.since, each.turn, each.call))  # a memo has no order
    now = standing.model_copy(update={"requests": tuple(waits)})
    return e.StandingChanged(event.event_id, _at(event), now)


async def _signaled(d: Decoder, event: HistoryEvent) -> e.Event | None:
    a = event.workflow_execution_signaled_event_attributes
    if a.signal_name == STEER:
        return await _steering(d, event, a.input.payloads, "signal", a.identity)
    if a.signal_name != DECIDE or not (decision := _decision(await d.value(a.input.payloads))):
        return None
    return e.DecisionReceived(event.event_id, _at(event), decision, "signal", a.identity)


async def _update_accepted(d: Decoder, event: HistoryEvent) -> e.Event | None:
    a = event.workflow_execution_update_accepted_event_attributes
    request = a.accepted_request
    if request.input.name == STEER:
        return await _steering(d, event, request.input.args.payloads, "update", request.meta.identity)
    if request.input.name != DECIDE or not (decision := _decision(await d.value(request.input.args.payloads))):
        return None
    d.deciding[event.event_id] = decision.id
    return e.DecisionReceived(event.event_id, _at(event), decision, "update", request.meta.identity)


async def _update_completed(d: Decoder, event: HistoryEvent) -> e.Event | None:
    a = event.workflow_execution_update_completed_event_attributes
    decision_id = d.deciding.pop(a.accepted_event_id, None)
    if decision_id is None:
        return None
    if a.outcome.HasField("failure"):
        _, message = await d.failure(a.outcome.failure)
        return e.DecisionAnswered(event.event_id, _at(event), decision_id, refused=message)
    settled = Settled.model_validate(await d.value(a.outcome.success.payloads))
    return e.DecisionAnswered(event.event_id, _at(event), decision_id, settled=settled)


async def _steering(d: Decoder, event: HistoryEvent, payloads: _Payloads, via: str, by: str) -> e.Event | None:
    try:
        steering = Steering.model_validate(await d.value(payloads))
    except ValueError:
        return None  # the run dropped it, too
    return e.SteeringReceived(event.event_id, _at(event), steering, via, by)


def _decision(raw: Any) -> Decision | None:
    try:
        return Decision.model_validate(raw)
    except ValueError:
        return None  # the run dropped it, too


async def _cancel_requested(d: Decoder, event: HistoryEvent) -> e.Event:
    a = event.workflow_execution_cancel_requested_event_attributes
    return e.CancelRequested(event.event_id, _at(event), by=a.identity, reason=a.cause)


async def _task_failed(d: Decoder, event: HistoryEvent) -> e.Event | None:
    a = event.workflow_task_failed_event_attributes
    _, message = await d.failure(a.failure)
    if a.cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW:
        return _retried(event, message)
    if not message:
        return None
    return e.WorkflowTaskFailed(event.event_id, _at(event), cause=str(a.cause), message=message, worker=a.identity)


def retry_told(by: str, reason: str) -> str:
    """The reason of a reset that is a retry."""
    return f"{_RETRIED}{by.replace(': ', ' ')}: {reason}"


def _retried(event: HistoryEvent, reason: str) -> e.Event | None:
    """A retry of ours; any other reset tells an operator nothing."""
    if not reason.startswith(_RETRIED):
        return None
    by, _, why = reason.removeprefix(_RETRIED).partition(": ")
    return e.RunRetried(event.event_id, _at(event), by, why)


def _ended(status: str, attributes: str) -> "_Reader":
    async def read(d: Decoder, event: HistoryEvent) -> e.Event:
        a = getattr(event, attributes)
        result = await d.value(a.result.payloads) if status == "completed" else None
        kind, message = await d.failure(a.failure) if status == "failed" else ("", getattr(a, "reason", ""))
        after = getattr(a, "new_execution_run_id", "")
        return e.RunEnded(event.event_id, _at(event), status, result, kind, message, continued_by=after)

    return read


_Reader = Callable[[Decoder, HistoryEvent], Any]

_READERS: dict[int, _Reader] = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: _started,
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: _scheduled,
    EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED: _activity_started,
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: _completed,
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: _failed,
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: _timed_out,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: _cancelled,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED: _handed,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED: _returned("completed"),
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED: _returned("failed"),
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED: _returned("canceled"),
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED: _returned("terminated"),
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT: _returned("timed_out"),
    EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED: _properties,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: _signaled,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: _update_accepted,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED: _update_completed,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED: _cancel_requested,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED: _task_failed,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: _ended(
        "completed", "workflow_execution_completed_event_attributes"
    ),
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: _ended("failed", "workflow_execution_failed_event_attributes"),
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: _ended(
        "cancelled", "workflow_execution_canceled_event_attributes"
    ),
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: _ended(
        "terminated", "workflow_execution_terminated_event_attributes"
    ),
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: _ended(
        "timed_out", "workflow_execution_timed_out_event_attributes"
    ),
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: _ended(
        "continued", "workflow_execution_continued_as_new_event_attributes"
    ),
}


async def decoded(converter: DataConverter, run_id: str, history: Iterable[HistoryEvent]) -> list[e.Event]:
    """All that means something of a run's history."""
    decoder = Decoder(converter, run_id)
    found = [await decoder.decode(event) for event in history]
    return [event for event in found if event is not None]
