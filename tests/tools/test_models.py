"""What no vendor can take is refused when an agent is declared; what may be right is sent as it is."""

from typing import Any

import pytest

from perdure import Agent, Model
from perdure.tools.agents import AgentError

NAMES = {"anthropic": "anthropic:a", "openai-responses": "openai:b", "openai-chat": "openai-chat:c"}


def desk(**options: Any) -> Agent:
    return Agent("refunds", **({"model": "anthropic:a", "instructions": "Be brief."} | options))


@pytest.mark.parametrize(
    ("protocol", "settings", "advice"),
    [
        ("anthropic", {"temperature": 0.2}, "take no more"),
        ("anthropic", {"top_k": 5}, "take no more"),
        ("anthropic", {"max_output_tokens": 5}, "'max_tokens'"),
        ("anthropic", {"stop": ["x"]}, "'stop_sequences'"),
        ("anthropic", {"reasoning_effort": "low"}, "Agent\\(effort"),
        ("anthropic", {"parallel_tool_calls": False}, "Agent\\(parallel=False"),
        ("anthropic", {"tool_choice": {"type": "any"}}, "perdure sets itself"),
        ("anthropic", {"max_tokens": None}, "demands it"),
        ("anthropic", {"max_tokens": 0}, "whole number"),
        ("anthropic", {"max_tokens": "4096"}, "whole number"),
        ("anthropic", {"thinking": "adaptive"}, "'adaptive', 'enabled'"),
        ("anthropic", {"thinking": {"type": "much"}}, "'adaptive', 'enabled'"),
        ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 9}}, "at least 1,024"),
        ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 20_000}}, "less than max_tokens \\(16,000\\)"),
        ("openai-responses", {"max_tokens": 5}, "'max_output_tokens'"),
        ("openai-responses", {"reasoning_effort": "low"}, "Agent\\(effort"),
        ("openai-responses", {"stop": "x"}, "has none of"),
        ("openai-responses", {"temperature": 3}, "from 0 to 2"),
        ("openai-responses", {"store": True}, "perdure sets itself"),
        ("openai-chat", {"max_output_tokens": 5}, "'max_completion_tokens'"),
        ("openai-chat", {"stop_sequences": ["x"]}, "'stop'"),
        ("openai-chat", {"top_p": "high"}, "from 0 to 1"),
        ("openai-chat", {"n": 2}, "perdure sets itself"),
    ],
)
@pytest.mark.parametrize("mode", ["", "text+"])
def test_a_setting_that_fails_in_every_run_is_refused_at_once(
    protocol: str, settings: dict[str, Any], advice: str, mode: str
) -> None:
    with pytest.raises(AgentError, match=advice) as refused:
        desk(model=mode + NAMES[protocol], settings=settings)
    assert "'refunds'" in str(refused.value)
    with pytest.raises(AgentError, match=advice):
        Model(mode + NAMES[protocol], settings)


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [
        ("anthropic", {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("anthropic", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}, "cache_control": None}),
        ("openai-responses", {"temperature": 0, "max_output_tokens": 100, "reasoning": {"summary": "auto"}}),
        ("openai-chat", {"temperature": 1.5, "max_tokens": 100, "stop": None, "top_k": 40, "thinking": {"type": "x"}}),
    ],
)
def test_what_a_vendor_or_a_server_like_it_may_take_is_recorded_as_it_is(
    protocol: str, settings: dict[str, Any]
) -> None:
    assert desk(model=NAMES[protocol], settings=settings).opening().settings == settings


@pytest.mark.parametrize(
    ("protocol", "settings", "sent"),
    [
        ("anthropic", {}, {"output_config": {"effort": "low"}}),
        ("anthropic", {"output_config": {"format": {}}}, {"output_config": {"format": {}, "effort": "low"}}),
        ("openai-responses", {"reasoning": {"summary": "auto"}}, {"reasoning": {"summary": "auto", "effort": "low"}}),
        ("openai-chat", {"stop": ["x"]}, {"stop": ["x"], "reasoning_effort": "low"}),
    ],
)
def test_effort_is_one_word_for_every_vendor(protocol: str, settings: dict[str, Any], sent: dict[str, Any]) -> None:
    assert desk(model=NAMES[protocol], settings=settings, effort="low").opening().settings == sent
    assert desk(model="text+" + NAMES[protocol], settings=settings, effort="low").opening().settings == sent


@pytest.mark.parametrize(
    "options",
    [
        {"effort": "max"},
        {"effort": "low", "settings": {"output_config": {"effort": "high"}}},
        {"model": "openai-chat:c", "effort": "low", "settings": {"reasoning_effort": "low"}},
        {"fallbacks": ["gpt-6-luna"]},
        {"fallbacks": [Model("openai:b", {"reasoning": {"effort": "high"}})], "effort": "low"},
        {"fallbacks": ["openai:b"], "settings": {"thinking": {"type": "enabled", "budget_tokens": 2048}}},
        {"fallbacks": "openai:b"},
        {"fallbacks": ["anthropic:a"]},
        {"parallel": "no"},
    ],
)
def test_models_that_cannot_be_asked_as_declared_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(AgentError, match="'refunds'"):
        desk(**options)


def test_an_opening_holds_of_each_fallback_only_what_differs() -> None:
    other = Model("openai:b", {"max_output_tokens": 100})
    opening = desk(fallbacks=[other, "text+openai-chat:c"], settings={"max_tokens": 50}, effort="low").opening()
    same, texted = opening.fallbacks
    assert (same.protocol, same.model, same.system, same.tools) == ("openai-responses", "b", None, None)
    assert same.settings == {"max_output_tokens": 100, "reasoning": {"effort": "low"}}
    assert texted.protocol == "text+openai-chat"
    assert texted.system != opening.system
    assert opening.digest != desk(fallbacks=["text+openai-chat:c"]).opening().digest
