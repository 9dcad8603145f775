"""The workflow's only door to the world: one typed function per activity, with how long it may take and how often.

And one for a run of another agent, which takes as long as it takes.

Activity ids are explicit, since records are found by them: `think-7`, `act-7-0`, `probe-7-0`, `critic-7`,
`check-3-...`. What is run again at a person's word gets a new one: `act-7-0r1`.
"""

import asyncio
import contextlib
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ChildWorkflowError
from temporalio.workflow import ActivityCancellationType, ChildWorkflowCancellationType, ParentClosePolicy

from perdure.core.contracts import (
    AGENT_ATTRIBUTE,
    ASK_CRITIC,
    CALL_MODEL,
    CHECK_DECISION,
    CHECK_STEERING,
    COMPACT_TRANSCRIPT,
    EXPORT_SEGMENT,
    PROBE_TOOL,
    RUN,
    RUN_TOOL,
    AskCritic,
    Call,
    CallModel,
    Carried,
    CheckDecision,
    Checked,
    CheckSteering,
    CompactTranscript,
    Delegated,
    Detour,
    Effect,
    Exported,
    ExportSegment,
    Lane,
    Observed,
    Reviewed,
    RunTool,
    Start,
    Turn,
)

T = TypeVar("T")

_AGENT = SearchAttributeKey.for_keyword(AGENT_ATTRIBUTE)
# Heartbeats are sent by the framework, also for tools that block. The time counts from when the server hands a call
# out: a worker that is short of CPU takes up a burst of calls only after seconds, and is not dead for that.
LOST_WORKER = timedelta(seconds=20)
_SLOWEST_MODEL = timedelta(minutes=20)
_QUICK = timedelta(seconds=30)
_SLOW_STORE = timedelta(minutes=5)
_TOOL_GRACE = timedelta(seconds=30)  # for the tool's own limit to strike first, and its observation to be recorded

# About ten minutes of trouble (longer if the provider names a time) before a person is asked.
_MODEL_TROUBLE = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1), maximum_attempts=15
)
_FEW_TIMES = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10), maximum_attempts=10
)
# The tool's own attempts are counted where it runs; these bound the workers that one call may take down with it.
_LOST_TOOL = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30), maximum_attempts=20
)
_HARDLY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)  # an end waits for it
_NEVER_AGAIN = RetryPolicy(maximum_attempts=1)
_ENDED_WITH = "the run that it works for ended first"


def code(inert: str) -> str:
    """Text that shows no control characters, as a markdown code span: Temporal's UI renders summaries and details."""
    return "`" + inert.replace("`", "'") + "`"


async def call_model(asked: CallModel, activity_id: str, lane: Lane) -> Turn:
    thinking = workflow.start_activity(
        CALL_MODEL,
        asked,
        result_type=Turn,
        activity_id=activity_id,
        summary=f"turn {asked.turn}: think" if asked.tools else f"turn {asked.turn}: last answer, no tools",
        task_queue=lane.queue or None,
        schedule_to_start_timeout=_patience(lane),
        start_to_close_timeout=_SLOWEST_MODEL,
        heartbeat_timeout=LOST_WORKER,
        retry_policy=_MODEL_TROUBLE,
    )
    return await _ended(thinking)


async def ask_critic(asked: AskCritic, activity_id: str, lane: Lane) -> Reviewed:
    reviewing = workflow.start_activity(
        ASK_CRITIC,
        asked,
        result_type=Reviewed,
        activity_id=activity_id,
        summary=f"turn {asked.turn}: critic, after {asked.occasion}",
        task_queue=lane.queue or None,
        schedule_to_start_timeout=_patience(lane),
        start_to_close_timeout=_SLOWEST_MODEL,
        heartbeat_timeout=LOST_WORKER,
        retry_policy=_MODEL_TROUBLE,
    )
    return await _ended(reviewing)


def _patience(lane: Lane) -> timedelta | None:
    return timedelta(seconds=lane.patience) if lane.queue else None


async def run_tool(call: Call, asked: RunTool, activity_id: str, *, turn: int) -> Observed:
    """Run a call. On cancel the tool is told, and whatever came of it is waited for."""
    running = workflow.start_activity(
        RUN_TOOL,
        asked,
        result_type=Observed,
        activity_id=activity_id,
        summary=f"turn {turn}: {code(call.title)}",
        start_to_close_timeout=timedelta(seconds=call.timeout) + _TOOL_GRACE,
        heartbeat_timeout=LOST_WORKER,
        retry_policy=_NEVER_AGAIN if call.effect is Effect.ONCE else _LOST_TOOL,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )
    return await _ended(running)


async def run_agent(start: Start, run_id: str) -> Delegated:
    """Start a run and wait until it has ended, however it does. On cancel it is told, and waited for.

    Raises:
        WorkflowAlreadyStartedError: a run of this id is open.
    """
    starting = asyncio.create_task(
        workflow.start_child_workflow(
            RUN,
            start,
            id=run_id,
            cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            search_attributes=TypedSearchAttributes([SearchAttributePair(_AGENT, start.agent)]),
            static_summary=start.agent,
        )
    )
    why = ""
    while not starting.done():  # what is cancelled while it starts would run on, and nobody would wait for it
        try:
            await workflow.wait([starting])
        except asyncio.CancelledError:
            why = _ENDED_WITH
    running = starting.result()
    if why:
        running.cancel(why)
    with contextlib.suppress(ChildWorkflowError):
        await _ended(running, _ENDED_WITH)
    return Delegated(run_id=run_id, segment_id=running.first_execution_run_id or "")


async def _ended(running: asyncio.Task[T], why: str | None = None) -> T:
    """What came of an activity, also when a cancel arrives together with its result: a plain await would lose that."""
    while not running.done():
        try:
            await workflow.wait([running])
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # lets a result that came in this same step be taken in
            running.cancel(why)
    return running.result()


async def probe_tool(call: Call, asked: RunTool, activity_id: str, *, turn: int) -> Observed:
    """Ask the tool's own probe what became of a lost call. Reads only, so it may be asked again."""
    observed: Observed = await workflow.execute_activity(
        PROBE_TOOL,
        asked,
        result_type=Observed,
        activity_id=activity_id,
        summary=f"turn {turn}: what became of {code(call.title)}?",
        start_to_close_timeout=timedelta(seconds=call.timeout) + _TOOL_GRACE,
        heartbeat_timeout=LOST_WORKER,
        retry_policy=_FEW_TIMES,
    )
    return observed


async def check_decision(asked: CheckDecision, activity_id: str) -> Checked:
    decision = asked.decision
    checked: Checked = await workflow.execute_activity(
        CHECK_DECISION,
        asked,
        result_type=Checked,
        activity_id=activity_id,
        summary=f"check: {decision.choice} on request {decision.request}",
        start_to_close_timeout=_QUICK,
        retry_policy=_FEW_TIMES,
    )
    return checked


async def check_steering(asked: CheckSteering, activity_id: str) -> Checked:
    checked: Checked = await workflow.execute_activity(
        CHECK_STEERING,
        asked,
        result_type=Checked,
        activity_id=activity_id,
        summary=f"check: {asked.steering.steer}",
        start_to_close_timeout=_QUICK,
        retry_policy=_FEW_TIMES,
    )
    return checked


async def compact_transcript(asked: CompactTranscript, activity_id: str, detour: Detour | None) -> Carried:
    lane = detour.lane if detour else Lane()
    compacting = workflow.start_activity(
        COMPACT_TRANSCRIPT,
        asked.model_copy(update={"detour": detour}),
        result_type=Carried,
        activity_id=activity_id,
        summary="compact the transcript",
        task_queue=lane.queue or None,
        schedule_to_start_timeout=_patience(lane),
        start_to_close_timeout=_SLOWEST_MODEL,
        heartbeat_timeout=LOST_WORKER,
        retry_policy=_FEW_TIMES,
    )
    return await _ended(compacting)


async def export_segment(asked: ExportSegment, activity_id: str) -> Exported:
    """Best effort: the history stays on the server for a while, and it is tried again from the next segment."""
    exported: Exported = await workflow.execute_activity(
        EXPORT_SEGMENT,
        asked,
        result_type=Exported,
        activity_id=activity_id,
        summary="keep the trace",
        start_to_close_timeout=_SLOW_STORE,
        heartbeat_timeout=LOST_WORKER,
        retry_policy=_HARDLY,
    )
    return exported
