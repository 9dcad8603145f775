"""One call, from verdict to observation. It always ends in one: ran, rejected, unknown, cancelled.

judged: refuse -> advice (settled with the turn, never seen here)
        ask    -> gate -> rejected, or granted -> send
        run    -> send, or, if it is a question, gate -> answered, or declined
                  handed to another agent: its run, to the end of that, -> send, to observe what came of it
sent:   ok, error     -> observation
        ask           -> the worker at the door wants a grant -> gate
        not run       -> sent again, a few times, then a person is asked to mend what keeps it
        lost, unknown -> probe -> observation, or the operator: happened, run it again (same key), give up
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from perdure.core.contracts import (
    NEEDS_PERSON,
    NOT_RUN,
    Call,
    Choice,
    Delegate,
    Effect,
    Ending,
    Observed,
    Question,
    Ref,
    Request,
    RequestKind,
    RunTool,
    Sent,
    Spent,
    Start,
    State,
    Verdict,
)
from perdure.core.digests import delegated_id, idempotency_key, of_bytes
from perdure.core.loop import latest_turn
from perdure.core.repeats import was_rejected
from workflows import calls
from workflows.delegate import NOTHING_LEFT, Budgeting, handed_over
from workflows.gate import Gate, Ruling, request_for

_SENDINGS_IN_VAIN = 5  # that never reached the tool, before a person is asked; the pauses double from a second on
_SENDINGS_UNDONE = 2  # after which the probe said that nothing happened; then the model is told
_REJECTED_BEFORE = (
    "not run: an operator rejected this very call before in this run, and is not asked about it again. Nothing was "
    "done. Change the arguments, take another tool, or give up and say what was not done."
)
_DECLINED_BEFORE = (
    "no answer: an operator declined to answer this very question before in this run, and is not asked it again. Go on "
    "without it, or say what is missing."
)

MayStart = Callable[[], Awaitable[None]]


class Settling:
    """The way of one call of the latest turn, from where `state` left it.

    Each sending to a worker has an activity id of its own, and waits until it `may_start`.
    """

    def __init__(
        self, start: Start, state: State, call: Call, gate: Gate, may_start: MayStart, budgeting: Budgeting
    ) -> None:
        self._may_start, self._budgeting = may_start, budgeting
        self.gate, self.agent, self.call = gate, start.agent, call
        self.turn, self.turn_ref = state.turn, latest_turn(state)
        self._key = idempotency_key(_root(start), self.turn, call.index, call.name, call.digest)
        sent = next((each for each in state.sent if each.call == call.index), Sent(call=call.index))
        self._by = sent.by  # the run that did it
        self.away = False  # another run is at it
        self.spent: Spent | None = None  # by that
        self._grant = sent.grant
        self._sendings = sent.sendings
        self._latest = ""  # activity id of the latest sending
        self._doubt = sent.doubt  # why it may have taken effect, while nobody knows
        carried = gate.carried(self.turn, call.index)
        # Rejected in an earlier turn: nobody is asked, unless somebody was when the run went on in this segment.
        self._barred = was_rejected(state, call) and not carried
        self.rejected = False  # by an operator

    @property
    def sent(self) -> Sent:
        """How far the call is."""
        return Sent(call=self.call.index, sendings=self._sendings, doubt=self._doubt, grant=self._grant, by=self._by)

    async def observed(self) -> Ref:
        """What came of the call. On cancel, what came of it until then."""
        try:
            if question := self.call.question:
                return await self._answered(question)
            why = self.call.reason or "policy" if self.call.verdict is Verdict.ASK and not self._grant else ""
            if carried := self.gate.carried(self.turn, self.call.index):
                if settled := await self._taken_up(carried):
                    return settled
                why = carried.reason if carried.kind is RequestKind.APPROVAL else ""
            while True:
                if why and (rejected := await self._rejection(why)):
                    return rejected
                if (delegate := self.call.delegate) and not self._by and (kept := await self._hand_over(delegate)):
                    return kept
                seen = await self._send()
                match seen.ending:
                    case Ending.ASK:
                        why = seen.reason
                    case Ending.UNKNOWN:
                        self._doubt = seen.reason or "no answer came"
                        if settled := await self._resolved(self._doubt):
                            return settled
                        why = self._doubt = ""
                    case _:
                        return self._recorded(seen)
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled_exception(error):
                return await self._last_word() or self._cut_short()
            raise

    async def _hand_over(self, delegate: Delegate) -> Ref | None:
        """Have another agent do it, and wait for its end; or what is said of the call, if nothing is left for that."""
        await self._may_start()
        self.gate.refuse_when_closed()
        limits = self._budgeting.share()
        if limits is None:
            return self._said(NOTHING_LEFT, ok=False)
        start = Start(agent=delegate.agent, task=delegate.task, root=self._key, limits=limits)
        run_id = delegated_id(delegate.agent, workflow.info().workflow_id, self.turn, self.call.index)
        self.away = True
        self._budgeting.changed()
        self._by = await handed_over(self.gate, start, run_id, partial(self._request, RequestKind.STUCK))
        self.away = False
        self._budgeting.changed()
        self.gate.refuse_when_closed()  # a cancel was waited out; before a pause, which nobody lifts then
        return None

    async def _last_word(self) -> Ref | None:
        """What came of work that was handed over, when the run ends: looked at once more, for that run has ended."""
        if self._by is None or self.spent:
            return None
        try:
            seen = await calls.run_tool(self.call, self._message(), self._next_sending(), turn=self.turn)
        except ActivityError as error:
            return self._said(f"handed to run {self._by.run_id}, which has ended: {cause(error)}", ok=False)
        self.spent = seen.spent
        return self._said(seen.reason, ok=seen.ending is Ending.OK)

    async def _taken_up(self, carried: Request) -> Ref | None:
        """Wait on for what was waited for when the run went on in this segment; what came of it, if anything."""
        match carried.kind:
            case RequestKind.UNKNOWN:
                settled = await self._ruled(carried.reason)
                self._doubt = self._doubt if settled else ""
                return settled
            case RequestKind.STUCK:
                await self.gate.mended(carried)
        return None

    def _cut_short(self) -> Ref:
        """What can be said of a call that was waiting when the run was cancelled."""
        if self._doubt:
            return self._said(f"outcome unknown: it may have taken effect ({self._doubt})", ok=False)
        what = "not answered" if self.call.question else "not run"
        return self._said(f"{what}: the run was cancelled first", ok=False)

    async def _answered(self, question: Question) -> Ref:
        """What an operator answers. No worker is asked."""
        if self._barred:
            return self._said(_DECLINED_BEFORE, ok=False)
        ruling = await self.gate.ask(self._request(RequestKind.QUESTION, question.text), choices=question.choices)
        if ruling.choice is Choice.ANSWER:
            return self._said(f"an operator ({ruling.by}) answers: {ruling.result}", ok=True)
        self.rejected = True
        return self._said(
            f"no answer: an operator ({ruling.by}) declined to answer.{ruling.words} Go on without it, or say what is "
            "missing. Do not ask the same again.",
            ok=False,
        )

    async def _rejection(self, why: str) -> Ref | None:
        if self._barred:
            return self._said(_REJECTED_BEFORE, ok=False)
        ruling = await self._ask(RequestKind.APPROVAL, why)
        if ruling.choice is Choice.APPROVE:
            self._grant = ruling.grant
            return None
        self.rejected = True
        return self._said(
            f"not run: an operator ({ruling.by}) rejected this call.{ruling.words} Nothing was done. Do not ask for "
            "the same call again unchanged.",
            ok=False,
        )

    async def _send(self) -> Observed:
        """Send the call to a worker until one tells what came of it."""
        in_vain = 0
        while True:
            await self._may_start()
            self.gate.refuse_when_closed()
            activity_id = self._next_sending()
            try:
                seen = await calls.run_tool(self.call, self._message(), activity_id, turn=self.turn)
                self.spent = seen.spent
                return seen
            except ActivityError as error:
                if is_cancelled_exception(error):
                    if self._by:
                        raise  # what it did is looked at once more
                    return self._cancelled(error)
                in_vain = in_vain + 1 if kind(error) == NOT_RUN else 0
                if 0 < in_vain < _SENDINGS_IN_VAIN:
                    await workflow.sleep(timedelta(seconds=2 ** (in_vain - 1)))
                elif kind(error) in (NOT_RUN, NEEDS_PERSON):
                    await self.gate.mended(self._request(RequestKind.STUCK, cause(error)))
                else:
                    return self._lost(cause(error))

    def _next_sending(self) -> str:
        self._latest = f"act-{self.turn}-{self.call.index}" + (f"r{self._sendings}" if self._sendings else "")
        self._sendings += 1
        return self._latest

    def _cancelled(self, error: ActivityError) -> Observed:
        """The run was cancelled. What is tried once and was not started did not happen."""
        if self.call.effect is Effect.ONCE and error.started_event_id == 0:
            return Observed(digest="", ending=Ending.ERROR, reason="not run: the run was cancelled first")
        return self._lost("the run was cancelled while it ran")

    def _lost(self, why: str) -> Observed:
        """Nobody reported back. A read did no harm; anything else may have happened."""
        if self.call.effect is Effect.READ:
            return Observed(digest="", ending=Ending.ERROR, reason=f"no result: {why}")
        return Observed(digest="", ending=Ending.UNKNOWN, reason=why)

    async def _resolved(self, why: str) -> Ref | None:
        """What became of a call with unknown outcome; None: it did not happen, run it again with the same key."""
        if self.gate.closed:
            return self._cut_short()
        if self.call.probe:
            probed = await self._probe()
            if probed.ending is Ending.OK:
                return self._recorded(probed)
            if probed.ending is Ending.ERROR:
                if self._sendings < _SENDINGS_UNDONE:
                    return None
                return self._said(f"it surely did not happen, although it was tried: {why}", ok=False)
            why = f"{why}; its probe cannot tell" + (f": {probed.reason}" if probed.reason else "")
        return await self._ruled(why)

    async def _ruled(self, why: str) -> Ref | None:
        """What an operator knows of it; None: it did not happen."""
        ruling = await self._ask(RequestKind.UNKNOWN, why)
        match ruling.choice:
            case Choice.RERUN:
                return None
            case Choice.HAPPENED:
                result = ruling.result or "(no result was given)"
                return self._said(f"done; as an operator ({ruling.by}) found out: {result}", ok=True)
            case _:
                return self._said(
                    f"outcome unknown: it may have taken effect, and nobody could find out.{ruling.words} Do not say "
                    "that it was done, nor that it failed.",
                    ok=False,
                )

    async def _probe(self) -> Observed:
        """OK: it happened. ERROR: it surely did not."""
        again = self._sendings - 1
        activity_id = f"probe-{self.turn}-{self.call.index}" + (f"r{again}" if again else "")
        self._latest = activity_id
        try:
            return await calls.probe_tool(self.call, self._message(), activity_id, turn=self.turn)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            return Observed(digest="", ending=Ending.UNKNOWN, reason=cause(error))

    async def _ask(self, kind: RequestKind, why: str) -> Ruling:
        return await self.gate.ask(self._request(kind, why), key=self._key)

    def _request(self, kind: RequestKind, why: str) -> Request:
        return request_for(
            kind,
            why,
            turn=self.turn,
            turn_id=self.turn_ref.id,
            call=self.call.index,
            tool=self.call.name,
            title=self.call.title,
            digest=self.call.digest,
        )

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
            by=self._by,
        )

    def _recorded(self, seen: Observed) -> Ref:
        if not seen.digest:  # nothing was recorded: the workflow's own words
            return self._said(seen.reason, ok=False)
        ok = seen.ending is Ending.OK
        return Ref(
            kind="observation", id=self._latest, digest=seen.digest, call=self.call.index, ok=ok, whole=seen.whole
        )

    def _said(self, text: str, *, ok: bool) -> Ref:
        return Ref(kind="said", text=text, digest=of_bytes(text)[:32], call=self.call.index, ok=ok)


def _root(start: Start) -> str:
    """What keys are made from, the same over segments and resets. For work handed over: the key of that call."""
    info = workflow.info()
    return (start.root if info.parent else "") or info.first_execution_run_id  # who just starts a run chooses no keys


def kind(error: ActivityError) -> str:
    """The failure type of an activity that failed; "" if it timed out."""
    return (error.cause.type or "") if isinstance(error.cause, ApplicationError) else ""


def cause(error: ActivityError) -> str:
    """What went wrong, in its own words."""
    told = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause or error)
    return told[:1000]
