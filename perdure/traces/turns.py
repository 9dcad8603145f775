"""From a run's events to its trace: pure, for running, ended and saved runs alike.

First everything is indexed by what it names (activity, request, decision), then each turn is put together from the
index. Only what the record says is used: where a call's end was told to the model in the next turn, that is what is
shown; before, what its activity returned.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from perdure.core.contracts import (
    ASK_CRITIC,
    CALL_MODEL,
    CHECK_DECISION,
    CHECK_STEERING,
    COMPACT_TRANSCRIPT,
    NEEDS_PERSON,
    NOT_RUN,
    PROBE_TOOL,
    RUN_TOOL,
    AdmittedCall,
    AskCritic,
    CallModel,
    Carried,
    CheckDecision,
    Checked,
    CheckSteering,
    Choice,
    Critique,
    Ending,
    FileRef,
    Observation,
    Opening,
    Outcome,
    RecordedTurn,
    Ref,
    RunState,
    RunTool,
    Spent,
    Standing,
    State,
    Stop,
    Usage,
    Verdict,
)
from perdure.core.digests import delegated_id
from perdure.core.messages import thoughts
from perdure.traces import asking
from perdure.traces import events as e
from perdure.traces.figures import unsupported_figures, values_alone
from perdure.traces.shape import (
    Asked,
    CallState,
    Cancelling,
    Compaction,
    Execution,
    Retried,
    Suspension,
    Trace,
    TracedCall,
    TracedCritique,
    TracedTurn,
)

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
_Part = e.ActivityStarted | e.ActivityCompleted | e.ActivityFailed
_NEVER = 1970  # the year in which an attempt begins that has not begun
_Place = tuple[int, int]  # (turn, call index; -1 for the turn itself)


def trace(events: Sequence[e.Event]) -> Trace:
    """The trace of a run, from its events in order.

    Raises:
        ValueError: there is no start among them.
    """
    if not any(isinstance(event, e.RunStarted) for event in events):
        raise ValueError("these events hold no start of a run: give the whole history, from its first event")
    return _Index(events).trace()


class _Index:
    """Events by what they name."""

    def __init__(self, events: Sequence[e.Event]) -> None:
        self.events = events
        starts = [event for event in events if isinstance(event, e.RunStarted)]
        self.started, self.segment_id = starts[0], starts[-1].segment_id
        self.before = starts[0].start.state or State()  # what was before the first event: nothing, unless that is gone
        self.scheduled = {event.activity_id: event for event in events if isinstance(event, e.ActivityScheduled)}
        self.results = {event.activity_id: event.result for event in events if isinstance(event, e.ActivityCompleted)}
        self.executions = self._executed()
        self.asks = self._inputs(CALL_MODEL, CallModel)
        self.turn_of = {activity_id: asked.turn for activity_id, asked in self.asks.items()}
        self.told = self._told()
        self.standing = next((ev.standing for ev in reversed(events) if isinstance(ev, e.StandingChanged)), Standing())
        self.sent = {**self._inputs(RUN_TOOL, RunTool), **self._inputs(PROBE_TOOL, RunTool)}
        self.ended = next((ev for ev in events if isinstance(ev, e.RunEnded) and ev.status != "continued"), None)
        self.handed = {ev.run_id for ev in events if isinstance(ev, e.WorkHanded)}
        self.away = self.handed - {ev.run_id for ev in events if isinstance(ev, e.WorkReturned)}
        self.asked = asking.asked(events, self._checks())
        self.spoken = asking.spoken(events, self._checked_words(), self.asks.values())
        self.asked_at = _grouped(self.asked, lambda each: (each.request.turn, each.request.call))
        by_call = [id for id in self.scheduled if id in self.sent]
        self.sent_for = _grouped(by_call, lambda id: (self.turn_of.get(self.sent[id].turn_id), self.sent[id].call))

    def _of(self, *activities: str) -> list[str]:
        return [id for id, event in self.scheduled.items() if event.activity in activities]

    def _inputs(self, activity: str, model: type[M]) -> dict[str, M]:
        found = ((id, read(model, self.scheduled[id].input)) for id in self._of(activity))
        return {id: one for id, one in found if one}

    def _executed(self) -> dict[str, tuple[Execution, ...]]:
        """By activity id. One id is sent twice only where something went wrong: all the more it is to be seen."""
        sendings: dict[str, list[tuple[e.ActivityScheduled, list[_Part]]]] = defaultdict(list)
        for event in self.events:
            if isinstance(event, e.ActivityScheduled):
                sendings[event.activity_id].append((event, []))
            elif isinstance(event, _Part) and sendings[event.activity_id]:
                sendings[event.activity_id][-1][1].append(event)
        return {id: tuple(_execution(*sending) for sending in sent) for id, sent in sendings.items()}

    def _all(self, ids: Iterable[str]) -> tuple[Execution, ...]:
        return tuple(execution for id in ids for execution in self.executions[id])

    def _last(self, activity_id: str) -> Execution:
        return self.executions[activity_id][-1]

    def _told(self) -> dict[_Place, Ref]:
        """What the model was told of each call: in the request that follows the call's turn."""
        told: dict[_Place, Ref] = {}
        for asked in self.asks.values():
            turn = next((self.turn_of.get(ref.id, 0) for ref in asked.since if ref.kind == "turn"), 0)
            told.update({(turn, ref.call): ref for ref in asked.since if ref.kind in ("observation", "advice", "said")})
        return told

    def _checks(self) -> dict[str, Checked]:
        checks = self._inputs(CHECK_DECISION, CheckDecision)
        found = ((asked.decision.id, read(Checked, self.results.get(id))) for id, asked in checks.items())
        return {decision_id: checked for decision_id, checked in found if checked}

    def _checked_words(self) -> dict[str, Checked]:
        checks = self._inputs(CHECK_STEERING, CheckSteering)
        found = ((asked.steering.id, read(Checked, self.results.get(id))) for id, asked in checks.items())
        return {steering_id: checked for steering_id, checked in found if checked}

    # --- turns and calls ----------------------------------------------------------------------------------------------

    def turns(self) -> tuple[TracedTurn, ...]:
        numbers = dict.fromkeys(asked.turn for asked in self.asks.values())
        return tuple(self._turn(number) for number in numbers)

    def _turn(self, number: int) -> TracedTurn:
        ids = [id for id, turn in self.turn_of.items() if turn == number]
        answered, turn = next(
            ((id, found) for id in ids if (found := read(RecordedTurn, self.results.get(id)))), (ids[-1], None)
        )
        parts = thoughts(turn.protocol, turn.message) if turn else ()
        return TracedTurn(
            number=number,
            started=self.scheduled[ids[0]].at,
            ended=self._last(answered).ended,
            model=turn.model if turn else "",
            heard=tuple(ref.text for ref in self.asks[answered].since if ref.kind == "note" and not ref.id),
            claims=tuple(part for part in parts if part.kind != "call" or (turn and turn.stop is Stop.UNREAD)),
            stop=turn.stop if turn else None,
            answer=turn.answer if turn else "",
            usage=turn.usage if turn else Usage(),
            calls=tuple(self._call(number, call) for call in turn.calls) if turn else (),
            executions=self._all(ids),
            asked=self.asked_at[(number, -1)],
            said=tuple(each for each in self.spoken if each.turn == number),
            cost=turn.cost if turn else None,
            critique=self._critique(number),
            protocol=turn.protocol if turn and turn.place else "",
            passed=turn.passed if turn else (),
        )

    def _critique(self, number: int) -> TracedCritique | None:
        asks = {id: asked for id, asked in self._inputs(ASK_CRITIC, AskCritic).items() if asked.turn == number}
        if not asks:
            return None
        found = (read(Critique, self.results.get(id)) for id in asks)
        said = next((each for each in found if each), None)
        return TracedCritique(
            occasion=next(iter(asks.values())).occasion.value,
            text=said.text if said else "",
            approved=said.approved if said else False,
            told=said.told if said else False,
            protocol=said.protocol if said else "",
            model=said.model if said else "",
            usage=said.usage if said else Usage(),
            executions=self._all(asks),
            cost=said.cost if said else None,
        )

    def _files(self, ids: Sequence[str]) -> tuple[FileRef, ...]:
        """What the sendings of a call brought besides text."""
        found = (read(Observation, self.results.get(id)) for id in ids)
        return tuple(file for seen in found if seen for file in seen.files)

    def _call(self, turn: int, call: AdmittedCall) -> TracedCall:
        asked = self.asked_at[(turn, call.index)]
        ids = self.sent_for[turn, call.index]
        state, observation = self._end_of((turn, call.index), call, asked, ids)
        return TracedCall(
            index=call.index,
            id=call.id,
            tool=call.name,
            asked_name=call.asked_name if call.asked_name != call.name else "",
            title=call.title,
            arguments=call.arguments,
            digest=call.digest,
            effect=call.effect,
            verdict=call.verdict,
            reason=call.reason,
            state=state,
            observation=observation,
            files=self._files(ids),
            asked=asked,
            executions=self._all(ids),
            key=self.sent[ids[-1]].key if ids else "",
            choices=call.question.choices if call.question else (),
            by=self._by(turn, call),
            spent=self._spent(ids),
        )

    def _by(self, turn: int, call: AdmittedCall) -> str:
        """The run that a call was handed to."""
        if call.delegate is None:
            return ""
        run_id = delegated_id(call.delegate.agent, self.started.run_id, turn, call.index)
        return run_id if run_id in self.handed else ""

    def _spent(self, ids: Sequence[str]) -> Spent | None:
        found = (read(Observation, self.results.get(id)) for id in reversed(ids))
        return next((seen.spent for seen in found if seen and seen.spent), None)

    def _end_of(
        self, place: _Place, call: AdmittedCall, asked: tuple[Asked, ...], ids: tuple[str, ...]
    ) -> tuple[CallState, str | None]:
        """How a call stands, and the words the model hears of it."""
        if call.verdict is Verdict.REFUSE:
            return "refused", call.reason
        ruled = next((each.settled.choice for each in reversed(asked) if each.settled), None)
        ref = self.told.get(place)
        if (
            ref
            and ref.kind == "said"
            and not (ref.ok or asked or ids)
            and (call.question or call.verdict is Verdict.ASK)
        ):
            return "rejected", ref.text  # before, in this run: nobody was asked again
        if ref and ref.kind == "said":
            return _RULED.get(ruled, "ok" if ref.ok else "error"), ref.text
        seen = read(Observation, self.results.get(ref.id if ref else ids[-1] if ids else ""))
        if ref or (seen and seen.ending in (Ending.OK, Ending.ERROR)):
            return ("ok" if seen and seen.ending is Ending.OK else "error"), seen.text if seen else None
        if any(each.until is None for each in asked):
            return "waiting", None
        if not self.ended and (self._by(place[0], call) in self.away or (ids and self._last(ids[-1]).ended is None)):
            return "running", None
        if ruled in _RULED:
            words = next(each.settled for each in reversed(asked) if each.settled)
            return _RULED[ruled], words.result or None
        if ids and not self.ended and ruled is not Choice.RERUN and not self._is_unsent(ids[-1]):
            return "unknown", None
        sent = ids and not self._is_unsent(ids[-1])
        return ("unknown" if sent else "not_run") if self.ended else "pending", None

    def _is_unsent(self, activity_id: str) -> bool:
        """Whether it failed before the tool was reached: it is sent again, or a person mends what keeps it."""
        return self._last(activity_id).failure_kind in (NOT_RUN, NEEDS_PERSON)

    # --- the whole ----------------------------------------------------------------------------------------------------

    def trace(self) -> Trace:
        turns, opening, compactions = self.turns(), self._opening(), self._compactions()
        usage = sum(
            (each.usage for each in (*turns, *(turn.critique for turn in turns), *compactions) if each),
            self.before.usage,
        )
        outcome = self._outcome(turns, compactions, usage)
        cancel = next((event for event in self.events if isinstance(event, e.CancelRequested)), None)
        cancelling = Cancelling(cancel.at, cancel.by, cancel.reason) if cancel else None
        calls = [call for turn in turns for call in turn.calls]
        spent = [call.spent.usage for call in calls if call.spent]
        observed = [call.observation for call in calls if call.observation]
        answer = outcome.answer if outcome else ""
        files = self.started.start.files
        saw_files = bool(files) or any(call.files for call in calls)
        structured = bool(opening and opening.answer is not None and turns and turns[-1].stop is Stop.ANSWER and answer)
        claimed = values_alone(answer) if structured else answer
        return Trace(
            run_id=self.started.run_id,
            segment_id=self.segment_id,
            agent=self.started.start.agent,
            task=self.started.start.task,
            state=outcome.state if outcome else self._standing_state(cancelling),
            started=self.before.began or self.started.at,
            ended=self.ended.at if self.ended else None,
            by=self.started.by,
            task_queue=self.started.task_queue,
            protocol=opening.protocol if opening else "",
            model=opening.model if opening else "",
            budget=opening.turns if opening else None,
            usage=usage,
            turns=turns,
            asked=tuple(asked for asked in self.asked if not any(asked.request.turn == turn.number for turn in turns)),
            waiting=tuple(asked for asked in self.asked if asked.until is None),
            outcome=outcome,
            unsupported=() if saw_files else unsupported_figures(claimed, [self.started.start.task, *observed]),
            suspensions=self._suspensions(),
            cancelling=cancelling,
            last=max(event.at for event in self.events),
            events=len(self.events),
            turns_gone=self.before.turn,
            files=files,
            spoken=self.spoken,
            paused=self.standing.paused if outcome is None else None,
            retried=tuple(Retried(ev.at, ev.by, ev.reason) for ev in self.events if isinstance(ev, e.RunRetried)),
            structured=structured,
            tools=self.started.start.tools,
            limits=opening.limits if opening else None,
            cost=(outcome.cost if outcome else _sum(turns, compactions, self.before))
            if opening and opening.limits
            else None,
            compactions=compactions,
            parent=self.started.parent,
            handed=sum(spent[1:], spent[0]) if spent else None,
        )

    def _compactions(self) -> tuple[Compaction, ...]:
        """Those for which the model was asked for a summary, also where nothing came of the new segment."""
        found = (read(Carried, self.results.get(id)) for id in self._of(COMPACT_TRANSCRIPT))
        return tuple(Compaction(each.usage, each.cost) for each in found if each and each.usage != Usage())

    def _opening(self) -> Opening | None:
        """What the model was offered: it stands in the first turn, and goes along into new segments."""
        if (carried := self.started.start.carried) and carried.opening:
            return carried.opening
        first = (read(RecordedTurn, self.results.get(id)) for id, asked in self.asks.items() if not asked.previous)
        return next((turn.opening for turn in first if turn and turn.opening), None)

    def _outcome(self, turns: Sequence[TracedTurn], compactions: Sequence[Compaction], usage: Usage) -> Outcome | None:
        end = self.ended
        if end is None:
            return None
        found = read(Outcome, end.result) or self.standing.outcome
        if found and end.status in ("completed", "failed", "cancelled"):
            return found
        state = RunState.CANCELLED if end.status == "cancelled" else RunState.FAILED
        told = ": ".join(part for part in (end.failure_type, end.failure) if part)
        reason = told if end.status == "failed" and told else f"{end.status.replace('_', ' ')}{told and f': {told}'}"
        usage = sum((call.spent.usage for turn in turns for call in turn.calls if call.spent), usage)
        cost = _sum(turns, compactions, self.before)
        return Outcome(state=state, reason=reason, turns=len(self.turn_of), usage=usage, cost=cost)

    def _standing_state(self, cancelling: Cancelling | None) -> RunState:
        if cancelling:
            return RunState.CANCELLING
        if self.standing.paused:
            return RunState.PAUSED
        if any(asked.until is None for asked in self.asked):
            return RunState.WAITING
        acting = self.away or any(self._last(id).ended is None for id in self._of(RUN_TOOL, PROBE_TOOL))
        return RunState.ACTING if acting else RunState.THINKING

    def _suspensions(self) -> tuple[Suspension, ...]:
        """Only the workflow schedules, publishes and answers: what follows one of those shows that it moves again."""
        moves = (e.RunStarted, e.ActivityScheduled, e.StandingChanged, e.DecisionAnswered, e.RunEnded)
        last = max(place for place, event in enumerate(self.events) if isinstance(event, moves))
        return tuple(
            Suspension(event.at, event.cause, event.message, event.worker, over=place < last)
            for place, event in enumerate(self.events)
            if isinstance(event, e.WorkflowTaskFailed)
        )


def read(model: type[M], value: Any) -> M | None:
    """`value` as `model`; None if it is of another version or hand: it shows as missing and never hides the rest."""
    if value is None:
        return None
    try:
        return model.model_validate(value)
    except ValidationError:
        return None


def _sum(turns: Sequence[TracedTurn], compactions: Iterable[Compaction], before: State) -> Decimal | None:
    """What the run cost; None if of one of its turns nobody knows."""
    costs = [turn.cost for turn in turns if turn.stop]
    costs += [each.cost for each in compactions]
    costs += [turn.critique.cost for turn in turns if turn.critique and turn.critique.protocol]
    costs += [call.spent.cost for turn in turns for call in turn.calls if call.spent]
    if before.unpriced or None in costs:
        return None
    return sum(filter(None, costs), before.cost)


def _grouped(things: Iterable[T], place: Callable[[T], Any]) -> dict[Any, tuple[T, ...]]:
    groups: dict[Any, tuple[T, ...]] = defaultdict(tuple)
    for thing in things:
        groups[place(thing)] += (thing,)
    return groups


def _execution(scheduled: e.ActivityScheduled, parts: list[_Part]) -> Execution:
    starts = (event for event in parts if isinstance(event, e.ActivityStarted))
    latest = max(starts, key=lambda event: event.attempt, default=None)
    end = next((event for event in parts if not isinstance(event, e.ActivityStarted)), None)
    return Execution(
        scheduled.activity_id,
        scheduled=scheduled.at,
        ended=end.at if end else None,
        attempts=latest.attempt if latest else 0,
        worker=latest.worker if latest else "",
        last_failure=latest.last_failure if latest else "",
        failure=f"{end.kind}: {end.message}" if isinstance(end, e.ActivityFailed) else "",
        begun=latest.at if latest and latest.at.year > _NEVER else None,
        failure_kind=end.kind if isinstance(end, e.ActivityFailed) else "",
    )


_RULED: dict[Choice | None, CallState] = {
    Choice.REJECT: "rejected",
    Choice.HAPPENED: "ok",
    Choice.ANSWER: "ok",
    Choice.GIVE_UP: "unknown",
}
