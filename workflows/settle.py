"""One call, from verdict to observation. It always ends in one: ran, rejected, unknown, cancelled.

judged: refuse -> advice (settled with the turn, never seen here)
        ask    -> gate -> rejected, or granted -> run
        run    -> run
run:    ok, error     -> observation
        ask           -> the worker at the door wants a grant -> gate
        lost, unknown -> probe -> observation, or the operator: happened, run it again (same key), give up
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from perdure.core.contracts import (
    NEEDS_PERSON,
    STOPPED,
    Call,
    Choice,
    Effect,
    Ending,
    Grant,
    Observed,
    Ref,
    RequestKind,
    RunTool,
    Verdict,
)
from perdure.core.digests import idempotency_key, of_bytes
from workflows import calls
from workflows.gate import Answer, Gate, request_for


class Settling:
    """The way of one call. `_runs` counts its sendings to a worker: each has an activity id of its own."""

    def __init__(self, gate: Gate, agent: str, turn: int, turn_ref: Ref, call: Call) -> None:
        self.gate, self.agent, self.turn, self.turn_ref, self.call = gate, agent, turn, turn_ref, call
        root = workflow.info().first_execution_run_id
        self._key = idempotency_key(root, turn, call.index, call.name, call.digest)
        self._grant: Grant | None = None
        self._runs = 0
        self._latest = ""  # activity id of the latest sending
        self._doubt = ""  # why it may have taken effect, while nobody knows

    async def observed(self) -> Ref:
        """What came of the call. On cancel, what came of it until then."""
        why = self.call.reason or "policy" if self.call.verdict is Verdict.ASK else ""
        try:
            while True:
                if why and (rejected := await self._rejection(why)):
                    return rejected
                seen = await self._run()
                match seen.ending:
                    case Ending.ASK:
                        why = seen.reason
                    case Ending.UNKNOWN:
                        self._doubt = seen.reason or "no answer came"
                        if settled := await self._resolved(seen.reason):
                            return settled
                        why = self._doubt = ""
                    case _:
                        return self._recorded(seen)
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled_exception(error):
                return self._cut_short()
            raise

    def _cut_short(self) -> Ref:
        """What can be said of a call that was waiting when the run was cancelled."""
        if self._doubt:
            return self._said(f"outcome unknown: it may have taken effect ({self._doubt})", ok=False)
        return self._said("not run: the run was cancelled first", ok=False)

    async def _rejection(self, why: str) -> Ref | None:
        answer = await self._ask(RequestKind.APPROVAL, why)
        if answer.choice is Choice.APPROVE:
            self._grant = answer.grant
            return None
        reason = f" The operator's words: {answer.decision.reason!r}." if answer.decision.reason.strip() else ""
        return self._said(
            f"not run: an operator ({answer.decision.by}) rejected this call.{reason} Nothing was done. Do not ask for "
            "the same call again unchanged.",
            ok=False,
        )

    async def _run(self) -> Observed:
        """Send the call to a worker until one tells what came of it."""
        while True:
            self.gate.refuse_when_closed()
            activity_id = f"act-{self.turn}-{self.call.index}" + (f"r{self._runs}" if self._runs else "")
            self._runs += 1
            self._latest = activity_id
            try:
                return await calls.run_tool(self.call, self._message(), activity_id, turn=self.turn)
            except ActivityError as error:
                if is_cancelled_exception(error):
                    return self._lost("the run was cancelled while it ran")
                if not _needs_person(error):
                    return self._lost(cause(error))
                await self._until_mended(cause(error))

    def _lost(self, why: str) -> Observed:
        """Nobody reported back. A read did no harm; anything else may have happened."""
        if self.call.effect is Effect.READ:
            return Observed(digest="", ending=Ending.ERROR, reason=f"no result: {why}")
        return Observed(digest="", ending=Ending.UNKNOWN, reason=why)

    async def _until_mended(self, why: str) -> None:
        answer = await self._ask(RequestKind.STUCK, why)
        if answer.choice is Choice.STOP:
            raise ApplicationError(f"stopped by {answer.decision.by!r}: {why}", type=STOPPED, non_retryable=True)

    async def _resolved(self, why: str) -> Ref | None:
        """What became of a call with unknown outcome; None: it did not happen, run it again with the same key."""
        if self.gate.closed:
            return self._cut_short()
        if self.call.probe:
            probed = await self._probe()
            if probed.ending is not Ending.UNKNOWN:
                return self._recorded(probed) if probed.ending is Ending.OK else None
            why = f"{why}; its probe cannot tell: {probed.reason}"
        answer = await self._ask(RequestKind.UNKNOWN, why)
        match answer.choice:
            case Choice.RERUN:
                return None
            case Choice.HAPPENED:
                result = answer.decision.result or "(no result was given)"
                return self._said(f"done; as an operator ({answer.decision.by}) found out: {result}", ok=True)
            case _:
                note = f" The operator's words: {answer.decision.reason!r}." if answer.decision.reason.strip() else ""
                return self._said(
                    f"outcome unknown: it may have taken effect, and nobody could find out.{note} Do not say that it "
                    "was done, nor that it failed.",
                    ok=False,
                )

    async def _probe(self) -> Observed:
        """OK: it happened. ERROR: it surely did not."""
        activity_id = f"probe-{self.turn}-{self.call.index}" + (f"r{self._runs}" if self._runs > 1 else "")
        self._latest = activity_id
        try:
            return await calls.probe_tool(self.call, self._message(), activity_id, turn=self.turn)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            return Observed(digest="", ending=Ending.UNKNOWN, reason=cause(error))

    async def _ask(self, kind: RequestKind, why: str) -> Answer:
        request = request_for(
            kind,
            why,
            turn=self.turn,
            turn_id=self.turn_ref.id,
            call=self.call.index,
            tool=self.call.name,
            title=self.call.title,
            digest=self.call.digest,
        )
        return await self.gate.ask(request, key=self._key)

    def _message(self) -> RunTool:
        return RunTool(
            agent=self.agent,
            turn=self.turn,
            turn_id=self.turn_ref.id,
            turn_digest=self.turn_ref.digest,
            call=self.call.index,
            digest=self.call.digest,
            key=self._key,
            segment_id=workflow.info().run_id,
            grant=self._grant,
        )

    def _recorded(self, seen: Observed) -> Ref:
        if not seen.digest:  # nothing was recorded: the workflow's own words
            return self._said(seen.reason, ok=False)
        ok = seen.ending is Ending.OK
        return Ref(kind="observation", id=self._latest, digest=seen.digest, call=self.call.index, ok=ok)

    def _said(self, text: str, *, ok: bool) -> Ref:
        return Ref(kind="said", text=text, digest=of_bytes(text)[:32], call=self.call.index, ok=ok)


def _needs_person(error: ActivityError) -> bool:
    return isinstance(error.cause, ApplicationError) and error.cause.type == NEEDS_PERSON


def cause(error: ActivityError) -> str:
    """What went wrong, in its own words."""
    told = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause or error)
    return told[:1000]
