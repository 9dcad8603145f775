"""What OpenAI's Chat Completions refuse, next to what they take. Each case changes one thing of a valid transcript."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import openai
import pytest
import turnsafe
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from perdure.testing import block, call, say, think

SCRIPT = [
    [say("I look"), think("dropped"), call("look", q="a"), call("look", q="b")],
    say("nine"),
]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}
SHAPE: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsNonStreaming)
Body = dict[str, Any]
Edit = Callable[[Body], object]


def start() -> Body:
    return {
        "model": "any",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "go"}],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": copy.deepcopy(SCHEMA)}}],
    }


async def ask(clients: Any, body: Body) -> Any:
    return await clients.openai.post("/chat/completions", body=body, cast_to=object)


async def looped(clients: Any) -> Body:
    body = start()
    message = (await ask(clients, body))["choices"][0]["message"]
    answers = [{"role": "tool", "tool_call_id": each["id"], "content": "1"} for each in message["tool_calls"]]
    body["messages"] += [message, *answers]
    return body


def calls(body: Body) -> Any:
    return body["messages"][2]["tool_calls"]


def top(**changes: Any) -> Edit:
    return lambda body: body.update(changes)


def function(**changes: Any) -> Edit:
    return lambda body: body["tools"][0]["function"].update(changes)


def strict(**schema: Any) -> Edit:
    return function(strict=True, parameters={"type": "object", "additionalProperties": False, **schema})


def more(*messages: Any) -> Edit:
    return lambda body: body["messages"].extend(messages)


def first_call(**changes: Any) -> Edit:
    return lambda body: calls(body)[0]["function"].update(changes)


def rename_twin(body: Body) -> None:
    calls(body)[1]["id"] = body["messages"][4]["tool_call_id"] = calls(body)[0]["id"]


def swap_answers(body: Body) -> None:
    messages = body["messages"]
    messages[3], messages[4] = messages[4], messages[3]


ACCEPTED: dict[str, Edit] = {
    "as it was received": lambda body: None,
    "answers in another order": swap_answers,
    "a developer's message": lambda body: body["messages"][0].update(role="developer"),
    "text in parts": lambda body: body["messages"][1].update(content=[{"type": "text", "text": "go"}]),
    "calls without words": lambda body: body["messages"][2].update(content=None),
    "a call to a tool not on offer": first_call(name="not_offered"),
    "an empty object of arguments": first_call(arguments="{}"),
    "no parallel calls": top(parallel_tool_calls=False),
    "no more calls wanted": top(tool_choice="none"),
    "a tool chosen": top(tool_choice={"type": "function", "function": {"name": "look"}}),
    "tools gone": lambda body: body.pop("tools"),
    "a temperature": top(temperature=0.5),
    "a function without parameters": lambda body: body["tools"][0]["function"].pop("parameters"),
    "a strict schema": strict(properties={"q": {"type": ["string", "null"]}}, required=["q"]),
    "strict, and recursive": strict(properties={"q": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, required=["q"]),
    "a longest name": function(name="n" * 64),
}

REFUSED: dict[str, tuple[Edit, str]] = {
    "a call unanswered": (lambda body: body["messages"].pop(), "did not have response messages: call_"),
    "an answer twice": (
        lambda body: body["messages"].append(body["messages"][3]),
        "Duplicate value for 'tool_call_id'",
    ),
    "an answer nobody asked for": (
        lambda body: body["messages"][3].update(tool_call_id="call_x"),
        "'tool_call_id' of 'call_x' not found",
    ),
    "an answer after a user": (
        lambda body: body["messages"].insert(4, {"role": "user", "content": "x"}),
        "did not have response messages",
    ),
    "an answer to nothing": (
        lambda body: body["messages"].insert(1, {"role": "tool", "tool_call_id": "x", "content": "y"}),
        "must be a response to a preceeding message",
    ),
    "two calls with one id": (rename_twin, "Duplicate value for 'id'"),
    "an empty call id": (lambda body: calls(body)[0].update(id=""), "tool_calls[0].id"),
    "no calls in the list": (lambda body: body["messages"][2].update(tool_calls=[]), "empty array"),
    "arguments cut": (first_call(arguments='{"q": "a'), "expected a JSON object in a string"),
    "arguments empty": (first_call(arguments=""), "expected a JSON object in a string"),
    "arguments of a list": (first_call(arguments="[]"), "expected a JSON object in a string"),
    "arguments of a number": (first_call(arguments="5"), "expected a JSON object in a string"),
    "arguments null": (first_call(arguments=None), "function.arguments"),
    "arguments as an object": (first_call(arguments={}), "function.arguments"),
    "a call name with a dot": (first_call(name="functions.look"), "messages[2].tool_calls[0].function.name"),
    "a call name too long": (first_call(name="n" * 65), "messages[2].tool_calls[0].function.name"),
    "an assistant saying nothing": (more({"role": "assistant", "content": None}), "must say or call something"),
    "an assistant saying ''": (more({"role": "assistant", "content": ""}), "must say or call something"),
    "no parts": (more({"role": "user", "content": []}), "empty array"),
    "content null": (more({"role": "user", "content": None}), "messages[5].content"),
    "no content": (more({"role": "user"}), "Missing required parameter: 'messages[5].content'"),
    "no messages": (top(messages=[]), "Invalid 'messages': empty array"),
    "a role nobody has": (more({"role": "robot", "content": "x"}), "messages[5].role"),
    "an unknown key in a message": (
        lambda body: body["messages"][2].update(reasoning_content="x"),
        "Unknown parameter: 'messages[2].reasoning_content'",
    ),
    "is_error": (lambda body: body["messages"][3].update(is_error=True), "Unknown parameter: 'messages[3].is_error'"),
    "an unknown parameter": (top(thinking={}), "Unknown parameter: 'thinking'"),
    "no model": (lambda body: body.pop("model"), "Missing required parameter: 'model'"),
    "two functions of one name": (lambda body: body["tools"].append(body["tools"][0]), "Duplicate function name"),
    "no tools in the list": (top(tools=[]), "Invalid 'tools': empty array"),
    "a name with a dot": (function(name="a.b"), "tools[0].function.name"),
    "a name too long": (function(name="n" * 65), "tools[0].function.name"),
    "a tool of Anthropic": (function(input_schema=SCHEMA), "Unknown parameter: 'tools[0].function.input_schema'"),
    "a schema of no object": (function(parameters={"type": "string"}), "schema must have type 'object'"),
    "a choice at the root": (function(parameters={**SCHEMA, "anyOf": [{}]}), "does not support 'anyOf'"),
    "a reference to nowhere": (
        function(parameters={"type": "object", "properties": {"q": {"$ref": "other.json"}}}),
        "can not be resolved",
    ),
    "strict, and more properties": (function(strict=True), "'additionalProperties' is required"),
    "strict, and optional": (strict(properties={"q": {"type": "string"}}), "'required' must include every key"),
    "strict, and a default": (
        strict(properties={"q": {"type": "string", "default": "x"}}, required=["q"]),
        "'default' is not permitted",
    ),
    "strict, with words at a reference": (
        strict(
            properties={"q": {"$ref": "#/$defs/Q", "description": "x"}},
            required=["q"],
            **{"$defs": {"Q": {"type": "string"}}},
        ),
        "$ref cannot have keywords",
    ),
    "strict inside, and more properties": (
        strict(properties={"q": {"type": "object", "properties": {}}}, required=["q"]),
        "In context=('properties', 'q')",
    ),
    "a choice of Anthropic": (top(tool_choice={"type": "auto"}), "tool_choice"),
    "a choice of no function": (
        top(tool_choice={"type": "function", "function": {"name": "x"}}),
        "Tool choice names a function",
    ),
    "parallel calls without tools": (
        lambda body: (body.pop("tools"), body.update(parallel_tool_calls=True)),
        "'parallel_tool_calls' is only allowed",
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
async def test_what_the_vendor_takes_is_taken(shared: Any, clients_of: Any, conforms: Any, case: str) -> None:
    clients = clients_of(shared)
    body = await looped(clients)
    ACCEPTED[case](body)

    reply = await ask(clients, body)

    assert reply["choices"][0]["message"]["content"] == "nine"
    conforms(SHAPE, body)
    assert not turnsafe.validate(body["messages"], "openai").errors


@pytest.mark.parametrize("case", REFUSED)
async def test_what_the_vendor_refuses_is_refused(shared: Any, clients_of: Any, case: str) -> None:
    clients = clients_of(shared)
    body = await looped(clients)
    edit, message = REFUSED[case]
    edit(body)

    with pytest.raises(openai.BadRequestError) as refused:
        await ask(clients, body)

    assert message in refused.value.message
    assert message in shared.violations[-1].refusal


async def test_an_id_may_come_again_in_a_later_turn(play: Any) -> None:
    _, clients = play([call("look", id="call_1", q="a"), call("look", id="call_1", q="b"), say("nine")])
    body = start()
    for _ in range(2):
        message = (await ask(clients, body))["choices"][0]["message"]
        body["messages"] += [message, {"role": "tool", "tool_call_id": "call_1", "content": "1"}]

    assert (await ask(clients, body))["choices"][0]["message"]["content"] == "nine"


async def test_a_field_nobody_knows_is_taken_back_when_the_model_sent_it(play: Any) -> None:
    _, clients = play([[say("so"), block(type="novelty", depth=3)], say("nine")])
    body = start()
    message = (await ask(clients, body))["choices"][0]["message"]
    body["messages"] += [message, {"role": "user", "content": "on"}]

    assert message["novelty"] == {"type": "novelty", "depth": 3}
    assert (await ask(clients, body))["choices"][0]["message"]["content"] == "nine"
