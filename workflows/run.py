"""One agent run: think, act, observe, until there is an answer. The whole of it is `AgentRun._loop`."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

from perdure.core.contracts import (
    DECIDE,
    RUN,
    STEER,
    TOO_LONG,
    AskCritic,
    Call,
    CallModel,
    Choice,
    CompactTranscript,
    Decision,
    Detour,
    Lane,
    Limits,
    Outcome,
    RequestKind,
    Reviewed,
    RunState,
    Settled,
    Start,
    State,
    Steered,
    Steering,
)
from perdure.core.limits import extended, finishing, share, with_cost
from perdure.core.loop import (
    next_step,
    still_fits,
    too_long,
    uncompacted,
    unsettled,
    with_context,
    with_critique,
    with_observation,
    with_time,
    with_turn,
)
from perdure.core.reports import cut_short
from perdure.core.steps import Act, AskForMore, Compact, Criticise, Finish, Hold, RollOver, Think
from workflows import calls
from workflows.archive import Archive
from workflows.board import Board, memo
from workflows.delegate import Budgeting
from workflows.gate import Gate, request_for
from workflows.helm import Helm
from workflows.lanes import detour_of, wherever
from workflows.settle import Settling, cause, kind
from workflows.signals import signalled
from workflows.stopwatch import Stopwatch

_LATER = 1_000  # events, before it is tried again to go on in a new segment
_MOST_WHY = 300  # characters of a cancel's reason

A = TypeVar("A", CallModel, AskCritic)
T = TypeVar("T")


@workflow.defn(name=RUN)
class AgentRun:
    @workflow.init
    def __init__(self, start: Any = None, *more: Any) -> None:
        # Checked in run(), where a start nobody can read fails the run instead of wedging its first task.
        self._state = _carried(start)
        self._numbers = count(self._state.serial)
        number = partial(next, self._numbers)
        self._board = Board(self._state.requests, self._now)
        self._gate = Gate(self._state.requests, self._state.decided, self._board.changed, number)
        self._helm = Helm(self._state.course, self._is_over, self._board.changed, number)
        self._archive = Archive(self._state.left, number)
        self._settling: dict[int, Settling] = {}  # the calls of the latest turn, by index
        worked = self._state.seconds + self._state.begun
        self._stopwatch = Stopwatch(worked, workflow.now(), waiting=self._is_waiting())
        self._doing: asyncio.Task[None] | None = None  # the step that is being taken
        self._vain = 0  # length of the history before which it is not tried again to leave it

    @workflow.run
    async def run(self, start: Any = None, *more: Any) -> Outcome:
        self._publishing = asyncio.create_task(self._board.publish_changes())
        self._archive.begin()
        try:
            return await self._loop(Start.model_validate([start, *more] if more else start))
        except (Exception, asyncio.CancelledError) as error:
            await self._broken_off()
            if is_cancelled_exception(error):
                if self._state.outcome:  # it came together with the end, and too late
                    return await self._end(self._state)
                await self._end(cut_short(self._state, RunState.CANCELLED, _cancelled_why()))
                raise
            await self._end(cut_short(self._state, RunState.FAILED, _told(error)))
            if isinstance(error, FailureError):
                raise
            raise ApplicationError(_told(error), type=type(error).__name__, non_retryable=True) from error

    async def _loop(self, start: Start) -> Outcome:
        while True:
            self._board.detail(self._now())
            await self._helm.checked()
            self._state = self._helm.into(self._state)
            if self._doing is None and not self._gate.untaken:  # or another step might be due than is being taken
                self._state = with_time(self._state, self._worked())
            is_long = self._may_roll_over()
            match next_step(start, self._state, is_long=is_long, asked=self._gate.untaken):
                case Think(asked):
                    await self._do(partial(self._think, asked))
                case Act(todo):
                    await self._do(partial(self._act, start, todo))
                case Criticise(question):
                    await self._do(partial(self._criticise, question))
                case AskForMore(why):
                    await self._do(partial(self._ask_for_more, why))
                case Compact(asked):
                    await self._do(partial(self._compact, asked))
                case Hold():
                    await self._do(self._helm.resumed)
                case RollOver(carry):
                    await self._roll_over(start, carry)
                case Finish():
                    return await self._end(self._state)

    async def _do(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Take a step to its end, or until the run may go on in a new segment while the step waits for a person."""
        self._doing = self._doing or asyncio.create_task(step())
        await workflow.wait_condition(lambda: self._is_done() or self._may_roll_over())
        if self._is_done():
            done, self._doing = self._doing, None
            done.result()

    async def _broken_off(self) -> None:
        """Tell the step that is being taken, and wait until it has let everything end."""
        if self._doing:
            self._doing.cancel()
            await asyncio.gather(self._doing, return_exceptions=True)

    def _is_done(self) -> bool:
        return self._doing is not None and self._doing.done()

    async def _think(self, asked: CallModel) -> None:
        """Ask the model, until there is a turn or a shorter question."""
        try:
            activity_id, turn = await self._answered("think", asked, "lane", calls.call_model)
        except ActivityError as error:
            if kind(error) != TOO_LONG:
                raise
            if shorter := too_long(self._state):
                self._state = shorter
            else:
                await self._mended(error, asked.turn)
        else:
            self._helm.heard(asked.since)
            self._state = with_turn(self._helm.into(self._state), activity_id, asked, turn)

    async def _compact(self, asked: CompactTranscript) -> None:
        ids = (f"compact-{number}" for number in self._numbers)
        try:
            carried, activity_id = await wherever(partial(calls.compact_transcript, asked), ids)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            self._state = uncompacted(self._state)
        else:
            self._state = with_context(with_cost(self._state, carried.usage, carried.cost), carried, activity_id)

    async def _criticise(self, asked: AskCritic) -> None:
        """Ask the critic, until it says something. The work may be too long for it: then it has nothing to say."""
        try:
            activity_id, seen = await self._answered("critic", asked, "critic_lane", calls.ask_critic)
        except ActivityError as error:
            if kind(error) != TOO_LONG:
                raise
            activity_id, seen = "", Reviewed(digest="", told=False, cost=Decimal(0))
            await self._helm.checked()
        self._state = with_critique(self._helm.into(self._state), activity_id, asked, seen)

    async def _answered(
        self, who: str, asked: A, lane: str, ask: Callable[[A, str, Lane], Awaitable[T]]
    ) -> tuple[str, T]:
        """What a model answers, and under which activity id: another for each try. What was said before it is heard.

        A detour is followed; what else keeps the model from answering, a person is asked to mend.

        Args:
            lane: the field of the state that says where it is asked.

        Raises:
            ActivityError: of type TOO_LONG; or cancelled.
        """
        if carried := self._gate.carried(asked.turn):
            await self._gate.mended(carried)
        detour: Detour | None = None
        while True:
            await self._helm.resumed()
            self._gate.refuse_when_closed()
            tries, here = self._state.tries, getattr(self._state, lane)
            activity_id = f"{who}-{asked.turn}" + (f"r{tries}" if tries else "")
            try:
                answer = await ask(asked.model_copy(update={"detour": detour}), activity_id, here)
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                self._state = self._state.model_copy(update={"tries": tries + 1})
                if detour := detour_of(error, here, detour):
                    self._state = self._state.model_copy(update={lane: detour.lane})
                elif kind(error) == TOO_LONG:
                    raise
                else:
                    await self._mended(error, asked.turn)
            else:
                await self._helm.checked()
                return activity_id, answer

    async def _mended(self, error: ActivityError, turn: int) -> None:
        await self._gate.mended(request_for(RequestKind.STUCK, cause(error), turn=turn))

    async def _act(self, start: Start, todo: tuple[Call, ...]) -> None:
        """Settle calls concurrently. If one of them stops the run, the others are told and waited for."""
        self._settling = {}
        settling = [asyncio.create_task(self._settle(start, call)) for call in todo]
        try:
            await asyncio.gather(*settling)
        except (Exception, asyncio.CancelledError):
            self._gate.close()
            for task in settling:
                task.cancel()
            await asyncio.gather(*settling, return_exceptions=True)
            raise

    async def _settle(self, start: Start, call: Call) -> None:
        budgeting = Budgeting(self._share, self._worked)
        settling = Settling(start, self._state, call, self._gate, self._helm.resumed, budgeting)
        self._settling[call.index] = settling
        ref = await settling.observed()  # first: siblings change the state meanwhile
        self._state = with_observation(self._state, ref, rejected=settling.rejected)
        if spent := settling.spent:
            self._state = with_cost(self._state, spent.usage, spent.cost)
            self._stopwatch.add(spent.seconds)

    def _share(self) -> Limits | None:
        """What a run may spend that does one of the turn's calls; None: nothing is left for it."""
        among = sum(call.delegate is not None for call in unsettled(self._state))
        return share(with_time(self._state, self._worked()), among)

    async def _ask_for_more(self, why: str) -> None:
        turn = self._state.turn + 1
        ruling = await self._gate.ask(request_for(RequestKind.LIMIT, why, turn=turn))
        self._state = extended(self._state) if ruling.choice is Choice.EXTEND else finishing(self._state)

    # --- a new segment ------------------------------------------------------------------------------------------------

    def _may_roll_over(self) -> bool:
        """Whether the history is long, and all that is being done waits for a person."""
        info = workflow.info()
        if (
            not info.is_continue_as_new_suggested()
            or self._gate.closed
            or info.get_current_history_length() < self._vain
        ):
            return False
        if self._doing is None:
            return True
        waiting = len(unsettled(self._state)) or 1
        return (
            self._gate.unanswered + self._helm.held == waiting
            and workflow.all_handlers_finished()
            and not self._is_done()
        )

    async def _roll_over(self, start: Start, carry: CompactTranscript) -> None:
        """Go on in a new segment; unless somebody decides meanwhile, for then that comes first."""
        try:
            ids = (f"carry-{number}" for number in self._numbers)
            carried, _ = await wherever(partial(calls.compact_transcript, carry), ids)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            self._vain = workflow.info().get_current_history_length() + _LATER  # the old segment does for a while
            return
        self._state = with_cost(self._state, carried.usage, carried.cost)
        self._gate.refuse_when_closed()
        await workflow.wait_condition(workflow.all_handlers_finished)
        if not self._may_roll_over() or not still_fits(self._state, carry):
            return
        state = with_context(self._now(), carried).model_copy(
            update={
                "sent": tuple(settling.sent for settling in self._settling.values()),
                "serial": next(self._numbers),
                "left": self._archive.left(stored=self._is_stored()),
                "began": self._state.began or workflow.info().workflow_start_time,
                "begun": self._worked() - self._state.seconds,
            }
        )
        after = start.model_copy(update={"state": state, "carried": carried})
        workflow.continue_as_new(after, memo=memo(state))

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _end(self, state: State) -> Outcome:
        assert state.outcome is not None
        outcome = state.outcome.model_copy(update={"seconds": round(self._worked(), 3)})
        state = self._state = state.model_copy(update={"outcome": outcome})
        self._gate.close()
        with contextlib.suppress(asyncio.CancelledError):  # a cancel now comes too late
            await workflow.wait_condition(workflow.all_handlers_finished)
        self._board.publish()
        await self._archive.end(outcome, stored=self._is_stored())
        return outcome

    # --- what operators say -----------------------------------------------------------------------------------

    @workflow.update(name=DECIDE)
    async def decide(self, decision: Decision) -> Settled:
        return await self._gate.decide(decision)

    @decide.validator
    def refuse_unfit(self, decision: Decision) -> None:
        self._gate.refuse_unfit(decision)

    @workflow.signal(name=DECIDE)
    async def decide_by_signal(self, *said: Any) -> None:
        """As the update, without an answer."""
        await signalled(Decision, said, self._gate.refuse_unfit, self._gate.decide)

    @workflow.update(name=STEER)
    async def steer(self, steering: Steering) -> Steered:
        return await self._helm.steer(steering)

    @steer.validator
    def refuse_unfit_steering(self, steering: Steering) -> None:
        self._helm.refuse_unfit(steering)

    @workflow.signal(name=STEER)
    async def steer_by_signal(self, *said: Any) -> None:
        await signalled(Steering, said, self._helm.refuse_unfit, self._helm.steer)

    def _is_over(self) -> bool:
        return self._state.outcome is not None or self._gate.closed

    def _worked(self) -> float:
        return self._stopwatch.read(workflow.now(), waiting=self._is_waiting())

    def _is_waiting(self) -> bool:
        """Whether it is up to a person that the run goes on, or to another run."""
        away = any(settling.away for settling in self._settling.values())
        return bool(self._gate.requests) or self._helm.course.paused is not None or away

    def _now(self) -> State:
        """The state with what waits and how the run is steered."""
        self._worked()  # what waits may have changed
        requests, decided = self._gate.requests, self._gate.settled
        return self._helm.into(self._state).model_copy(update={"requests": requests, "decided": decided})

    def _is_stored(self) -> bool:
        return self._state.opened is not None and self._state.opened.stored


def _carried(start: Any) -> State:
    """The state that a run continues from; a fresh one if there is none, or none that can be read."""
    try:
        begun = Start.model_validate(start)
        return begun.state or State(share=begun.limits)
    except ValidationError:
        return State()


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:1000]


def _cancelled_why() -> str:
    return (workflow.cancellation_reason() or "cancelled")[:_MOST_WHY]
