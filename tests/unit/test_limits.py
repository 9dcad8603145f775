"""What a run may spend is a function of its state: no server is needed."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from perdure.core.contracts import (
    CallModel,
    Carried,
    Course,
    Limits,
    Opened,
    RunState,
    Start,
    State,
    Steer,
    Steered,
    Stop,
    Turn,
    Usage,
)
from perdure.core.limits import dollars, extended, finishing, in_force, may_ask, share, spent, with_cost
from perdure.core.loop import next_step, with_context, with_time, with_turn
from perdure.core.steps import AskForMore, Finish, Hold, Think

TOKENS = Usage(input=900, cached=300, output=100)

START = Start(v=1, agent="desk", task="do it")


def opened(turns: int = 50, **limits: object) -> State:
    return State(opened=Opened(digest="o", turns=turns, limits=Limits.model_validate(limits)))


def asked(state: State) -> CallModel:
    step = next_step(START, state)
    assert isinstance(step, Think), step
    return step.call


def after(state: State, stop: Stop = Stop.PAUSED, answer: str = "", cost: str | None = "0.25") -> State:
    question = asked(state)
    turn = Turn(digest="t", stop=stop, answer=answer, usage=TOKENS, cost=None if cost is None else Decimal(cost))
    return with_turn(state, f"think-{question.turn}", question, turn)


def limited(state: State) -> str:
    """The reason with which the run ends, once the model was asked a last time, without tools."""
    assert not asked(state).tools
    step = next_step(START, after(state, Stop.ANSWER, "so far"))
    assert isinstance(step, Finish)
    assert (step.outcome.state, step.outcome.answer) == (RunState.LIMITED, "so far")
    return step.outcome.reason


def test_tokens_in_and_out_are_counted_cached_or_not():
    state = after(opened(tokens=2_000))
    assert asked(state).tools
    assert limited(after(state)) == "the budget of 2,000 tokens is spent (2,000 used)"


def test_money_is_counted_to_the_cent():
    state = after(opened(money="0.50"))
    assert asked(state).tools
    assert limited(after(state)) == "the budget of $0.50 is spent ($0.50 used)"


def test_time_strikes_at_the_next_turn():
    state = after(opened(seconds=60))
    assert asked(with_time(state, 59.5)).tools
    assert limited(with_time(state, 75)) == "the budget of 60 s is spent (75 s of thinking and acting)"


def test_a_turn_that_nobody_can_price_strikes_a_limit_of_money_and_no_other():
    assert limited(after(opened(money="9"), cost=None)).endswith("cannot be kept: nobody knows what 1 turn cost")
    assert asked(after(opened(tokens=9_000), cost=None)).tools


def test_the_model_is_told_which_limit_it_was():
    [*_, note] = asked(after(opened(money="0.20"))).since
    assert note.kind == "note"
    assert note.text.startswith("The budget of $0.20 is spent ($0.25 used): no tool can be called any more. Answer now")


def test_without_limits_a_run_spends_what_it_takes():
    state = with_time(after(opened(), cost=None), 1e9)
    assert asked(state).tools


@pytest.mark.parametrize("stop", [Stop.BLANK, Stop.CALLS, Stop.CUT, Stop.UNREAD, Stop.PAUSED])
def test_no_last_turn_without_an_answer_is_a_success(stop):
    step = next_step(START, after(after(opened(tokens=1)), stop))
    assert isinstance(step, Finish)
    assert step.outcome.state is RunState.LIMITED
    assert step.outcome.reason.endswith("; it gave no answer when asked for one")


def test_the_outcome_says_what_it_cost_or_that_nobody_knows():
    priced = next_step(START, after(after(opened()), Stop.ANSWER, "42"))
    unpriced = next_step(START, after(after(opened(), cost=None), Stop.ANSWER, "42"))
    assert isinstance(priced, Finish)
    assert isinstance(unpriced, Finish)
    assert (priced.outcome.cost, unpriced.outcome.cost) == (Decimal("0.50"), None)


@pytest.mark.parametrize("limits", [{"turns": 1}, {"tokens": 900}, {"money": "0.20"}, {"seconds": 10}])
def test_an_operator_is_asked_for_more_and_gives_as_much_again_from_where_it_stands(limits):
    state = with_time(after(opened(ask=True, **limits)), 12)
    assert isinstance(next_step(START, state), AskForMore)
    state = extended(state)
    assert asked(state).tools
    assert isinstance(next_step(START, with_time(after(state), 22)), AskForMore)


def test_all_that_is_spent_is_extended_at_once():
    state = extended(after(opened(tokens=10, money="0.10", ask=True)))
    assert (state.raised.tokens, state.raised.money, state.raised.turns) == (1_010, Decimal("0.35"), None)


def test_an_operator_who_gives_more_lets_turns_without_a_price_be():
    state = extended(after(opened(money="9", ask=True), cost=None))
    assert asked(state).tools
    assert isinstance(next_step(START, after(state, cost=None)), AskForMore)
    ended = next_step(START, after(state, Stop.ANSWER, "42"))
    assert isinstance(ended, Finish)
    assert ended.outcome.cost is None  # let be, and still not known


def test_an_operator_who_gives_no_more_is_not_asked_again():
    assert limited(finishing(after(opened(tokens=10, money="0.10", ask=True)))).startswith("the budget of 10 tokens")


def test_a_summary_of_old_turns_is_counted_too():
    assert limited(summarised("0.50", TOKENS, Decimal("0.30"))) == "the budget of $0.50 is spent ($0.55 used)"
    assert "nobody knows what 1 turn cost" in limited(summarised("9", TOKENS, None))
    assert asked(summarised("0.50", Usage(), Decimal(0))).tools


def summarised(money, usage, cost):
    return with_context(with_cost(after(opened(money=money)), usage, cost), Carried(digest="c"), "compact-1")


def test_a_paused_run_asks_nobody_for_more():
    word = Steered(id="w", steer=Steer.PAUSE, by="ann", at=datetime(2026, 11, 30, tzinfo=UTC))
    state = after(opened(tokens=10, ask=True)).model_copy(update={"course": Course(paused=word)})
    assert isinstance(next_step(START, state), Hold)


def test_a_state_with_all_of_it_survives_a_pass_through_json():
    state = with_time(extended(after(opened(money="0.10", ask=True))), 1 / 3)
    assert State.model_validate_json(state.model_dump_json()) == state


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "$0.00"),
        ("1234.5", "$1,234.50"),
        ("0.5", "$0.50"),
        ("0.02", "$0.02"),
        ("0.031", "$0.031"),
        ("0.00042", "$0.00042"),
    ],
)
def test_dollars_show_cents_or_two_digits_that_say_something(amount, shown):
    assert dollars(Decimal(amount)) == shown


def test_what_is_left_is_shared_among_those_that_work_and_turns_are_not():
    state = with_time(after(opened(turns=5, tokens=10_000, money="1", seconds=60)), 20)
    assert share(state, 2) == Limits(tokens=4_500, money=Decimal("0.375"), seconds=20)
    assert share(after(opened()), 2) == Limits()


def test_nothing_is_shared_where_one_limit_is_reached():
    assert share(after(opened(tokens=1_000, money="10")), 1) is None


def test_of_a_runs_own_limit_and_its_share_the_smaller_one_counts():
    state = opened(turns=9, tokens=5_000, money="0.10").model_copy(
        update={"share": Limits(tokens=2_000, money=Decimal(1), seconds=30)}
    )
    assert in_force(state) == Limits(turns=9, tokens=2_000, money=Decimal("0.10"), seconds=30)
    state = after(after(state))
    assert spent(state) == (
        "the budget of 2,000 tokens, its share of its parent's, is spent (2,000 used); "
        "the budget of $0.10 is spent ($0.50 used)"
    )


def test_nobody_is_asked_for_more_of_a_share():
    own = after(after(opened(tokens=2_000, ask=True)))
    assert may_ask(own)
    assert not may_ask(own.model_copy(update={"share": Limits(tokens=2_000)}))
    assert may_ask(own.model_copy(update={"share": Limits(tokens=3_000)}))
    assert spent(extended(own).model_copy(update={"share": Limits(tokens=2_000)}))
