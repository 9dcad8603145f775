"""The gate: what waits for a person, keyed by request id.

A decision names its request; the first that is accepted settles it, in the order of the history. One for a request
that does not wait leaves nothing: nobody can approve the future. Request ids are drawn from the run's own randomness;
when a reset changes that, what waits gets new ids, and old decisions, which the server hands to the reset run again,
find nothing to settle.
"""

import asyncio
from collections.abc import Callable

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.core.contracts import (
    CHOICES,
    STOPPED,
    CheckDecision,
    Checked,
    Choice,
    Decision,
    Request,
    RequestKind,
    Settled,
)
from perdure.core.digests import of_bytes
from workflows import calls

_MOST_REASON = 1_000  # characters
_SETTLED_KEPT = 200  # that many late answers still learn who was first


class Ruling:
    """What an operator decided, checked."""

    def __init__(self, decision: Decision, checked: Checked) -> None:
        self.choice, self.by, self.result, self.grant = decision.choice, decision.by, decision.result, checked.grant
        self.words = f" The operator's words: {decision.reason!r}." if decision.reason.strip() else ""


class _Waiting:
    """One request, and what came of it."""

    def __init__(self, request: Request) -> None:
        self.request, self.key, self.asked = request, "", False
        self.choices: tuple[str, ...] = ()
        self.answer: Ruling | None = None


class Gate:
    """What waits, and what was settled. `changed` is called whenever what waits does; `number` gives a new one.

    What a run waited for when it went on in this segment waits at once, and is taken up by who asked it there.
    """

    def __init__(
        self,
        requests: tuple[Request, ...],
        settled: tuple[Settled, ...],
        changed: Callable[[], None],
        number: Callable[[], int],
    ) -> None:
        self._waiting = [_Waiting(request) for request in requests]
        self._settled = {each.request: each for each in settled}
        self._locks: dict[str, asyncio.Lock] = {}
        self._changed, self._number = changed, number
        self._closed = False
        workflow.register_random_seed_callback(self._renew)

    @property
    def closed(self) -> bool:
        """Nobody is asked any more: the run is cancelled, or stopped."""
        return self._closed or workflow.cancellation_reason() is not None

    def close(self) -> None:
        self._closed = True

    def refuse_when_closed(self) -> None:
        """Raise what a cancelled task would meet at its next wait; tasks that swallowed it in an activity need it."""
        if self.closed:
            raise asyncio.CancelledError

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(waiting.request for waiting in self._waiting)

    @property
    def unanswered(self) -> int:
        """How many were asked in this segment, and have no answer yet."""
        return sum(waiting.asked and waiting.answer is None for waiting in self._waiting)

    @property
    def untaken(self) -> bool:
        """Whether something waits that was asked in the segment before, and by nobody yet in this one."""
        return any(not waiting.asked for waiting in self._waiting)

    @property
    def settled(self) -> tuple[Settled, ...]:
        return tuple(self._settled.values())[-_SETTLED_KEPT:]

    async def ask(self, request: Request, *, key: str = "", choices: tuple[str, ...] = ()) -> Ruling:
        """Wait until someone decides. On cancel the request is withdrawn. `choices`: of a question, if it has any."""
        self.refuse_when_closed()
        waiting = self._carried(request.turn, request.call) or _Waiting(request)
        waiting.asked, waiting.key, waiting.choices = True, key, choices
        if waiting not in self._waiting:
            self._waiting.append(waiting)
        self._changed()
        try:
            await workflow.wait_condition(lambda: waiting.answer is not None)
        except asyncio.CancelledError:  # and nothing else: a run that leaves the cache is not to change
            self._withdraw(waiting)
            raise
        self._withdraw(waiting)
        assert waiting.answer is not None
        return waiting.answer

    async def mended(self, request: Request) -> None:
        """Wait until someone says that what keeps the run from going on is mended.

        Raises:
            ApplicationError: of type STOPPED, when someone says to stop.
        """
        ruling = await self.ask(request)
        if ruling.choice is Choice.STOP:
            raise ApplicationError(f"stopped by {ruling.by!r}: {request.reason}", type=STOPPED, non_retryable=True)

    def carried(self, turn: int, call: int = -1) -> Request | None:
        """What the run waited for in this place when it went on in this segment, until it is asked here."""
        waiting = self._carried(turn, call)
        return waiting.request if waiting else None

    def _carried(self, turn: int, call: int) -> "_Waiting | None":
        of_place = (each for each in self._waiting if (each.request.turn, each.request.call) == (turn, call))
        return next((each for each in of_place if not each.asked), None)

    def _withdraw(self, waiting: "_Waiting") -> None:
        self._waiting.remove(waiting)
        self._changed()

    def _renew(self, seed: int) -> None:
        """The run was reset: what waits is asked anew. Called between steps, out of reach of `workflow.random`."""
        for waiting in self._waiting:
            renewed = of_bytes(f"{seed} {waiting.request.id}")[:8]
            waiting.request = waiting.request.model_copy(update={"id": renewed})
            self._changed()

    def _find(self, request_id: str) -> "_Waiting | None":
        return next((waiting for waiting in self._waiting if waiting.request.id == request_id), None)

    def refuse_unfit(self, decision: Decision) -> None:
        """Raise what is wrong with a decision, as far as the run itself can tell. Changes nothing.

        Raises:
            ApplicationError: of type UnknownRequest, AlreadyDecided, WrongChoice, OtherBytes or NoAnswer.
        """
        if earlier := self._settled.get(decision.request):
            if earlier.choice is not decision.choice:
                said = f"{earlier.choice} by {earlier.by!r} at {earlier.decided.isoformat(timespec='seconds')}"
                raise refusal("AlreadyDecided", f"request {decision.request!r} was decided before: {said}")
            return
        waiting = self._find(decision.request)
        if waiting is None:
            raise refusal("UnknownRequest", f"nothing waits under {decision.request!r} in this run: see perdure inbox")
        request = waiting.request
        if decision.choice not in CHOICES[request.kind]:
            fit = ", ".join(CHOICES[request.kind])
            raise refusal("WrongChoice", f"{decision.choice} does not answer a request of kind {request.kind}: {fit}")
        if decision.choice is Choice.APPROVE and decision.digest != request.digest:
            raise refusal(
                "OtherBytes", f"what was approved is not what waits under {decision.request!r}: look again, then decide"
            )
        if decision.choice is Choice.ANSWER:
            _refuse_no_answer(decision, waiting.choices)

    async def decide(self, decision: Decision) -> Settled:
        """Settle a request. Others wait their turn until this one is checked, then find it settled."""
        async with self._locks.setdefault(decision.request, asyncio.Lock()):
            self.refuse_unfit(decision)
            if earlier := self._settled.get(decision.request):
                return earlier.model_copy(update={"again": True})
            waiting = self._find(decision.request)
            assert waiting is not None, "refuse_unfit refuses what does not wait"
            await workflow.wait_condition(lambda: waiting.asked or self.closed)  # carried over: in a moment, or never
            self._refuse_withdrawn(decision, waiting)
            self.refuse_unfit(decision)  # now that its choices are known
            checked = await self._check(decision, waiting)
            self._refuse_withdrawn(decision, waiting)
            return self._settle(decision, checked, waiting)

    def _refuse_withdrawn(self, decision: Decision, waiting: "_Waiting") -> None:
        if self._find(decision.request) is not waiting or not waiting.asked:
            raise refusal("UnknownRequest", f"request {decision.request!r} was withdrawn while it was decided")

    async def _check(self, decision: Decision, waiting: "_Waiting") -> Checked:
        asked = CheckDecision(decision=decision, request=waiting.request, key=waiting.key)
        checked = await calls.check_decision(asked, f"check-{self._number()}-{decision.request}")
        if not checked.accepted:
            raise refusal("NotAllowed", checked.why)
        return checked

    def _settle(self, decision: Decision, checked: Checked, waiting: "_Waiting") -> Settled:
        settled = Settled(
            request=decision.request,
            choice=decision.choice,
            by=decision.by,
            decided=checked.decided,
            verified=checked.verified,
        )
        self._settled[decision.request] = settled
        waiting.answer = Ruling(decision, checked)
        return settled


def _refuse_no_answer(decision: Decision, choices: tuple[str, ...]) -> None:
    if not decision.result.strip():
        raise refusal("NoAnswer", "an answer needs words (result); to give none, reject the question")
    if choices and decision.result not in choices:
        fit = ", ".join(map(repr, choices))
        raise refusal("NoAnswer", f"{decision.result[:100]!r} is none of the answers that may be given: {fit}")


def request_for(kind: RequestKind, reason: str, **about: object) -> Request:
    """A new request, waiting from now on."""
    return Request.model_validate(
        {"id": _new_id(), "kind": kind, "reason": reason[:_MOST_REASON], "since": workflow.now(), **about}
    )


def _new_id() -> str:
    return f"{workflow.random().getrandbits(32):08x}"


def refusal(kind: str, why: str) -> ApplicationError:
    """Why an operator's word is not taken."""
    return ApplicationError(why, type=kind, non_retryable=True)
