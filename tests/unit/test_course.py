"""What operators say to a run that did not ask, as a function of its state."""

from datetime import UTC, datetime

from perdure.core.contracts import Course, Opened, RunState, Start, State, Steer, Steered, Stop, Turn
from perdure.core.course import heard, notes, steered
from perdure.core.loop import next_step, with_turn
from perdure.core.steps import Finish, Hold, Think

AT = datetime(2026, 11, 29, tzinfo=UTC)

START = Start(v=1, agent="desk", task="do it")


def word(id: str, steer: Steer = Steer.SAY, text: str = "Hurry.") -> Steered:
    return Steered(id=id, steer=steer, by="ann", text=text, at=AT)


def of(*words: Steered) -> Course:
    course = Course()
    for each in words:
        course = steered(course, each)
    return course


def test_words_are_notes_of_the_next_question_in_order() -> None:
    step = next_step(START, State(course=of(word("a", text="One."), word("b", text="Two."))))
    assert isinstance(step, Think)
    assert [(ref.id, ref.text) for ref in step.call.since] == [
        ("a", "An operator (ann) says: One."),
        ("b", "An operator (ann) says: Two."),
    ]


def test_the_same_words_under_another_id_are_to_be_heard_as_well() -> None:
    course = of(word("a"), word("b"))
    assert [left.id for left in heard(course, notes(of(word("a")))).unheard] == ["b"]


def test_a_paused_run_asks_nothing_and_a_resumed_one_asks_on() -> None:
    paused = of(word("a", Steer.PAUSE))
    assert next_step(START, State(course=paused)) == Hold()
    resumed = steered(paused, word("b", Steer.RESUME))
    assert isinstance(next_step(START, State(course=resumed)), Think)


def test_only_the_latest_ids_are_kept() -> None:
    course = of(*(word(str(number), Steer.RESUME) for number in range(300)))
    assert len(course.known) == 100
    assert course.known[-1] == "299"


def _answered(state: State) -> State:
    step = next_step(START, state)
    assert isinstance(step, Think)
    turn = Turn(digest="d", stop=Stop.ANSWER, answer="7", opening=Opened(digest="o", turns=1))
    return with_turn(state.model_copy(update={"course": of(word("late"))}), "think-1", step.call, turn)


def test_an_answer_is_not_the_end_while_something_is_unheard() -> None:
    after = _answered(State())
    assert after.outcome is None
    step = next_step(START, after)
    assert isinstance(step, Think)
    assert [ref.kind for ref in step.call.since][:2] == ["turn", "note"]


def test_the_last_turn_is_the_end_in_any_case() -> None:
    spent = State(turn=1, opened=Opened(digest="o", turns=1))
    after = _answered(spent)
    assert after.outcome is not None
    assert after.outcome.state is RunState.LIMITED
    assert isinstance(next_step(START, after), Finish)
