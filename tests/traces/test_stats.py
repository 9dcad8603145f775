"""What many runs took, counted from their traces."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Budget
from perdure.core.contracts import Choice, Decision, Effect, RunState, Usage
from perdure.providers.prices import price
from perdure.testing.histories import History, call
from perdure.traces.expectations import Expectation, ExpectationsError, judged, read
from perdure.traces.stats import AgentStats, cost, spread, stats, waited
from perdure.traces.turns import trace

OPUS = "claude-opus-5-5"


def looked_up(run_id: str, times: int, agent: str = "refunds", model: str = OPUS, task: str = "Refund it.") -> History:
    """So many lookups that give the same, then the answer."""
    history = History(run_id, agent, task)
    history.open(model)
    for _ in range(times):
        history.think("I look.", calls=[call("order", {"id": 17})])
        history.act(0, "paid 49.90", seconds=2.0)
    history.think(answer="It was 49.90.")
    history.end(answer="It was 49.90.")
    return history


def approve(history: History, request_id: str, seconds: float) -> None:
    history.decide(Decision(id=f"d-{request_id}", request=request_id, choice=Choice.APPROVE, by="ann"), seconds=seconds)


def of(*histories: History, expected: tuple[Expectation, ...] = ()) -> AgentStats:
    [found] = stats([trace(history.events) for history in histories], expected)
    return found


# --- spreads ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 1000), min_size=1))
def test_a_percentile_is_a_figure_that_was_there_and_as_many_are_below_as_it_says(figures: list[int]) -> None:
    found = spread(figures)
    assert found is not None
    assert (found.count, found.most, found.total) == (len(figures), max(figures), sum(figures))
    for share, figure in ((0.5, found.median), (0.95, found.p95)):
        assert figure in figures
        assert sum(each <= figure for each in figures) >= share * len(figures)
        assert sum(each < figure for each in figures) < share * len(figures)


def test_of_no_figures_there_is_no_spread() -> None:
    assert spread(list[int]()) is None


# --- runs -------------------------------------------------------------------------------------------------------------


def test_turns_calls_and_tokens_are_those_of_the_runs_that_ended() -> None:
    open_run = History("refund-9", "refunds", "Refund it.")
    open_run.open(OPUS)
    found = of(*(looked_up(f"refund-{times}", times) for times in (1, 2, 6)), open_run)
    assert (found.runs, found.ended) == (4, 3)
    assert found.states == {"answered": 3, "thinking": 1}
    assert found.turns is not None
    assert (found.turns.median, found.turns.p95, found.turns.total) == (3, 7, 12)
    assert found.calls is not None
    assert (found.calls.median, found.calls.most) == (2, 6)
    assert found.input is not None
    assert found.cached is not None
    assert found.output is not None
    assert (found.input.median, found.cached.median, found.output.median) == (3 * 900, 3 * 600, 3 * 45)


def test_agents_are_told_apart_and_the_busiest_is_first() -> None:
    runs = [looked_up("a-1", 1, "alpha"), looked_up("b-1", 1, "beta"), looked_up("b-2", 1, "beta")]
    found = stats([trace(history.events) for history in runs])
    assert [(each.agent, each.runs) for each in found] == [("beta", 2), ("alpha", 1)]


def test_time_in_which_several_requests_waited_counts_once() -> None:
    history = History("pay-1")
    history.open(OPUS)
    history.think("Pay both.", calls=[call("pay", {"id": id}, ask="it acts", effect=Effect.ONCE) for id in (1, 2)])
    first, second = (history.ask(call=index, reason="it acts", request_id=f"a1b2c3d{index}") for index in (0, 1))
    approve(history, first.id, 100)
    approve(history, second.id, 50)
    history.act(0, "paid")
    history.act(1, "paid")
    history.think(answer="Paid.")
    history.end(answer="Paid.")
    seen = trace(history.events)
    assert waited(seen) == pytest.approx(150.2)
    assert sum(asked.waited or 0.0 for asked in seen.all_asked) > 250
    found = of(history)
    assert found.waited is not None
    assert found.took is not None
    assert found.took.median > found.waited.median == pytest.approx(150.2)


def test_attempts_at_the_model_and_at_tools_beyond_the_first_are_counted() -> None:
    history = History("slow-1")
    history.open(OPUS)
    history.think("I look.", calls=[call("order", {})], attempt=3, last_failure="529")
    history.act(0, "paid 49.90", attempt=2, last_failure="activity Heartbeat timeout")
    history.think(answer="49.90")
    history.end(answer="49.90")
    found = of(history)
    assert found.retries == 2
    assert [(each.tool, each.retries) for each in found.tools] == [("order", 1)]


# --- money ------------------------------------------------------------------------------------------------------------


def test_a_run_costs_what_its_turns_cost_on_their_day() -> None:
    history = looked_up("refund-1", 1)
    one = price("anthropic", OPUS, Usage(input=900, cached=600, output=45), at=history.now)
    assert one is not None
    assert cost(trace(history.events)) == (2 * one, ())
    found = of(history, looked_up("refund-2", 3))
    assert found.money is not None
    assert (found.money.total, found.unpriced) == (6 * one, {})


def test_a_run_with_an_unknown_price_is_told_of_and_not_counted_as_free() -> None:
    found = of(looked_up("refund-1", 1), looked_up("refund-2", 1, model="claude-of-our-own"))
    assert found.money is not None
    assert (found.money.count, found.ended) == (1, 2)
    assert found.unpriced == {"claude-scripted": 1}


def test_a_turn_whose_tokens_nobody_counted_makes_the_price_unknown() -> None:
    history = History("refund-1")
    history.open(OPUS)
    history.think(answer="49.90", usage=Usage())
    history.end(answer="49.90")
    assert cost(trace(history.events))[0] is None
    assert of(history).money is None


def test_a_run_that_never_reached_its_model_cost_nothing() -> None:
    history = History("refund-1")
    history.open(OPUS)
    history.think_in_vain("NeedsPerson", "the key is revoked")
    history.end(RunState.FAILED, reason="stopped")
    assert cost(trace(history.events)) == (Decimal(0), ())


# --- tools ------------------------------------------------------------------------------------------------------------


def test_a_tools_calls_are_told_apart_by_how_they_ended() -> None:
    history = History("refund-1", task="Refund it.")
    history.open(OPUS)
    history.think(
        "All at once.",
        calls=[
            call("refund", {"id": 1}),
            call("refund", {"id": 2}),
            call("refund", {"id": 3}, refuse="there is no parameter 'idd'"),
            call("refund", {"id": 4}, ask="it acts", effect=Effect.ONCE),
            call("order", {"id": 4}),
        ],
    )
    request = history.ask(call=3, reason="it acts", request_id="a1b2c3d4")
    history.act(0, "paid")
    history.act(1, "no such order", ok=False)
    history.decide(Decision(id="d", request=request.id, choice=Choice.REJECT, by="ann", reason="no photo"))
    history.say(3, "not run: an operator rejected this call")
    history.act(4, "a lamp", seconds=3.0)
    history.think(answer="One was paid back.")
    history.end(answer="One was paid back.")
    refund, order = of(history).tools
    assert (refund.tool, refund.calls, refund.ok, refund.error) == ("refund", 4, 1, 1)
    assert (refund.refused, refund.rejected, refund.unknown, refund.not_run) == (1, 1, 0, 0)
    assert refund.took is not None
    assert refund.took.count == 2
    assert order.took is not None
    assert order.took.median == 3.0


def test_only_the_same_call_with_the_same_result_is_a_repeat() -> None:
    history = History("poll-1")
    history.open(OPUS)
    for arguments, result in (({}, "10 %"), ({}, "20 %"), ({}, "20 %"), ({"id": 1}, "20 %"), ({}, "20 %")):
        history.think("And now?", calls=[call("progress", arguments)])
        history.act(0, result)
    history.think(answer="20 %")
    history.end(answer="20 %")
    [progress] = of(history).tools
    assert (progress.calls, progress.repeats) == (5, 2)


def test_what_another_run_did_is_no_repeat() -> None:
    [order] = of(looked_up("refund-1", 1), looked_up("refund-2", 1)).tools
    assert (order.calls, order.repeats) == (2, 0)


# --- budget -----------------------------------------------------------------------------------------------------------


def test_a_budget_is_suggested_by_the_answered_runs_alone() -> None:
    astray = looked_up("astray-1", 30)
    astray.events.pop()
    astray.end(RunState.LIMITED, reason="12 turns")
    found = of(*(looked_up(f"refund-{number}", number % 4) for number in range(20)), astray)
    assert (found.suggested["turns"], found.budget) == (6, 12)


def test_the_rest_of_the_budget_is_suggested_too_but_money_only_where_all_of_it_is_known() -> None:
    priced, unpriced = looked_up("refund-1", 2), looked_up("refund-2", 2, model="claude-scripted")
    fields: dict[str, Any] = dict(of(priced).suggested)
    assert list(fields) == ["turns", "tokens", "money", "time"]
    limits, usage = Budget(**fields).limits, trace(priced.events).usage
    assert limits.money == Decimal(fields["money"])
    assert limits.tokens is not None
    assert limits.tokens >= 1.5 * (usage.input + usage.output)
    assert list(of(priced, unpriced).suggested) == ["turns", "tokens", "time"]


def test_without_an_answered_run_no_budget_is_suggested() -> None:
    history = History("refund-1")
    history.open(OPUS)
    history.end(RunState.CANCELLED, reason="enough")
    assert of(history).suggested == {}


def test_the_budget_in_force_is_that_of_the_newest_run() -> None:
    older, newer = History("refund-1"), History("refund-2", at=History("x").now + timedelta(days=1))
    for history, turns in ((newer, 20), (older, 8)):
        history.open(OPUS, turns=turns)
        history.think("I look.", calls=[call("order", {})])
    assert of(newer, older).budget == of(older, newer).budget == 20


# --- expectations -----------------------------------------------------------------------------------------------------

FILE = """
- task: "*refund*17*"
  tools: [order, refund]
- task: "*refund*"
  tools: [order]
  also: [clock]
"""


def test_a_run_is_right_when_it_called_what_it_needs_and_nothing_else() -> None:
    expected = tuple(read(FILE))
    right = looked_up("refund-1", 2, task="Please REFUND order 18")
    lacking = looked_up("refund-2", 1, task="Please refund order 17")
    lazy = looked_up("refund-3", 0, task="Please refund order 19")
    other = looked_up("refund-4", 1, task="Good morning")
    found = of(right, lacking, lazy, other, expected=expected).expected
    assert found is not None
    assert (found.runs, found.right) == (3, 1)
    assert (found.missing, found.wrong) == ({"refund": 1, "order": 1}, {})


def test_what_may_be_called_besides_is_not_wrong_and_all_else_is() -> None:
    history = History("refund-1", task="refund it")
    history.open(OPUS)
    history.think("?", calls=[call("order", {}), call("clock", {}), call("ordr", {}, refuse="there is no tool 'ordr'")])
    history.act(0, "paid")
    history.act(1, "noon")
    history.think(answer="Paid.")
    history.end(answer="Paid.")
    found = judged(trace(history.events), read(FILE))
    assert found is not None
    assert (found.missing, found.wrong, found.right) == ((), ("ordr",), False)


def test_a_bracket_in_a_pattern_is_a_bracket() -> None:
    seen = trace(looked_up("refund-1", 1, task="[urgent] refund it").events)
    assert judged(seen, [Expectation(task="[urgent]*", tools=["order"])])
    assert not judged(seen, [Expectation(task="[abc]urgent*", tools=["order"])])


def test_without_expectations_nothing_is_said_of_them() -> None:
    assert of(looked_up("refund-1", 1)).expected is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tools: [order]", "the whole"),
        ('- {task: "*", tools: order}', "0.tools, 'order'"),
        ('- {task: "*", tools: [order], extra: 1}', "0.extra"),
        ("- {tools: [order]}", "0.task"),
        ("[", "neither YAML nor JSON"),
    ],
)
def test_a_file_that_holds_no_expectations_says_where_and_the_right_form(text: str, told: str) -> None:
    with pytest.raises(ExpectationsError) as refused:
        read(text)
    assert told in str(refused.value)
    assert "tools: [order, refund]" in str(refused.value)
