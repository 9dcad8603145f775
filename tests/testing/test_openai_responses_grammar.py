"""What OpenAI's Responses refuse, next to what they take. Each case changes one thing of a valid transcript."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from perdure.testing import block, call, say, think

SCRIPT = [
    [think("first"), call("look", q="a"), think("second"), say("one more"), call("look", q="b")],
    say("nine"),
]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}
SHAPE: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsNonStreaming)
Body = dict[str, Any]
Edit = Callable[[Body], object]


def start() -> Body:
    return {
        "model": "any",
        "store": False,
        "input": [{"role": "user", "content": "go"}],
        "tools": [{"type": "function", "name": "look", "parameters": copy.deepcopy(SCHEMA), "strict": False}],
    }


async def ask(clients: Any, body: Body) -> Any:
    return await clients.openai.post("/responses", body=body, cast_to=object)


async def looped(clients: Any) -> Body:
    """Input: user, reasoning, call, reasoning, message, call, output, output."""
    body = start()
    output = (await ask(clients, body))["output"]
    answers = [
        {"type": "function_call_output", "call_id": each["call_id"], "output": "1"}
        for each in output
        if "call_id" in each
    ]
    body["input"] += [*output, *answers]
    return body


def item(index: int, **changes: Any) -> Edit:
    return lambda body: body["input"][index].update(changes)


def without(index: int) -> Edit:
    return lambda body: body["input"].pop(index)


def top(**changes: Any) -> Edit:
    return lambda body: body.update(changes)


def tool(**changes: Any) -> Edit:
    return lambda body: body["tools"][0].update(changes)


def strict(**schema: Any) -> Edit:
    return tool(strict=True, parameters={"type": "object", "additionalProperties": False, **schema})


def more(*items: Any) -> Edit:
    return lambda body: body["input"].extend(items)


def move(start: int, end: int) -> Edit:
    return lambda body: body["input"].insert(end, body["input"].pop(start))


def rename_twin(body: Body) -> None:
    body["input"][5]["call_id"] = body["input"][7]["call_id"] = body["input"][2]["call_id"]


def drop_ids(body: Body) -> None:
    for each in body["input"]:
        if each.get("type") == "function_call":
            del each["id"]


ACCEPTED: dict[str, Edit] = {
    "as it was received": lambda body: None,
    "outputs in another order": move(6, 7),
    "calls without item ids": drop_ids,
    "an output in parts": item(6, output=[{"type": "input_text", "text": "1"}]),
    "instructions": top(instructions="be brief"),
    "a developer's message": lambda body: body["input"].insert(0, {"role": "developer", "content": "be brief"}),
    "a user after the outputs": more({"role": "user", "content": "and?"}),
    "no more calls wanted": top(tool_choice="none"),
    "a tool chosen": top(tool_choice={"type": "function", "name": "look"}),
    "tools gone": lambda body: body.pop("tools"),
    "reasoning asked for": top(reasoning={"effort": "low"}, include=["reasoning.encrypted_content"]),
    "a call to a tool not on offer": item(2, name="not_offered"),
    "no parameters": tool(parameters=None),
    "a strict schema": strict(properties={"q": {"type": ["string", "null"]}}, required=["q"]),
}

REFUSED: dict[str, tuple[Edit, str]] = {
    "a call unanswered": (without(7), "No tool output found for function call call_"),
    "a call answered too late": (
        lambda body: body["input"].insert(7, {"role": "user", "content": "x"}),
        "No tool output found for function call call_",
    ),
    "an output twice": (
        more({"type": "function_call_output", "call_id": "call_x", "output": "1"}),
        "No tool call found",
    ),
    "an output before its call": (move(6, 1), "No tool call found for function call output with call_id call_"),
    "an output nobody asked for": (item(6, call_id="call_x"), "No tool call found for function call output"),
    "two calls with one id": (rename_twin, "Duplicate call_id"),
    "an item twice": (lambda body: body["input"].insert(3, body["input"][2]), "Duplicate item found with id fc_"),
    "reasoning dropped": (without(1), "of type 'function_call' was provided without its required 'reasoning' item"),
    "reasoning of the message dropped": (without(3), "of type 'message' was provided without its required 'reasoning'"),
    "reasoning moved": (move(1, 3), "was provided without its required 'reasoning' item"),
    "reasoning alone": (
        lambda body: body["input"].insert(6, {**body["input"][1], "id": "rs_x"}),
        "of type 'reasoning' was provided without its required following item",
    ),
    "reasoning changed": (item(1, encrypted_content="gAAAAAxyz"), "could not be verified"),
    "reasoning under another id": (item(1, id="rs_x"), "without its required 'reasoning' item"),
    "reasoning without its summary": (lambda body: body["input"][1].pop("summary"), "Missing required parameter"),
    "arguments empty": (item(2, arguments=""), "Invalid 'input[2].arguments'"),
    "arguments cut": (item(2, arguments='{"q'), "Invalid 'input[2].arguments'"),
    "arguments of a list": (item(2, arguments="[]"), "Invalid 'input[2].arguments'"),
    "arguments null": (item(2, arguments=None), "'input[2].arguments'"),
    "arguments as an object": (item(2, arguments={}), "'input[2].arguments'"),
    "a call name with a dot": (item(2, name="functions.look"), "'input[2].name'"),
    "a call name too long": (item(2, name="n" * 65), "'input[2].name'"),
    "an empty call id": (item(2, call_id=""), "'input[2].call_id'"),
    "an assistant saying nothing": (more({"role": "assistant", "content": ""}), "must say something"),
    "no parts": (more({"role": "user", "content": []}), "empty array"),
    "an output left out": (
        lambda body: body["input"][6].pop("output"),
        "Missing required parameter: 'input[6].output'",
    ),
    "an output null": (item(6, output=None), "'input[6].output'"),
    "is_error": (item(6, is_error=True), "Unknown parameter: 'input[6].is_error'"),
    "no input": (top(input=[]), "Invalid 'input': empty array"),
    "messages instead of input": (
        lambda body: (body.pop("input"), body.update(messages=[])),
        "Missing required parameter: 'input'",
    ),
    "a role of Chat": (more({"role": "tool", "content": "x"}), "'input[8].role'"),
    "an item nobody knows": (more({"type": "novelty"}), "Invalid value: 'novelty'"),
    "an unknown parameter": (top(max_tokens=5), "Unknown parameter: 'max_tokens'"),
    "a remembered response": (top(previous_response_id="resp_1"), "Previous response with id 'resp_1' not found"),
    "strict left out": (lambda body: body["tools"][0].pop("strict"), "Missing required parameter: 'tools[0].strict'"),
    "a tool of Chat": (tool(function={}), "Unknown parameter: 'tools[0].function'"),
    "two tools of one name": (lambda body: body["tools"].append(body["tools"][0]), "Duplicate function name"),
    "a name with a dot": (tool(name="a.b"), "'tools[0].name'"),
    "a schema of no object": (tool(parameters={"type": "array"}), "schema must have type 'object'"),
    "strict, and more properties": (tool(strict=True), "'additionalProperties' is required"),
    "strict, and optional": (strict(properties={"q": {"type": "string"}}), "'required' must include every key"),
    "a choice of no tool": (top(tool_choice={"type": "function", "name": "x"}), "Tool choice 'x' not found"),
    "a choice of Chat": (top(tool_choice={"type": "function", "function": {"name": "look"}}), "tool_choice"),
    "a choice that no tool meets": (
        lambda body: (body.pop("tools"), body.update(tool_choice="required")),
        "must be specified with 'tools'",
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
async def test_what_the_vendor_takes_is_taken(shared: Any, clients_of: Any, conforms: Any, case: str) -> None:
    clients = clients_of(shared)
    body = await looped(clients)
    ACCEPTED[case](body)

    reply = await ask(clients, body)

    assert reply["output"][0]["content"][0]["text"] == "nine"
    conforms(SHAPE, body)


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


async def test_reasoning_without_its_content_is_not_found(shared: Any, clients_of: Any) -> None:
    clients = clients_of(shared)
    body = await looped(clients)
    del body["input"][1]["encrypted_content"]

    with pytest.raises(openai.NotFoundError, match="Items are not persisted when `store` is set to false"):
        await ask(clients, body)


async def test_an_item_nobody_knows_is_taken_back_when_the_model_sent_it(play: Any) -> None:
    _, clients = play([[block(type="novelty", depth=3), say("so")], say("nine")])
    body = start()
    output = (await ask(clients, body))["output"]
    body["input"] += [*output, {"role": "user", "content": "on"}]

    assert output[0] == {"type": "novelty", "depth": 3}
    assert (await ask(clients, body))["output"][0]["content"][0]["text"] == "nine"


async def test_no_item_of_a_reply_has_an_id_that_the_transcript_holds(play: Any) -> None:
    """A client that makes its transcript shorter comes to a number of turns that it had before."""
    model, clients = play(lambda seen: say(f"{seen.turn}"))
    body = start()
    body["input"] += (await ask(clients, body))["output"] + [{"role": "user", "content": "and?"}]
    [kept] = (await ask(clients, body))["output"]
    shorter = start()
    shorter["input"] += [kept, {"role": "user", "content": "and?"}]
    again = (await ask(clients, shorter))["output"]
    assert again == (await ask(clients, shorter))["output"]  # the same request has the same reply
    shorter["input"] += [*again, {"role": "user", "content": "and?"}]
    await ask(clients, shorter)
    assert model.violations == []
