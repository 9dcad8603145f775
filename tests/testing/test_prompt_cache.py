"""What the scripted model says was read from a prompt cache, and written to one, by each vendor's rules."""

from copy import deepcopy
from typing import Any

import pytest

from perdure.testing import call, error, say
from perdure.testing.anthropic_cache import prompt_of
from perdure.testing.openai_chat import OpenAIChat
from perdure.testing.openai_responses import OpenAIResponses
from perdure.testing.prompt_cache import Prompt, PromptCache, Used, block_of

LONG = "x" * 8_000
MARK = {"cache_control": {"type": "ephemeral"}}
TOOL = {"name": "look", "input_schema": {"type": "object"}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def asked(*contents: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A request of the Messages API: contents of user and assistant in turn."""
    roles = ["user", "assistant"] * len(contents)
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]
    return {"model": "claude", "messages": messages, **more}


def used(*bodies: dict[str, Any]) -> list[Used]:
    cache = PromptCache()
    return [cache.serve("key", prompt_of(body)) for body in bodies]


def read(*bodies: dict[str, Any]) -> int:
    return used(*bodies)[-1].read


# --- Anthropic --------------------------------------------------------------------------------------------------------


def test_without_breakpoints_nothing_is_read_or_written() -> None:
    first, again = used(asked([text(LONG)]), asked([text(LONG)]))
    assert first == again == Used(total=len('{"type":"text","text":""}' + LONG) // 4)


def test_a_breakpoint_at_the_top_level_is_one_at_the_end() -> None:
    first, more = used(asked([text(LONG)], **MARK), asked([text(LONG)], [text("a")], [text(LONG)], **MARK))
    assert (first.read, first.written) == (0, first.total)
    assert (more.read, more.written) == (first.total, more.total - first.total)


def test_entries_are_left_at_breakpoints_alone() -> None:
    first = asked([text(LONG), text("end", **MARK)])
    assert read(first, asked([text(LONG), text("other", **MARK)])) == 0
    assert read(first, asked([text(LONG), text("end"), text("more", **MARK)])) > 2_000


def test_what_comes_after_the_last_breakpoint_is_neither_read_nor_written() -> None:
    body = asked([text(LONG, **MARK), text(LONG)])
    [first] = used(body)
    assert first.total - first.written == 2_006


def test_twenty_places_are_looked_through_itself_included() -> None:
    first = asked([text(LONG)], **MARK)
    more = [text(f"{n}") for n in range(20)]
    assert read(first, asked([text(LONG), *more[:19]], **MARK)) > 2_000
    assert read(first, asked([text(LONG), *more], **MARK)) == 0
    assert read(first, asked([text(LONG, **MARK), *more], **MARK)) > 2_000


@pytest.mark.parametrize("kind", ["tool_use", "tool_result"])
def test_many_calls_in_a_row_are_one_place_and_so_are_their_results(kind: str) -> None:
    first = asked([text(LONG)], **MARK)
    many = [{"type": kind, "id": f"{n}"} for n in range(40)]
    assert read(first, asked([text(LONG)], many, [text("end")], **MARK)) > 2_000
    parted = [part for each in many for part in ({"type": "thinking", "thinking": "."}, each)]
    assert read(first, asked([text(LONG)], parted, [text("end")], **MARK)) == 0


def test_thinking_takes_no_breakpoint_the_block_before_it_does() -> None:
    paused = asked([text(LONG)], [text("a"), {"type": "thinking", "thinking": LONG}], **MARK)
    [only] = used(paused)
    assert 2_000 < only.written < only.total - 2_000


WHOLE = asked(
    [text(LONG)],
    tools=[{**TOOL, "description": LONG}],
    system=[text(LONG, **MARK)],
    tool_choice={"type": "auto"},
    **MARK,
)
PARTS = {"all": 6_000, "prompt and tools": 4_000, "nothing": 0}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, "all"),
        ({"max_tokens": 9}, "all"),
        ({"tool_choice": None}, "prompt and tools"),
        ({"tool_choice": {"type": "none"}}, "prompt and tools"),
        ({"thinking": {"type": "adaptive"}}, "prompt and tools"),
        ({"output_config": {"effort": "low"}}, "prompt and tools"),
        ({"messages": asked([text("other")])["messages"]}, "prompt and tools"),
        ({"speed": "fast"}, "nothing"),
        ({"system": [text("other", **MARK)]}, "nothing"),
        ({"tools": [TOOL]}, "nothing"),
        ({"model": "other"}, "nothing"),
    ],
)
def test_what_a_change_leaves_of_the_cache(change: dict[str, Any], kept: str) -> None:
    assert read(WHOLE, deepcopy(WHOLE) | change) // 1_000 * 1_000 == PARTS[kept]


def test_a_choice_that_was_not_said_is_auto() -> None:
    unsaid = {key: value for key, value in WHOLE.items() if key != "tool_choice"}
    assert read(WHOLE, unsaid) > PARTS["all"]


def test_what_is_too_short_is_not_cached() -> None:
    short = asked([text("x" * 4_000)], **MARK)
    assert used(short, short) == [Used(total=1_006)] * 2


# --- OpenAI -----------------------------------------------------------------------------------------------------------


def chat(*messages: tuple[str, str], model: str = "gpt-6-luna", **more: Any) -> Prompt:
    told = [{"role": role, "content": content} for role, content in messages]
    return OpenAIChat().prompt({"model": model, "messages": told, **more})


def items(*messages: dict[str, Any], model: str = "gpt-6.2-sol", **more: Any) -> Prompt:
    return OpenAIResponses().prompt({"model": model, "input": list(messages), **more})


SYSTEM, TASK, ANSWER, RESULT = ("system", LONG), ("user", "do it"), ("assistant", "a"), ("tool", "b")


def test_an_entry_is_left_at_the_latest_message_of_a_user_or_tool() -> None:
    cache = PromptCache()
    first = cache.serve("key", chat(SYSTEM, TASK))
    more = cache.serve("key", chat(SYSTEM, TASK, ANSWER, RESULT))
    assert (first.read, first.written) == (0, first.total)
    assert (more.read, more.written) == (first.total, more.total - first.total)
    assert cache.serve("key", chat(SYSTEM, ("user", "else"))).read == 0


def test_many_results_are_looked_past() -> None:
    task = {"role": "user", "content": LONG}
    results = [{"type": "function_call_output", "call_id": f"{n}", "output": "b"} for n in range(80)]
    for number, found in ((64, True), (79, True), (80, False)):
        cache = PromptCache()
        first = cache.serve("key", items(task))
        assert cache.serve("key", items(task, *results[:number])).read == (first.total if found else 0)


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-4o", "qwen"])
def test_earlier_models_read_any_beginning_in_steps(model: str) -> None:
    cache = PromptCache()
    first = cache.serve("key", chat(SYSTEM, TASK, model=model))
    again = cache.serve("key", chat(SYSTEM, ("user", "else"), model=model))
    assert first.read == 0
    assert (again.read, again.read % 128) == (1_920, 0)


def test_the_choice_of_tools_costs_nothing_and_another_key_all() -> None:
    cache = PromptCache()
    first = cache.serve("key", chat(SYSTEM, TASK))
    assert cache.serve("key", chat(SYSTEM, TASK, tool_choice="none")).read == first.total
    assert cache.serve("key", chat(SYSTEM, TASK, prompt_cache_key="another")).read == 0
    assert cache.serve("key", chat(SYSTEM, TASK, tools=[TOOL])).read == 0


# --- the server -------------------------------------------------------------------------------------------------------


def test_another_account_shares_nothing() -> None:
    cache = PromptCache()
    cache.serve("key", prompt_of(WHOLE))
    assert cache.serve("another", prompt_of(WHOLE)).read == 0


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    def one(name: str) -> Prompt:
        return Prompt(name, [(block_of(LONG), "")], kept=[0], sought=[0])

    cache = PromptCache(most_entries=2)
    reads = [cache.serve("key", one(name)).read > 0 for name in ("a", "b", "a", "c", "a", "b")]
    assert reads == [False, False, True, False, True, False]
    assert len(cache) == 2


async def test_usage_says_what_was_read_and_written(play: Any) -> None:
    _, clients = play([call("look"), say("done")])
    first: dict[str, Any] = {
        "model": "claude",
        "max_tokens": 9,
        "tools": [TOOL],
        "cache_control": {"type": "ephemeral"},
    }
    task = {"role": "user", "content": LONG}
    one = await clients.anthropic.messages.create(messages=[task], **first)
    result = {"type": "tool_result", "tool_use_id": one.content[0].id, "content": "b"}
    turn = [task, {"role": "assistant", "content": one.content}, {"role": "user", "content": [result]}]
    two = await clients.anthropic.messages.create(messages=turn, **first)
    assert (one.usage.input_tokens, one.usage.cache_read_input_tokens) == (0, 0)
    assert two.usage.cache_read_input_tokens == one.usage.cache_creation_input_tokens > 2_000
    assert two.usage.cache_creation_input_tokens > 0
    counting = {key: value for key, value in first.items() if key != "max_tokens"}
    counted = await clients.anthropic.messages.count_tokens(messages=turn, **counting)
    assert counted.input_tokens == two.usage.cache_read_input_tokens + two.usage.cache_creation_input_tokens


async def test_openais_usage_too(play: Any) -> None:
    _, clients = play([say("done")])
    said: dict[str, Any] = {"model": "gpt-6-luna", "messages": [{"role": "user", "content": LONG}]}
    one, two = [(await clients.openai.chat.completions.create(**said)).usage for _ in range(2)]
    assert (one.prompt_tokens_details.cached_tokens, one.prompt_tokens_details.cache_write_tokens) == (0, 2_007)
    assert (two.prompt_tokens_details.cached_tokens, two.prompt_tokens_details.cache_write_tokens) == (2_007, 0)
    three, four = [
        (await clients.openai.responses.create(model="gpt-5.5", input=LONG)).usage.input_tokens_details
        for _ in range(2)
    ]
    assert (three.cached_tokens, three.cache_write_tokens) == (0, 0)
    assert (four.cached_tokens, four.cache_write_tokens) == (1_920, 0)


async def test_a_request_that_failed_leaves_nothing(play: Any) -> None:
    _, clients = play([[say("done"), error(529)]])
    said: dict[str, Any] = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": LONG}], **MARK}
    with pytest.raises(Exception, match="Overloaded"):
        await clients.anthropic.messages.create(**said)
    answered = await clients.anthropic.messages.create(**said)
    assert answered.usage.cache_read_input_tokens == 0
