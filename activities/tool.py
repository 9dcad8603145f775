"""Acting: checks at the door, then call in, observation out.

Nothing is believed for having arrived. The call's bytes come from the run's own record and must have the digest that
was asked for; and either the worker's own policy lets this call run freely, or it carries a grant, sealed by a worker,
for exactly this run, call and bytes.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.grants import refusal_of
from activities.own import agent_of, heartbeating, needs_person, recorded, segment, trouble
from perdure import Agent, Tool, ToolContext
from perdure.core.contracts import (
    PROBE_TOOL,
    RUN_TOOL,
    AdmittedCall,
    Effect,
    Ending,
    Observation,
    RecordedTurn,
    Ref,
    RunTool,
    Verdict,
)
from perdure.core.digests import of_bytes
from perdure.temporal.journal import Journal, TranscriptMismatchError
from perdure.tools.admission import judge
from perdure.tools.invoke import RetryTool, ask_probe, invoke, observation
from perdure.tools.parameters import ArgumentsError

log = structlog.get_logger("perdure")


@dataclass(frozen=True)
class Tools:
    agents: Mapping[str, Agent]
    journal: Journal
    grant_key: bytes

    @activity.defn(name=RUN_TOOL)
    async def run_tool(self, asked: RunTool) -> Observation:
        began = time.monotonic()
        async with heartbeating():
            call = await self._call(asked)
            tool = self._tool(asked, call)
            seen = self._barred(asked, tool, call) or _in_doubt(asked, tool) or await _observed(tool, call, asked)
        log.info(
            "call",
            run=activity.info().workflow_id,
            call=f"{asked.turn_id}/{asked.call}",
            tool=call.name,
            attempt=activity.info().attempt,
            ending=seen.ending,
            seconds=round(time.monotonic() - began, 3),
        )
        return recorded(self.journal, seen)

    @activity.defn(name=PROBE_TOOL)
    async def probe_tool(self, asked: RunTool) -> Observation:
        """What became of a lost call. OK: it happened, with the result. ERROR: it surely did not. UNKNOWN otherwise."""
        async with heartbeating():
            call = await self._call(asked)
            answer = await ask_probe(self._tool(asked, call), _context(asked))
        seen = answer or observation(Ending.UNKNOWN, "", "it cannot tell")
        log.info("probe", run=activity.info().workflow_id, tool=call.name, ending=seen.ending)
        return recorded(self.journal, seen)

    async def _call(self, asked: RunTool) -> AdmittedCall:
        """The call, from the run's own record.

        Raises:
            ApplicationError: the record does not hold it, or with other bytes.
        """
        try:
            ref = Ref(kind="turn", id=asked.turn_id, digest=asked.turn_digest)
            record = await self.journal.result(activity.client(), segment(), ref)
            call = RecordedTurn.model_validate(record).calls[asked.call]
        except (TranscriptMismatchError, IndexError) as error:
            raise needs_person(f"the run's history does not hold the call to run: {error}") from None
        if not call.digest == of_bytes(call.arguments) == asked.digest:
            raise ApplicationError("the bytes to run are not the bytes that were asked for", non_retryable=True)
        return call

    def _tool(self, asked: RunTool, call: AdmittedCall) -> Tool:
        toolbox = agent_of(self.agents, asked.agent).toolbox
        if call.name not in toolbox:
            raise needs_person(
                f"this worker's agent {asked.agent!r} has no tool {call.name!r} any more; it has: "
                f"{', '.join(sorted(toolbox)) or 'none'}. Deploy one that has it, then answer this request with retry; "
                "or with stop."
            )
        return toolbox[call.name]

    def _barred(self, asked: RunTool, tool: Tool, call: AdmittedCall) -> Observation | None:
        """Why this call may not run now, if so."""
        try:
            verdict, reason = judge(tool, tool.parameters.parse(call.arguments))
        except ArgumentsError:
            return None  # nothing will run: the tool changed, and invoke tells the model so
        if verdict is Verdict.RUN:
            return None
        run_id = activity.info().workflow_id or ""
        if asked.grant is None:
            return observation(Ending.ASK, "", reason)
        why = refusal_of(asked.grant, self.grant_key, run_id=run_id, call_key=asked.key, digest=asked.digest)
        return observation(Ending.ASK, "", f"{reason}; {why}") if why else None


def _in_doubt(asked: RunTool, tool: Tool) -> Observation | None:
    """A reset hands on what was under way when the history was cut: what may be done once may have been done."""
    if tool.effect is not Effect.ONCE or asked.segment_id == segment().segment_id:
        return None
    return observation(Ending.UNKNOWN, "", "the run was reset after this call had been sent to a worker")


async def _observed(tool: Tool, call: AdmittedCall, asked: RunTool) -> Observation:
    try:
        seen = await invoke(tool, call.arguments, _context(asked))
    except RetryTool as retry:
        raise trouble(str(retry), "ToolTrouble") from None
    if _shutting_down() and tool.effect is not Effect.ONCE and seen.ending is not Ending.OK:
        # The worker stops, not the run: another worker takes the call, with the same key.
        raise trouble("the worker was stopped while the tool ran", "WorkerStopped")
    return seen


def _shutting_down() -> bool:
    details = activity.cancellation_details()
    return details is not None and details.worker_shutdown


def _context(asked: RunTool) -> ToolContext:
    info = activity.info()
    return ToolContext(
        idempotency_key=asked.key,
        run_id=info.workflow_id or "",
        agent=asked.agent,
        turn=asked.turn,
        attempt=info.attempt,
    )
