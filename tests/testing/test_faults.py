"""Each fault, as the real SDKs show it to their callers."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from perdure.testing import (
    blank,
    block,
    call,
    cut,
    delay,
    error,
    failed,
    pause,
    raw,
    refuse,
    say,
    stop,
    think,
    truncate,
)

TOOLS: Any = [{"name": "look", "input_schema": {"type": "object"}}]


async def message(clients: Any, **more: Any) -> Any:
    asked = {"model": "any", "max_tokens": 99, "messages": [{"role": "user", "content": "go"}]} | more
    return await clients.anthropic.messages.create(**asked)


async def response(clients: Any, **more: Any) -> Any:
    return await clients.openai.responses.create(**({"model": "any", "input": "go", "store": False} | more))


async def chat(clients: Any, **more: Any) -> Any:
    asked = {"model": "any", "messages": [{"role": "user", "content": "go"}]} | more
    return await clients.openai.chat.completions.create(**asked)


@pytest.mark.parametrize(
    ("fault", "kind", "type_"),
    [
        (
            error(400, message="prompt is too long: 2 tokens > 1 maximum"),
            anthropic.BadRequestError,
            "invalid_request_error",
        ),
        (error(401), anthropic.AuthenticationError, "authentication_error"),
        (error(403), anthropic.PermissionDeniedError, "permission_error"),
        (error(404), anthropic.NotFoundError, "not_found_error"),
        (error(413), anthropic.APIStatusError, "request_too_large"),
        (error(429), anthropic.RateLimitError, "rate_limit_error"),
        (error(429, "enforced_spend_limit_reached"), anthropic.EnforcedSpendLimitReachedError, "rate_limit_error"),
        (error(500), anthropic.InternalServerError, "api_error"),
        (error(529), anthropic.InternalServerError, "overloaded_error"),
    ],
)
async def test_anthropic_errors_have_their_class_and_type(play: Any, fault: Any, kind: Any, type_: str) -> None:
    model, clients = play([fault])

    with pytest.raises(kind) as raised:
        await message(clients)

    assert raised.value.type == type_
    assert model.violations == []


@pytest.mark.parametrize("ask", [response, chat])
@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (error(400, "context_length_exceeded"), openai.BadRequestError, "context_length_exceeded"),
        (error(401), openai.AuthenticationError, "invalid_api_key"),
        (error(403), openai.PermissionDeniedError, None),
        (error(404), openai.NotFoundError, "model_not_found"),
        (error(429), openai.RateLimitError, "rate_limit_exceeded"),
        (error(429, "insufficient_quota"), openai.RateLimitError, "insufficient_quota"),
        (error(500), openai.InternalServerError, None),
    ],
)
async def test_openai_errors_have_their_class_and_code(play: Any, ask: Any, fault: Any, kind: Any, code: str) -> None:
    _, clients = play([fault])

    with pytest.raises(kind) as raised:
        await ask(clients)

    assert raised.value.code == code


async def test_an_error_says_when_and_whether_to_retry(play: Any) -> None:
    _, clients = play([error(529, retry_after=1.5, should_retry=False)])

    with pytest.raises(anthropic.InternalServerError) as raised:
        await message(clients)

    assert raised.value.response.headers["retry-after"] == "1.5"
    assert raised.value.response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("ask", [message, response, chat])
async def test_errors_end_after_their_times(play: Any, ask: Any) -> None:
    _, clients = play([[error(500, times=2), error(529), say("at last")]])

    statuses = []
    for _ in range(3):
        try:
            await ask(clients)
        except (anthropic.APIStatusError, openai.APIStatusError) as raised:
            statuses.append(raised.status_code)

    assert statuses == [500, 500, 529]
    assert "at last" in (await ask(clients)).to_json()


@pytest.mark.parametrize("ask", [message, response, chat])
async def test_html_comes_back_as_a_text(play: Any, ask: Any) -> None:
    _, clients = play([raw("<html>gateway</html>")])

    assert await ask(clients) == "<html>gateway</html>"


@pytest.mark.parametrize("ask", [message, response, chat])
async def test_half_a_document_is_no_json(play: Any, ask: Any) -> None:
    _, clients = play([raw('{"id": "x', content_type="application/json")])

    with pytest.raises(json.JSONDecodeError):
        await ask(clients)


async def test_an_empty_object_is_a_reply_of_nones(play: Any) -> None:
    _, clients = play([raw("{}", content_type="application/json")])

    assert (await message(clients)).content is None
    assert (await chat(clients)).choices is None
    assert (await response(clients)).output is None


@pytest.mark.parametrize("ask", [message, response, chat])
async def test_a_cut_connection_is_an_error_and_the_retry_is_served(play: Any, ask: Any) -> None:
    _, clients = play([[cut(30), say("whole")]])

    with pytest.raises((anthropic.APIConnectionError, openai.APIConnectionError, httpx2.RemoteProtocolError)):
        await ask(clients)

    assert "whole" in (await ask(clients)).to_json()


async def test_a_cut_stream_raises_out_of_the_sdk(play: Any) -> None:
    _, clients = play([[cut(700), say("a long answer " * 20)]])

    with pytest.raises(httpx2.RemoteProtocolError):
        async for _ in await message(clients, stream=True):
            pass


async def test_a_cleanly_cut_stream_ends_without_a_stop_reason(play: Any) -> None:
    _, clients = play([[cut(1100, clean=True), call("look", q="a" * 300)]])
    asked: Any = {"model": "any", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}], "tools": TOOLS}

    async with clients.anthropic.messages.stream(**asked) as stream:
        final = await stream.get_final_message()

    assert final.stop_reason is None
    assert final.content[0].input != {"q": "a" * 300}


async def test_a_failure_inside_a_200(play: Any) -> None:
    _, clients = play([failed("rate_limit_exceeded", "slow down")])

    failed_response = await response(clients)
    assert (failed_response.status, failed_response.error.code) == ("failed", "rate_limit_exceeded")
    with pytest.raises(anthropic.APIStatusError) as raised:
        async for _ in await message(clients, stream=True):
            pass
    assert raised.value.status_code == 200
    with pytest.raises(openai.APIError, match="slow down"):
        async for _ in await chat(clients, stream=True):
            pass
    assert [event.type async for event in await response(clients, stream=True)][-1] == "response.failed"


async def test_a_delay_lasts_longer_than_the_clients_patience(play: Any) -> None:
    _, clients = play([[delay(5), say("late")]])

    with pytest.raises(anthropic.APITimeoutError):
        await message(clients, timeout=0.2)


async def test_a_refusal_in_three_forms(play: Any) -> None:
    _, clients = play([refuse("no")])

    assert (await message(clients)).stop_reason == "refusal"
    choice = (await chat(clients)).choices[0]
    assert (choice.finish_reason, choice.message.refusal, choice.message.content) == ("content_filter", "no", None)
    assert (await response(clients)).output[0].content[0].refusal == "no"


async def test_running_out_of_tokens_inside_a_call(play: Any) -> None:
    _, clients = play([[call("look", q="a long argument"), truncate()]])

    cut_message = await message(clients, tools=TOOLS)
    assert (cut_message.stop_reason, cut_message.content[0].input) == ("max_tokens", {})
    choice = (await chat(clients)).choices[0]
    assert (choice.finish_reason, choice.message.tool_calls[0].function.arguments) == ("length", '{"q": "a lon')
    incomplete = await response(clients)
    assert (incomplete.status, incomplete.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert incomplete.output[0].arguments == '{"q": "a lon'


@pytest.mark.parametrize(("form", "content"), [("empty", []), ("null", None), ("text", "")])
async def test_a_blank_turn_in_three_forms(play: Any, form: Any, content: Any) -> None:
    _, clients = play([blank(form)])

    got = (await message(clients)).content
    assert (got[0].text if got else got) == content
    assert (await chat(clients)).choices[0].message.content == (None if form == "null" else "")


async def test_thinking_alone(play: Any) -> None:
    _, clients = play([think("hm")])

    assert [each.type for each in (await message(clients)).content] == ["thinking"]
    assert [each.type for each in (await response(clients)).output] == ["reasoning"]
    assert (await chat(clients)).choices[0].message.content is None


@pytest.mark.parametrize("sent", ["", None, "[]", "5", '{"q": '])
async def test_arguments_go_out_as_they_are_written(play: Any, sent: str | None) -> None:
    _, clients = play([call("look", raw=sent)])

    assert (await chat(clients)).choices[0].message.tool_calls[0].function.arguments == sent
    assert (await response(clients)).output[0].arguments == sent


async def test_no_stop_reason(play: Any) -> None:
    _, clients = play([[say("so"), stop(None)]])

    assert (await message(clients)).stop_reason is None
    assert (await chat(clients)).choices[0].finish_reason is None


async def test_a_paused_turn_and_a_block_nobody_knows(play: Any) -> None:
    _, clients = play([[say("searching"), pause("web_search", query="x"), block(type="novelty", depth=3)]])

    paused = await message(clients)

    assert paused.stop_reason == "pause_turn"
    assert [each.type for each in paused.content] == ["text", "server_tool_use", "novelty"]
    assert paused.content[2].to_dict() == {"type": "novelty", "depth": 3}


async def test_openai_has_no_paused_turns(play: Any) -> None:
    _, clients = play([pause()])

    for ask in (chat, response):
        with pytest.raises(openai.BadRequestError, match="has no paused turns"):
            await ask(clients)


async def test_a_stream_says_the_same_as_a_whole_reply(play: Any) -> None:
    _, clients = play([[think("first"), say("so, a longer answer"), call("look", q="a")]])
    asked: Any = {"model": "any", "messages": [{"role": "user", "content": "go"}]}

    async with clients.anthropic.messages.stream(**asked, max_tokens=9, tools=TOOLS) as messages:
        streamed = await messages.get_final_message()
    async with clients.openai.responses.stream(model="any", input="go", store=False) as responses:
        streamed_response = await responses.get_final_response()
    async with clients.openai.chat.completions.stream(**asked) as chats:
        streamed_chat = await chats.get_final_completion()

    whole = (await message(clients, tools=TOOLS)).content
    assert [each.to_dict() for each in streamed.content] == [each.to_dict() for each in whole]
    assert streamed_response.output_text == (await response(clients)).output_text
    assert streamed_response.output[2].arguments == (await response(clients)).output[2].arguments
    whole_chat = (await chat(clients)).choices[0].message
    assert streamed_chat.choices[0].message.content == whole_chat.content
    assert streamed_chat.choices[0].message.tool_calls[0].function.arguments == '{"q": "a"}'


async def test_usage_is_reported_in_every_protocol(play: Any) -> None:
    _, clients = play([[think("a thought of some length"), say("so")]])

    assert (await message(clients)).usage.output_tokens_details.thinking_tokens == 6
    assert (await response(clients)).usage.output_tokens_details.reasoning_tokens == 6
    usage = (await chat(clients)).usage
    assert usage.completion_tokens_details.reasoning_tokens == 6
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    streamed = [each async for each in await chat(clients, stream=True, stream_options={"include_usage": True})]
    assert streamed[-1].usage.prompt_tokens > 0
