"""When the critic is asked, and what its word does: no server needed."""

from datetime import UTC, datetime

import pytest

from perdure.core.contracts import (
    AskCritic,
    Call,
    CallModel,
    Opened,
    Ref,
    Reviewed,
    Reviewing,
    RunState,
    Start,
    State,
    Steer,
    Steered,
    Stop,
    Turn,
    Usage,
    Verdict,
)
from perdure.core.course import steered
from perdure.core.loop import next_step, with_critique, with_observation, with_turn
from perdure.core.steps import Criticise, Finish, Hold, RollOver, Think

LOOK = Call(index=0, id="a", name="look", verdict=Verdict.RUN)
ALL = Reviewing(errors=True, answer=True, every=2, notes=2, returns=1)
APPROVES, NOTES = Reviewed(digest="ok", told=False), Reviewed(digest="note", told=True, usage=Usage(input=5, output=1))

START = Start(v=1, agent="desk", task="do it")


def opened(rules=ALL, turns=9):
    return State(opened=Opened(digest="o", turns=turns, reviewing=rules))


def step(state, **more):
    return next_step(START, state, **more)


def thought(state, turn):
    found = step(state)
    assert isinstance(found, Think), found
    return with_turn(state, f"think-{found.call.turn}", found.call, turn)


def acted(state, *, ok=True, kind="observation"):
    state = thought(state, Turn(digest="t", stop=Stop.CALLS, calls=(LOOK,)))
    ref = Ref(kind=kind, id=f"act-{state.turn}-0", digest="s", call=0, ok=ok)
    return with_observation(state, ref)


def answered(state):
    return thought(state, Turn(digest="t", stop=Stop.ANSWER, answer="done"))


def asked(state) -> AskCritic:
    found = step(state)
    assert isinstance(found, Criticise), found
    return found.asked


def said(state, word):
    question = asked(state)
    return with_critique(state, f"critic-{question.turn}", question, word)


def question(state) -> CallModel:
    found = step(state)
    assert isinstance(found, Think), found
    return found.call


def test_without_a_critic_nobody_is_asked():
    assert isinstance(step(acted(opened(None), ok=False)), Think)
    assert isinstance(step(answered(opened(None))), Finish)


def test_an_error_is_shown_to_the_critic_with_all_that_was_observed():
    state = acted(opened(), ok=False)
    assert (asked(state).occasion, asked(state).turn) == ("errors", 1)
    assert [ref.kind for ref in asked(state).since] == ["turn", "observation"]
    assert "content" not in asked(state).model_dump_json()


@pytest.mark.parametrize(("ok", "kind"), [(True, "observation"), (False, "said")])
def test_what_went_well_and_what_a_person_said_is_no_error(ok, kind):
    assert isinstance(step(acted(opened(), ok=ok, kind=kind)), Think)


def test_after_every_so_many_turns_it_is_asked_once():
    state = acted(acted(opened()))
    assert (asked(state).occasion, asked(state).turn) == ("turns", 2)
    assert isinstance(step(said(state, APPROVES)), Think)


def test_a_note_goes_to_the_model_with_the_observations_and_is_counted():
    state = said(acted(opened(), ok=False), NOTES)
    assert [ref.kind for ref in question(state).since] == ["turn", "critique", "observation"]
    assert (state.reflected.notes, state.usage) == (1, NOTES.usage)


def test_a_critic_with_nothing_to_say_leaves_nothing_in_the_transcript():
    before = acted(opened(), ok=False)
    after = said(before, APPROVES)
    assert [ref.kind for ref in question(after).since] == ["turn", "observation"]
    assert after.reflected.notes == 0


def test_after_so_many_notes_it_is_not_asked_any_more():
    state = opened()
    for _ in range(2):
        state = said(acted(state, ok=False), NOTES)
    assert isinstance(step(acted(state, ok=False)), Think)


def test_an_answer_waits_for_the_critic_and_stands_when_it_has_no_note():
    state = answered(opened())
    assert (state.outcome, asked(state).occasion) == (None, "answer")
    outcome = step(said(state, APPROVES)).outcome
    assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "done")


def test_what_an_operator_says_while_an_answer_waits_is_heard():
    state = answered(opened())
    question = asked(state)
    word = Steered(id="s", steer=Steer.SAY, by="ann", text="Wait.", at=datetime.now(UTC))
    state = state.model_copy(update={"course": steered(state.course, word)})
    step_after = step(with_critique(state, "critic-1", question, APPROVES))
    assert isinstance(step_after, Think)
    assert [ref.kind for ref in step_after.call.since] == ["turn", "note"]


def test_a_paused_run_does_not_ask_its_critic():
    state = acted(opened(), ok=False)
    word = Steered(id="s", steer=Steer.PAUSE, by="ann", at=datetime.now(UTC))
    assert isinstance(step(state.model_copy(update={"course": steered(state.course, word)})), Hold)


def test_a_note_on_an_answer_sends_the_model_back_so_many_times_and_no_more():
    state = said(answered(opened()), NOTES)
    assert [ref.kind for ref in question(state).since] == ["turn", "critique"]
    assert (state.reflected.proposed, state.reflected.returns) == (None, 1)
    outcome = step(answered(state)).outcome
    assert (outcome.state, outcome.usage) == (RunState.ANSWERED, NOTES.usage)


def test_an_answer_in_the_last_turn_of_the_budget_stands():
    """Sent back, the run could only end limited."""
    assert step(answered(opened(turns=1))).outcome.state is RunState.ANSWERED
    assert isinstance(step(acted(opened(turns=1), ok=False)), Think)


def test_an_answer_that_waits_crosses_into_a_new_segment():
    state = State.model_validate_json(answered(opened()).model_dump_json())
    assert isinstance(step(state, is_long=True), RollOver)
    assert asked(state).occasion == "answer"
