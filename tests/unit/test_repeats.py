"""Going round in circles: what counts as a repeat, when it is told, when it ends the run."""

from collections.abc import Sequence
from datetime import UTC, datetime

from perdure.core.contracts import (
    Call,
    CallModel,
    Carried,
    Course,
    Limits,
    Opened,
    Ref,
    RunState,
    Start,
    State,
    Steer,
    Steered,
    Stop,
    Turn,
    Verdict,
)
from perdure.core.loop import next_step, with_context, with_observation, with_turn
from perdure.core.repeats import was_rejected
from perdure.core.steps import Finish, Think

START = Start(v=1, agent="desk", task="do it")


def call(name: str, arguments: str = "a", index: int = 0, verdict: Verdict = Verdict.RUN, reason: str = "") -> Call:
    return Call(index=index, id=f"{name}{index}", name=name, verdict=verdict, digest=arguments, reason=reason)


Did = Sequence[tuple[Call, str]]  # the calls of a turn, and the digests of what was observed


def fresh(limits: Limits | None = Limits()) -> State:  # noqa: B008 - frozen
    return State(opened=Opened(digest="o", turns=500, limits=limits))


def question(state: State) -> CallModel:
    step = next_step(START, state)
    assert isinstance(step, Think), step
    return step.call


def after(state: State, *did: tuple[Call, str], rejected: bool = False) -> State:
    asked = question(state)
    turn = Turn(digest="t", stop=Stop.CALLS, calls=tuple(each for each, _ in did))
    state = with_turn(state, f"think-{asked.turn}", asked, turn)
    for each, result in did:
        if each.verdict is not Verdict.REFUSE:
            ref = Ref(kind="said" if rejected else "observation", digest=result, call=each.index, ok=not rejected)
            state = with_observation(state, ref, rejected=rejected)
    return state


def played(state: State, *turns: Did) -> State:
    for did in turns:
        state = after(state, *did)
    return state


def notes(state: State) -> list[str]:
    return [ref.text for ref in question(state).since if ref.kind == "note"]


FIND = (call("find"), "nothing")


def test_the_third_time_is_a_warning_and_the_fourth_the_end():
    state = played(fresh(), [FIND], [FIND])
    assert (notes(state), question(state).tools) == ([], True)
    state = after(state, FIND)
    [warning] = notes(state)
    assert warning.startswith("You are repeating yourself: find brought the same result 3 times")
    assert question(state).tools
    state = after(state, FIND)
    assert not question(state).tools
    asked = question(state)
    ended = with_turn(state, "think-5", asked, Turn(digest="t", stop=Stop.ANSWER, answer="there is none"))
    step = next_step(START, ended)
    assert isinstance(step, Finish)
    assert (step.outcome.state, step.outcome.answer) == (RunState.LIMITED, "there is none")
    assert step.outcome.reason == "it repeated itself: find brought the same result 4 times, also after a warning"


def test_a_poll_that_is_told_something_new_is_left_alone():
    polls = [[(call("status"), f"{number} left")] for number in range(30)]
    assert notes(played(fresh(), *polls)) == []


def test_another_result_begins_a_new_count():
    done = (call("find"), "something")
    assert notes(played(fresh(), [FIND], [FIND], [done], [FIND], [FIND])) == []


def test_other_arguments_are_another_action():
    state = played(fresh(), *[[(call("find", arguments=str(number)), "nothing")] for number in range(9)])
    assert notes(state) == []


def test_what_is_done_between_does_not_hide_a_circle():
    look = (call("look"), "a wall")
    state = played(fresh(), *[[FIND], [look]] * 3)
    [warning] = notes(state)
    assert "look brought" in warning
    assert not question(after(state, FIND)).tools


def test_the_same_calls_side_by_side_count_once():
    three = [(call("find", index=index), "nothing") for index in range(3)]
    assert notes(played(fresh(), three, three)) == []
    assert len(notes(played(fresh(), three, three, three))) == 1


def test_with_something_new_in_the_turn_it_is_a_warning_again():
    state = played(fresh(), [FIND], [FIND], [FIND], [FIND, (call("read", index=1), "a page")])
    assert question(state).tools
    assert "4 times" in notes(state)[0]


def test_what_was_long_not_done_is_forgotten():
    state = played(fresh(), [FIND], [FIND], *[[(call("step", arguments=str(n)), f"{n}")] for n in range(11)], [FIND])
    assert notes(state) == []


def test_calls_that_are_refused_as_they_are_asked_for_count_too():
    nonsense = (call("nonsense", verdict=Verdict.REFUSE, reason="there is no such tool"), "")
    assert len(notes(played(fresh(), [nonsense], [nonsense], [nonsense]))) == 1


def test_what_an_operator_rejected_is_the_same_result_in_whatever_words():
    send = call("send", verdict=Verdict.ASK)
    state = fresh()
    for words in ("no", "no again", "not asked"):
        state = after(state, (send, words), rejected=True)
    assert len(notes(state)) == 1


def test_only_the_bytes_that_were_rejected_are_barred():
    state = after(fresh(), (call("send", verdict=Verdict.ASK), "no"), rejected=True)
    assert was_rejected(state, call("send", index=3))
    assert not was_rejected(state, call("send", arguments="b"))
    assert not was_rejected(state, call("post"))


def test_what_was_cut_under_a_name_is_known_again_by_its_whole():
    state = fresh()
    for number in range(3):
        asked = question(state)
        state = with_turn(state, f"think-{asked.turn}", asked, Turn(digest="t", stop=Stop.CALLS, calls=(call("find"),)))
        ref = Ref(kind="observation", digest=f"act-{number}", call=0, whole="the same")
        state = with_observation(state, ref)
    assert len(notes(state)) == 1


def test_a_run_of_before_goes_on_as_it_began():
    """Its history holds no warnings and no end: replayed, it must come to the same steps."""
    state = played(fresh(limits=None), *[[FIND]] * 9)
    assert (notes(state), question(state).tools) == ([], True)
    assert not was_rejected(after(state, (call("send"), "no"), rejected=True), call("send"))


def test_what_is_kept_is_bounded():
    state = played(fresh(), *[[(call("find", f"{n}-{i}", i), f"{n}-{i}") for i in range(60)] for n in range(3)])
    for number in range(120):
        state = after(state, (call("send", arguments=str(number), verdict=Verdict.ASK), "no"), rejected=True)
    assert len(state.seen) <= 40
    assert len(state.rejected) == 100
    assert State.model_validate_json(state.model_dump_json()) == state


def test_what_an_operator_says_lifts_rejections_and_begins_anew():
    send = call("send", verdict=Verdict.ASK)
    state = after(played(fresh(), [FIND], [FIND]), (send, "no"), rejected=True)
    assert was_rejected(state, send)
    word = Steered(id="w", steer=Steer.SAY, by="ann", text="do send it", at=datetime(2026, 11, 30, tzinfo=UTC))
    state = after(state.model_copy(update={"course": Course(unheard=(word,))}), FIND)
    assert not was_rejected(state, send)
    assert notes(state.model_copy(update={"course": Course()})) == []


def test_a_run_that_was_just_told_what_to_do_is_not_stopped_first():
    state = played(fresh(), *[[FIND]] * 4)
    word = Steered(id="w", steer=Steer.SAY, by="ann", text="look in the attic", at=datetime(2026, 11, 30, tzinfo=UTC))
    assert not question(state).tools
    assert question(state.model_copy(update={"course": Course(unheard=(word,))})).tools


def test_a_last_turn_has_its_reason_also_if_an_operator_spoke_meanwhile():
    state = played(fresh(), *[[FIND]] * 4)
    asked = question(state)
    word = Steered(id="w", steer=Steer.SAY, by="ann", text="wait", at=datetime(2026, 11, 30, tzinfo=UTC))
    state = state.model_copy(update={"course": Course(unheard=(word,))})
    step = next_step(START, with_turn(state, "think-5", asked, Turn(digest="t", stop=Stop.BLANK)))
    assert isinstance(step, Finish)
    assert step.outcome.reason.startswith("it repeated itself")


def test_what_was_cleared_from_the_transcript_may_be_asked_for_again():
    state = with_context(played(fresh(), [FIND], [FIND]), Carried(digest="c"), "compact-1")
    assert notes(after(state, FIND)) == []
    assert len(notes(after(with_context(played(fresh(), [FIND], [FIND]), Carried(digest="c")), FIND))) == 1
