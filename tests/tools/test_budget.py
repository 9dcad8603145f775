"""What an author may write as a budget, and what is recorded of it."""

from datetime import timedelta
from decimal import Decimal

import pytest

from perdure import Agent, Budget, Prices
from perdure.core.contracts import Limits
from perdure.tools.agents import AgentError


@pytest.mark.parametrize("money", ["0.50", Decimal("0.50"), 0.5])
@pytest.mark.parametrize("time", [90, 90.0, timedelta(minutes=1.5)])
def test_a_budget_becomes_limits(money, time):
    budget = Budget(turns=3, tokens=5_000, money=money, time=time, ask=True)
    assert budget.limits == Limits(tokens=5_000, money=Decimal("0.5"), seconds=90, ask=True)


def test_it_is_recorded_with_the_run():
    agent = Agent("a", model="anthropic:claude-opus-5-5", instructions="", budget=Budget(turns=3, money="0.50"))
    opening = agent.opening()
    assert (opening.turns, opening.limits) == (3, Limits(money=Decimal("0.50")))
    assert opening.model_dump(mode="json")["limits"]["money"] == "0.50"  # exact, also as JSON
    dearer = Agent("a", model="anthropic:claude-opus-5-5", instructions="", budget=Budget(turns=3, money="0.51"))
    assert dearer.opening().digest != opening.digest


def test_prices_are_the_workers_and_no_part_of_what_is_recorded():
    plain, priced = (
        Agent("a", model="openai-chat:m", instructions="", prices=prices) for prices in ({}, Prices(input=1, output=2))
    )
    assert plain.opening() == priced.opening()


def test_prices_are_those_of_the_model_or_of_several_by_name():
    one, two = Prices(input=1, output=2), Prices(input=3, output=4)
    agent = Agent("a", model="text+openai-chat:m", instructions="", fallbacks=["openai:n"], prices=one)
    assert agent.prices_of("text+openai-chat", "m") == agent.prices_of("openai-chat", "m") == one
    assert agent.prices_of("openai-responses", "n") is None
    agent = Agent("a", model="openai-chat:m", instructions="", prices={"openai-chat:m": one, "openai:n": two})
    assert (agent.prices_of("openai-chat", "m"), agent.prices_of("openai-responses", "n")) == (one, two)
    with pytest.raises(AgentError, match="'llama' does not say whose it is"):
        Agent("a", model="openai-chat:m", instructions="", prices={"llama": one})


@pytest.mark.parametrize(
    "wrong",
    [
        {"turns": 0},
        {"turns": None},
        {"tokens": 0},
        {"tokens": True},
        {"tokens": 1.5},
        {"money": "free"},
        {"money": 0},
        {"money": "NaN"},
        {"money": "-1"},
        {"time": 0},
        {"time": float("nan")},
        {"time": float("inf")},
        {"time": "10 min"},
        {"time": timedelta(0)},
    ],
)
def test_a_limit_that_is_none_is_refused_with_its_value(wrong):
    [(name, value)] = wrong.items()
    with pytest.raises(AgentError) as refused:
        Budget(**wrong)
    assert f"{name}={value!r}" in str(refused.value)
