"""The loop needs no server: it is a function of the state."""

import pytest

from perdure.core.contracts import (
    Call,
    CallModel,
    Opened,
    Ref,
    RunState,
    Start,
    State,
    Stop,
    Turn,
    Usage,
    Verdict,
)
from perdure.core.loop import next_step, unsettled, with_observation, with_turn
from perdure.core.steps import Act, Finish, Think

AGENT, TASK = "desk", "do it"
START = Start(v=1, agent=AGENT, task=TASK)
LOOK = Call(index=0, id="a", name="look", verdict=Verdict.RUN)
PAY = Call(index=1, id="b", name="pay", verdict=Verdict.ASK, reason="it acts")
NONSENSE = Call(index=2, id="c", name="nonsense", verdict=Verdict.REFUSE, reason="there is no such tool")


def opened(turns: int = 5) -> State:
    return State(opened=Opened(digest="o", turns=turns))


def asked(state: State) -> CallModel:
    step = next_step(START, state)
    assert isinstance(step, Think), step
    return step.call


def after(state: State, turn: Turn) -> State:
    question = asked(state)
    return with_turn(state, f"think-{question.turn}", question, turn)


def seen(call: Call, digest: str = "s") -> Ref:
    return Ref(kind="observation", id=f"act-1-{call.index}", digest=digest, call=call.index)


def turn(stop: Stop, *calls: Call, answer: str = "") -> Turn:
    return Turn(digest="t", stop=stop, calls=calls, answer=answer)


def test_the_first_turn_opens_the_run_and_later_ones_leave_it_so():
    assert asked(State()).turn == 1
    first = turn(Stop.CALLS, NONSENSE).model_copy(update={"opening": Opened(digest="o", turns=2)})
    state = after(State(), first)
    assert state.opened == Opened(digest="o", turns=2)
    other = turn(Stop.CALLS, NONSENSE).model_copy(update={"opening": Opened(digest="p", turns=9)})
    assert after(state, other).opened == Opened(digest="o", turns=2)


def test_a_short_task_goes_along_with_the_first_question_alone():
    assert asked(State()).task == TASK
    assert next_step(Start(v=1, agent=AGENT, task="x" * 5_000), State()).call.task == ""
    assert asked(after(State(), turn(Stop.CALLS, NONSENSE))).task == ""


def test_a_turn_without_calls_is_the_answer():
    [outcome] = [next_step(START, after(opened(), turn(Stop.ANSWER, answer="42"))).outcome]
    assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "42", 1)


def test_only_unsettled_calls_are_left_to_do():
    state = after(opened(), turn(Stop.CALLS, LOOK, PAY))
    assert next_step(START, state) == Act((LOOK, PAY))
    assert next_step(START, with_observation(state, seen(PAY))) == Act((LOOK,))


def test_a_refused_call_is_settled_by_the_advice_in_its_own_turn():
    state = after(opened(), turn(Stop.CALLS, NONSENSE))
    assert unsettled(state) == ()
    assert [ref.kind for ref in asked(state).since] == ["turn", "advice"]


def test_observations_go_back_in_call_order_however_they_settled():
    state = after(opened(), turn(Stop.CALLS, LOOK, PAY))
    state = with_observation(with_observation(state, seen(PAY)), seen(LOOK))
    assert [ref.call for ref in asked(state).since if ref.kind == "observation"] == [0, 1]


def test_a_call_cannot_settle_twice():
    state = with_observation(after(opened(), turn(Stop.CALLS, LOOK, PAY)), seen(LOOK))
    with pytest.raises(AssertionError):
        with_observation(state, seen(LOOK))


def test_each_question_names_the_one_before_and_only_what_is_new():
    state = with_observation(after(opened(), turn(Stop.CALLS, LOOK)), seen(LOOK))
    first, second = asked(opened()), asked(state)
    assert (first.previous, first.before) == ("", "")
    assert (second.previous, second.before) == ("think-1", first.after)
    assert [ref.id for ref in second.since] == ["think-1", "act-1-0"]


def test_the_digest_tells_two_observations_apart():
    state = after(opened(), turn(Stop.CALLS, LOOK))
    one, other = (asked(with_observation(state, seen(LOOK, digest))).after for digest in ("x", "y"))
    assert one != other


def test_blank_turns_are_asked_again_three_times_at_most():
    state = opened()
    for _ in range(2):
        state = after(state, turn(Stop.BLANK))
        assert [ref.kind for ref in asked(state).since] == ["turn", "note"]
    outcome = next_step(START, after(state, turn(Stop.BLANK))).outcome
    assert (outcome.state, outcome.answer) == (RunState.LIMITED, "")


def test_an_unread_turn_goes_back_with_advice_and_three_in_a_row_end_the_run_without_an_answer():
    unread = Turn(digest="t", stop=Stop.UNREAD, advice="No action was found.\nWrite one.")
    state = opened()
    for _ in range(2):
        state = after(state, unread)
        assert [(ref.kind, ref.text) for ref in asked(state).since] == [("turn", ""), ("note", unread.advice)]
    [outcome] = [next_step(START, after(state, unread)).outcome]
    assert (outcome.state, outcome.answer) == (RunState.LIMITED, "")
    assert outcome.reason.endswith("3 turns in a row that could not be read. No action was found.")


def test_blank_and_unread_turns_are_counted_together():
    state = opened()
    for stop in (Stop.BLANK, Stop.UNREAD):
        state = after(state, turn(stop))
    assert isinstance(next_step(START, after(state, turn(Stop.BLANK))), Finish)


def test_a_turn_that_says_something_ends_a_row_of_blank_ones():
    state = after(after(opened(), turn(Stop.BLANK)), turn(Stop.CUT))
    assert state.blanks == 0


def test_a_paused_turn_goes_back_without_a_word():
    assert [ref.kind for ref in asked(after(opened(), turn(Stop.PAUSED))).since] == ["turn"]


@pytest.mark.parametrize("stop", [Stop.PAUSED, Stop.CUT, Stop.CALLS])
def test_every_turn_counts_against_the_budget(stop):
    state = opened(turns=2)
    for _ in range(2):
        assert asked(state).tools
        state = after(state, turn(stop))
    assert not asked(state).tools


@pytest.mark.parametrize(("stop", "answer"), [(Stop.ANSWER, "7"), (Stop.CALLS, ""), (Stop.BLANK, ""), (Stop.CUT, "7")])
def test_once_the_budget_is_spent_no_end_is_a_success(stop, answer):
    state = after(opened(turns=1), turn(Stop.CALLS))
    outcome = next_step(START, after(state, turn(stop, answer=answer))).outcome
    assert (outcome.state, outcome.answer) == (RunState.LIMITED, answer)


def test_a_refusal_by_the_provider_ends_the_run_as_refused():
    outcome = next_step(START, after(opened(), turn(Stop.REFUSED, answer="I can't"))).outcome
    assert outcome.state is RunState.REFUSED


def test_usage_adds_up_over_turns():
    spent = Turn(digest="t", stop=Stop.CUT, usage=Usage(input=10, cached=4, output=3))
    assert after(after(opened(), spent), spent).usage == Usage(input=20, cached=8, output=6)


def test_a_finished_run_stays_finished():
    state = after(opened(), turn(Stop.ANSWER, answer="42"))
    assert isinstance(next_step(START, state), Finish)


def test_the_whole_state_survives_a_pass_through_json():
    state = with_observation(after(opened(), turn(Stop.CALLS, LOOK, PAY)), seen(LOOK))
    assert State.model_validate_json(state.model_dump_json()) == state
