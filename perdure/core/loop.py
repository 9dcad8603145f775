"""ReAct as a pure function of the run's state: what must happen next, and what each happening makes of the state.

The rules, in order:

1. Prompt, tools and settings are recorded with the first turn, and kept to the run's end.
2. A turn that asks for calls is acted on; every call settles before the model is asked again, and all observations go
   back together, in call order. A call is never left unanswered.
3. A turn with an answer ends the run: `answered`; unless an operator said something before that the model has not
   heard: see perdure.core.course, also for pauses. One that the provider refused ends it: `refused`.
4. A blank turn is not sent back, an unread one is (so is an answer that is not of its form); the model is told so, and
   asked again, three times at most in a row.
5. A paused turn is sent back unchanged; one cut at the output limit is sent back with a note. Both count as turns.
6. When a budget is spent (perdure.core.limits), or the run goes round in circles (perdure.core.repeats), the model is
   asked once more, without tools. However that ends: `limited`. Before, an operator may be asked for more of a budget.
7. A critic is asked, where the run has one, as perdure.core.reflection says.
8. Where a request has grown beyond what the agent asks for, or the model takes, the transcript is compacted first.
9. Where the history has grown long and nothing is in flight, the run goes on in a new segment, from a compacted
   transcript. What the model has not seen yet goes along whole, and so does what waits for a person.
"""

from perdure.core.contracts import (
    AskCritic,
    Call,
    CallModel,
    Carried,
    CompactTranscript,
    Outcome,
    Ref,
    Reviewed,
    RunState,
    Start,
    State,
    Stop,
    Turn,
    Verdict,
)
from perdure.core.course import notes
from perdure.core.digests import beginning, of_bytes, of_transcript
from perdure.core.limits import may_ask, spent, with_cost
from perdure.core.reflection import critique_due, proposing, reviewed, waits_for_critic
from perdure.core.repeats import renewed, stopped, tallied, warnings, with_rejected
from perdure.core.steps import Act, AskForMore, Compact, Criticise, Finish, Hold, NextStep, RollOver, Think

_BLANKS_IN_A_ROW = 3
_GROWN = 4  # one part in so many of the threshold
_MOST_SQUEEZED = 3  # times that the transcript is halved once more because the model found it too long
_SHORT_TASK = 2_000  # characters
_BLANK_NOTE = (
    "Your last message was empty: it held neither text nor a tool call. Call a tool, or give your answer as text."
)
_CUT_NOTE = (
    "Your last message was cut at the output limit. Go on from where it stopped, more briefly, or split the work over "
    "several calls."
)
_SPENT_NOTE = (
    "{why}: no tool can be called any more. Answer now with what the observations so far support, and say plainly what "
    "is not known or was not done."
)


def next_step(start: Start, state: State, *, is_long: bool = False, asked: bool = False) -> NextStep:
    """What must happen next.

    Args:
        is_long: the history is, and nothing is in flight.
        asked: a person was asked by the step that is due, in the segment before; it waits on, also while paused.
    """
    if state.outcome:
        return Finish(state.outcome)
    if is_long:
        return RollOver(_compaction(start.agent, state, carry=True))
    if todo := unsettled(state):
        return Act(todo)
    if state.course.paused and not asked:
        return Hold()
    if critique := critique_due(start.agent, state, spent=bool(_why_last(state))):
        return Criticise(critique)
    if (why := spent(state)) and may_ask(state) and not _circling(state):
        return AskForMore(why)
    if _is_long_for_the_model(state):
        return Compact(_compaction(start.agent, state, carry=False))
    question = _question(start, state)
    return Think(question if state.opened else question.model_copy(update={"only": start.tools}))


def unsettled(state: State) -> tuple[Call, ...]:
    """The calls of the latest turn that have no observation yet."""
    settled = {ref.call for ref in state.observed}
    return tuple(call for call in state.calls if call.index not in settled)


def _is_long_for_the_model(state: State) -> bool:
    """Where it cannot be made smaller than the threshold, it must have grown to be worth another try."""
    most = state.opened.compact_at if state.opened else 0
    return state.too_long or 0 < max(most, most and state.smallest + most // _GROWN) <= state.input


def _compaction(agent: str, state: State, *, carry: bool) -> CompactTranscript:
    return CompactTranscript(
        agent=agent,
        previous=state.turn_id,
        digest=state.digest,
        since=(*state.since, *state.observed),
        carry=carry,
        halvings=max(state.squeezed, 0 if carry else 1),
    )


def _question(start: Start, state: State) -> CallModel:
    why = _why_last(state)
    own = (_SPENT_NOTE.format(why=why[0].upper() + why[1:]),) if why else warnings(state)
    observed = sorted(state.observed, key=lambda ref: ref.call)
    since = (*state.since, *observed, *notes(state.course), *map(_note, own))
    return CallModel(
        agent=start.agent,
        turn=state.turn + 1,
        previous=state.turn_id,
        before=state.digest,
        since=since,
        after=of_transcript(
            state.digest, beginning(start.task, (file.sha256 for file in start.files)), (ref.digest for ref in since)
        ),
        tools=not why,
        task=start.task if state.turn == 0 and not start.files and len(start.task) <= _SHORT_TASK else "",
    )


def _is_compacted(asked: CallModel) -> bool:
    """Whether this is the first turn on a transcript that was compacted, not only carried over."""
    return any(ref.kind == "context" and ref.id for ref in asked.since)


def _spoken(asked: CallModel) -> bool:
    """Whether the model heard an operator before this turn."""
    return any(ref.kind == "note" and ref.id for ref in asked.since)


def _why_last(state: State) -> str:
    """Why the turn to come is the last one, without tools, if it is."""
    return spent(state) or _circling(state)


def _circling(state: State) -> str:
    """Why it is, since the run goes round in circles. Told what to do, it may leave its circle."""
    return "" if state.course.unheard else stopped(state)


def _note(text: str) -> Ref:
    return Ref(kind="note", text=text, digest=of_bytes(text)[:32])


def with_turn(state: State, activity_id: str, asked: CallModel, turn: Turn) -> State:
    """The state after the model took turn `asked.turn`, recorded by `activity_id`."""
    blanks = state.blanks + 1 if turn.stop in (Stop.BLANK, Stop.UNREAD) else 0
    ref = Ref(kind="turn", id=activity_id, digest=turn.digest)
    notes = _notes(turn)
    before = with_cost(renewed(state) if _spoken(asked) else state, turn.usage, turn.cost)
    after = before.model_copy(
        update={
            "opened": state.opened or turn.opening,
            "turn": asked.turn,
            "turn_id": activity_id,
            "digest": asked.after,
            "since": (ref, *notes),
            "calls": turn.calls,
            "observed": _advice(activity_id, turn),
            "blanks": blanks,
            "last": not asked.tools,
            "tries": 0,
            "input": turn.usage.input,
            "too_long": False,
            "squeezed": 0,
            "sent": (),
            "seen": tallied(before),
            "smallest": turn.usage.input if _is_compacted(asked) else state.smallest,
        }
    )
    end = _end(after, turn, spent(state) or stopped(state))
    if end and end[0] is RunState.ANSWERED and waits_for_critic(after, spent=bool(spent(after))):
        return proposing(after, turn.answer)
    return concluded(after, *end) if end else after


def with_critique(state: State, activity_id: str, asked: AskCritic, seen: Reviewed) -> State:
    """The state after the critic said something, recorded by `activity_id`."""
    after, proposed = reviewed(state, activity_id, asked, seen), state.reflected.proposed
    goes_on = proposed is None or seen.told or state.course.unheard
    return after if goes_on else concluded(after, RunState.ANSWERED, proposed or "")


def _notes(turn: Turn) -> tuple[Ref, ...]:
    match turn.stop:
        case Stop.BLANK:
            return (_note(_BLANK_NOTE),)
        case Stop.CUT:
            return (_note(_CUT_NOTE),)
        case Stop.UNREAD:
            return (_note(turn.advice),)
        case _:
            return ()


def _advice(turn_id: str, turn: Turn) -> tuple[Ref, ...]:
    """Refused calls are settled as they are judged: their observation is the advice that the turn itself holds."""
    return tuple(
        Ref(kind="advice", id=turn_id, call=call.index, ok=False)
        for call in turn.calls
        if call.verdict is Verdict.REFUSE
    )


def _end(state: State, turn: Turn, why_last: str) -> tuple[RunState, str, str] | None:
    """(state, answer, reason) if this turn ends the run."""
    match turn.stop:
        case Stop.REFUSED:
            return RunState.REFUSED, turn.answer, "the model's provider refused to go on"
        case _ if state.last:
            return RunState.LIMITED, turn.answer, f"{why_last}{_short_of_answer(turn)}"
        case Stop.ANSWER if state.course.unheard:
            return None
        case Stop.ANSWER:
            return RunState.ANSWERED, turn.answer, ""
        case Stop.BLANK if state.blanks >= _BLANKS_IN_A_ROW:
            return RunState.LIMITED, "", f"no answer: {state.blanks} empty turns in a row"
        case Stop.UNREAD if state.blanks >= _BLANKS_IN_A_ROW:
            why = turn.advice.partition("\n")[0]
            return RunState.LIMITED, "", f"no answer: {state.blanks} turns in a row that could not be read. {why}"
        case _:
            return None


def _short_of_answer(turn: Turn) -> str:
    """What the last turn lacks, though an answer was all that it was asked for."""
    if not turn.answer.strip():
        return "; it gave no answer when asked for one"
    return f"; what it said is no answer: {turn.advice.splitlines()[0]}" if turn.stop is Stop.UNREAD else ""


def too_long(state: State) -> State | None:
    """The state after the model found the transcript too long; None if compacting it (again) is of no use."""
    compacts = state.turn_id or any(ref.kind == "context" for ref in state.since)
    if not compacts or state.squeezed >= _MOST_SQUEEZED:
        return None
    return state.model_copy(update={"too_long": True, "squeezed": state.squeezed + 1})


def uncompacted(state: State) -> State:
    """The state that goes on with its transcript as it is, for it could not be compacted."""
    return state.model_copy(update={"too_long": False, "input": 0})


def with_context(state: State, carried: Carried, activity_id: str = "") -> State:
    """The state that goes on from a compacted transcript: that of `activity_id`, or what a new segment starts with."""
    context = Ref(kind="context", id=activity_id, digest=carried.digest)
    unseen = tuple(ref for ref in state.since if ref.kind != "context")
    seen = () if activity_id else state.seen  # what is not shown any more may be asked for again
    return uncompacted(state).model_copy(
        update={"turn_id": "", "digest": "", "since": (context, *unseen), "seen": seen}
    )


def still_fits(state: State, carry: CompactTranscript) -> bool:
    """Whether `carry`, asked for a moment ago, holds what the state refers to now."""
    return carry == _compaction(carry.agent, state, carry=True)


def latest_turn(state: State) -> Ref:
    """The turn whose calls are to be settled."""
    return [ref for ref in state.since if ref.kind == "turn"][-1]


def with_observation(state: State, ref: Ref, *, rejected: bool = False) -> State:
    """The state after one call settled; `rejected`: by an operator."""
    assert ref.call not in {seen.call for seen in state.observed}, "a call settles once"
    if rejected:
        state = with_rejected(state, next(call for call in state.calls if call.index == ref.call))
    return state.model_copy(update={"observed": (*state.observed, ref)})


def with_time(state: State, seconds: float) -> State:
    """The state of a run that has thought and acted for so long."""
    return state.model_copy(update={"seconds": seconds})


def concluded(state: State, final: RunState, answer: str = "", reason: str = "") -> State:
    """The state at the run's end."""
    cost = None if state.unpriced else state.cost
    outcome = Outcome(state=final, answer=answer, reason=reason, turns=state.turn, usage=state.usage, cost=cost)
    return state.model_copy(update={"outcome": outcome, "calls": (), "observed": ()})
