"""The gate: what waits for a person, keyed by request id.

A decision names its request; the first that is accepted settles it, in the order of the history. One for a request
that does not wait leaves nothing: nobody can approve the future. Request ids are drawn from the run's own randomness,
so a reset run asks anew and an old decision finds nothing to settle.
"""

import asyncio
from collections.abc import Callable

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.core.contracts import (
    CHOICES,
    CheckDecision,
    Checked,
    Choice,
    Decision,
    Request,
    RequestKind,
    Settled,
)
from workflows import calls

_SETTLED_KEPT = 200  # that many late answers still learn who was first


class Answer:
    """What an operator said, checked."""

    def __init__(self, decision: Decision, checked: Checked) -> None:
        self.decision, self.choice, self.grant = decision, decision.choice, checked.grant


class Gate:
    """What waits, and what was settled. `changed` is called whenever what waits does."""

    def __init__(
        self, requests: tuple[Request, ...], settled: tuple[Settled, ...], changed: Callable[[], None]
    ) -> None:
        self._waiting = {request.id: request for request in requests}
        self._settled = {each.request: each for each in settled}
        self._answers: dict[str, Answer] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._keys: dict[str, str] = {}
        self._changed = changed
        self._checks = 0
        self._closed = False

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
        return tuple(self._waiting.values())

    @property
    def settled(self) -> tuple[Settled, ...]:
        return tuple(self._settled.values())[-_SETTLED_KEPT:]

    async def ask(self, request: Request, *, key: str = "") -> Answer:
        """Wait until someone decides. On cancel the request is withdrawn."""
        self.refuse_when_closed()
        request = self._same_as_waiting(request) or request
        self._waiting[request.id] = request
        self._keys[request.id] = key
        self._changed()
        try:
            await workflow.wait_condition(lambda: request.id in self._answers)
        except asyncio.CancelledError:  # and nothing else: a run that leaves the cache is not to change
            self._withdraw(request)
            raise
        self._withdraw(request)
        return self._answers.pop(request.id)

    def _withdraw(self, request: Request) -> None:
        del self._waiting[request.id]
        self._changed()

    def _same_as_waiting(self, request: Request) -> Request | None:
        """The request a run was waiting for when it continued in this segment."""
        place = (request.kind, request.turn, request.call)
        return next((r for r in self._waiting.values() if (r.kind, r.turn, r.call) == place), None)

    def refuse_unfit(self, decision: Decision) -> None:
        """Raise what is wrong with a decision, as far as the run itself can tell. Changes nothing.

        Raises:
            ApplicationError: of type UnknownRequest, AlreadyDecided, WrongChoice or OtherBytes.
        """
        if earlier := self._settled.get(decision.request):
            if earlier.choice is not decision.choice:
                said = f"{earlier.choice} by {earlier.by!r} at {earlier.decided.isoformat(timespec='seconds')}"
                raise _refusal("AlreadyDecided", f"request {decision.request!r} was decided before: {said}")
            return
        request = self._waiting.get(decision.request)
        if request is None:
            raise _refusal("UnknownRequest", f"nothing waits under {decision.request!r} in this run: see perdure inbox")
        if decision.choice not in CHOICES[request.kind]:
            fit = ", ".join(CHOICES[request.kind])
            raise _refusal("WrongChoice", f"{decision.choice} does not answer a request of kind {request.kind}: {fit}")
        if decision.choice is Choice.APPROVE and decision.digest != request.digest:
            raise _refusal(
                "OtherBytes", f"what was approved is not what waits under {decision.request!r}: look again, then decide"
            )

    async def decide(self, decision: Decision) -> Settled:
        """Settle a request. Others wait their turn until this one is checked, then find it settled."""
        async with self._turns.setdefault(decision.request, asyncio.Lock()):
            self.refuse_unfit(decision)
            if earlier := self._settled.get(decision.request):
                return earlier.model_copy(update={"again": True})
            checked = await self._check(decision)
            if decision.request not in self._waiting:
                raise _refusal("UnknownRequest", f"request {decision.request!r} was withdrawn while it was decided")
            return self._settle(decision, checked)

    async def _check(self, decision: Decision) -> Checked:
        self._checks += 1
        asked = CheckDecision(
            decision=decision, request=self._waiting[decision.request], key=self._keys.get(decision.request, "")
        )
        checked = await calls.check_decision(asked, f"check-{self._checks}-{decision.request}")
        if not checked.accepted:
            raise _refusal("NotAllowed", checked.why)
        return checked

    def _settle(self, decision: Decision, checked: Checked) -> Settled:
        settled = Settled(
            request=decision.request,
            choice=decision.choice,
            by=decision.by,
            decided=checked.decided,
            verified=checked.verified,
        )
        self._settled[decision.request] = settled
        self._answers[decision.request] = Answer(decision, checked)
        return settled


def request_for(kind: RequestKind, reason: str, **about: object) -> Request:
    """A new request, waiting from now on."""
    request_id = f"{workflow.random().getrandbits(32):08x}"
    return Request.model_validate({"id": request_id, "kind": kind, "reason": reason, "since": workflow.now(), **about})


def _refusal(kind: str, why: str) -> ApplicationError:
    return ApplicationError(why, type=kind, non_retryable=True)
