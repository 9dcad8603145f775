"""Acting: checks at the door, then call in, observation out.

Nothing is believed for having arrived. The call's bytes come from the run's own record and must have the digest that
was asked for; and either the worker's own policy lets this call run freely, or it carries a grant, sealed by a worker,
for exactly this run, call and bytes. A call that another run did acts no more: its end is read from the server.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.delegate import seen_of
from activities.grants import refusal_of
from activities.own import agent_of, heartbeating, needs_person, not_here, recorded, segment, trouble
from perdure import Agent, Tool, ToolContext
from perdure.core.contracts import (
    NOT_RUN,
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
from perdure.files import Files
from perdure.store import StoreError
from perdure.temporal.journal import Journal, TranscriptMismatchError
from perdure.tools.admission import judge
from perdure.tools.invoke import Keeping, RetryTool, ask_probe, invoke, observation
from perdure.tools.parameters import ArgumentsError
from perdure.tools.reading import Outputs

log = structlog.get_logger("perdure")

_TO_RECORD = timedelta(seconds=15)  # of an attempt's time: for a tool to notice its limit, and for what came of it
_FOREVER = timedelta(days=365)


@dataclass(frozen=True)
class Tools:
    agents: Mapping[str, Agent]
    journal: Journal
    grant_key: bytes
    outputs: Outputs | None = None
    files: Files = field(default_factory=lambda: Files(None))

    @activity.defn(name=RUN_TOOL)
    async def run_tool(self, asked: RunTool) -> Observation:
        began = time.monotonic()
        tries = next(iter(activity.info().heartbeat_details), 0)  # of the tool's own: lost workers do not count
        async with heartbeating(tries):
            call, tool = await self._found(asked)
            if asked.by:
                seen = await seen_of(asked.by, asked.key, tool, self._keeping())
            else:
                kept_out = self._barred(asked, tool, call) or _in_doubt(asked, tool)
                seen = kept_out or await _tried(tool, call, asked, tries + 1, self._keeping())
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
            _, tool = await self._found(asked)
            answer = await ask_probe(_within_limits(tool), _context(asked, 1), self._keeping())
        seen = answer or observation(Ending.UNKNOWN, "", "")
        log.info("probe", run=activity.info().workflow_id, tool=tool.name, ending=seen.ending)
        return recorded(self.journal, seen)

    async def _found(self, asked: RunTool) -> tuple[AdmittedCall, Tool]:
        """The call and its tool.

        Raises:
            ApplicationError: of type NOT_RUN or NEEDS_PERSON. Whatever goes wrong here, the tool has not been reached.
        """
        try:
            call = await self._call(asked)
            return call, self._tool(asked, call)
        except ApplicationError:
            raise
        except Exception as error:
            raise trouble(f"{type(error).__name__}: {error}"[:1000], NOT_RUN) from error

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
            raise needs_person("the bytes to run are not the bytes that were asked for: answer this request with stop")
        return call

    def _tool(self, asked: RunTool, call: AdmittedCall) -> Tool:
        toolbox = agent_of(self.agents, asked.agent).toolbox
        if call.name not in toolbox:
            raise not_here(
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

    def _keeping(self) -> Keeping:
        return Keeping(self._keep, partial(self.files.keep_what_fits, activity.info().workflow_id or ""))

    async def _keep(self, text: str) -> str:
        """Keep an observation that is about to be cut. A store that fails costs the rest of the text, not the call."""
        if self.outputs is None:
            return ""
        info = activity.info()
        try:
            return await self.outputs.keep(info.workflow_id or "", info.activity_id, text)
        except StoreError as error:
            log.warning("store", run=info.workflow_id, why=str(error))
            return ""


def _in_doubt(asked: RunTool, tool: Tool) -> Observation | None:
    """Why a call that may be done once may have been done: only a reset, or another declaration, hands it out again."""
    if tool.effect is not Effect.ONCE:
        return None
    if asked.segment_id and asked.segment_id != segment().segment_id:
        return observation(Ending.UNKNOWN, "", "the run was reset after this call had been sent to a worker")
    if activity.info().attempt > 1:
        return observation(Ending.UNKNOWN, "", "an attempt was lost while the tool still said that it may be repeated")
    return None


async def _tried(tool: Tool, call: AdmittedCall, asked: RunTool, tries: int, keep: Keeping) -> Observation:
    try:
        seen = await invoke(_within_limits(tool), call.arguments, _context(asked, tries), keep)
    except RetryTool as retry:
        activity.heartbeat(tries)
        raise trouble(str(retry), "ToolTrouble") from None
    if _shutting_down() and tool.effect is not Effect.ONCE and seen.ending is not Ending.OK:
        # The worker stops, not the run: another worker takes the call, with the same key.
        raise trouble("the worker was stopped while the tool ran", "WorkerStopped")
    return seen


def _within_limits(tool: Tool) -> Tool:
    """The tool, with no more time than the run gives this attempt: a deploy may have raised its limit since."""
    given = activity.info().start_to_close_timeout or _FOREVER
    return replace(tool, timeout=min(tool.timeout, max(given - _TO_RECORD, given / 2).total_seconds()))


def _shutting_down() -> bool:
    details = activity.cancellation_details()
    return details is not None and details.worker_shutdown


def _context(asked: RunTool, tries: int) -> ToolContext:
    return ToolContext(
        idempotency_key=asked.key,
        run_id=activity.info().workflow_id or "",
        agent=asked.agent,
        turn=asked.turn,
        attempt=tries,
    )
