"""What Anthropic's Messages refuse, next to what they take.

Each case starts from one valid transcript, changes one thing, and goes through the real SDK.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import anthropic
import pytest
import turnsafe
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from pydantic import TypeAdapter

from perdure.testing import block, call, pause, say, think

SCRIPT = [
    [think("first"), call("look", q="a"), think("second"), think("hidden", redacted=True), call("look", q="b")],
    say("nine"),
    [pause("web_search", query="x")],
    [say("more"), block(type="novelty", depth=3)],
    say("the end"),
]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}
SHAPE: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsNonStreaming)
Body = dict[str, Any]
Edit = Callable[[Body], object]


def start() -> Body:
    return {
        "model": "any",
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "go"}],
        "tools": [{"name": "look", "input_schema": copy.deepcopy(SCHEMA)}],
    }


async def ask(clients: Any, body: Body, path: str = "/v1/messages") -> Any:
    return await clients.anthropic.post(path, body=body, cast_to=object)


async def looped(clients: Any) -> Body:
    """A tool loop in its middle: two calls among thoughts, both answered."""
    body = start()
    reply = await ask(clients, body)
    results = [
        {"type": "tool_result", "tool_use_id": each["id"], "content": each["input"]["q"]}
        for each in reply["content"]
        if each["type"] == "tool_use"
    ]
    body["messages"] += [
        {"role": "assistant", "content": reply["content"]},
        {"role": "user", "content": [*results, {"type": "text", "text": "and?"}]},
    ]
    return body


def said(body: Body) -> Any:
    return body["messages"][1]["content"]


def results(body: Body) -> Any:
    return body["messages"][2]["content"]


def then(*edits: Edit) -> Edit:
    return lambda body: [edit(body) for edit in edits]


def tool(**changes: Any) -> Edit:
    return lambda body: body["tools"][0].update(changes)


def top(**changes: Any) -> Edit:
    return lambda body: body.update(changes)


def strict(schema: dict[str, Any]) -> Edit:
    return tool(strict=True, input_schema={"type": "object", "additionalProperties": False, **schema})


def more(*messages: Any) -> Edit:
    return lambda body: body["messages"].extend(messages)


def rename_twin(body: Body) -> None:
    twin = said(body)[-1]
    twin["id"] = results(body)[1]["tool_use_id"] = said(body)[1]["id"]


ACCEPTED: dict[str, Edit] = {
    "as it was received": lambda body: None,
    "results in another order": lambda body: results(body).insert(0, results(body).pop(1)),
    "a result that is an error": lambda body: results(body)[0].update(is_error=True),
    "a result without content": lambda body: results(body)[0].pop("content"),
    "a result of blocks": lambda body: results(body)[0].update(content=[{"type": "text", "text": "x"}]),
    "a zero character": lambda body: results(body)[0].update(content="\0abc"),
    "cache control on four places": then(
        top(cache_control={"type": "ephemeral"}),
        lambda body: [block.update(cache_control={"type": "ephemeral"}) for block in results(body)],
    ),
    "cache control for an hour before minutes": top(
        system=[{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        cache_control={"type": "ephemeral"},
    ),
    "system text in blocks": top(system=[{"type": "text", "text": "be brief"}]),
    "no more calls wanted": top(tool_choice={"type": "none"}),
    "a tool chosen": top(tool_choice={"type": "tool", "name": "look"}),
    "thinking enabled": top(max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024}),
    "thoughts dropped with thinking off": then(
        top(thinking={"type": "disabled"}),
        lambda body: body["messages"][1].update(content=[each for each in said(body) if each["type"] == "tool_use"]),
    ),
    "a system message in between": more({"role": "system", "content": "be brief"}, {"role": "user", "content": "ok"}),
    "a long tool name": tool(name="n" * 128),
    "an invented tool name sent back": lambda body: said(body)[1].update(name="not_offered"),
    "a strict schema": strict({"properties": {"q": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
    "a local reference": tool(
        input_schema={"type": "object", "properties": {"q": {"$ref": "#/$defs/Q"}}, "$defs": {"Q": {"type": "string"}}}
    ),
}

REFUSED: dict[str, tuple[Edit, str]] = {
    "a call unanswered": (lambda body: results(body).pop(1), "were found without `tool_result` blocks immediately"),
    "all calls unanswered": (lambda body: body["messages"].pop(), "were found without `tool_result` blocks"),
    "a result twice": (
        lambda body: results(body).insert(1, dict(results(body)[0])),
        "each tool_use must have a single result",
    ),
    "a result nobody asked for": (
        lambda body: results(body)[0].update(tool_use_id="toolu_x"),
        "unexpected `tool_use_id`",
    ),
    "a result a message too late": (
        then(
            more({"role": "user", "content": []}),
            lambda body: body["messages"][3].update(content=[results(body).pop(1)]),
        ),
        "were found without",
    ),
    "a text before the results": (
        lambda body: results(body).insert(0, {"type": "text", "text": "so"}),
        "were found without",
    ),
    "a result from the assistant": (lambda body: said(body).insert(0, results(body)[0]), "can only be in `user`"),
    "a call from the user": (lambda body: results(body).append(said(body)[1]), "can only be in `assistant`"),
    "two calls with one id": (rename_twin, "`tool_use` ids must be unique"),
    "an edited thought": (lambda body: said(body)[0].update(thinking="else"), "Invalid `signature` in `thinking`"),
    "an emptied thought": (lambda body: said(body)[0].update(thinking=""), "Invalid `signature`"),
    "another signature": (lambda body: said(body)[0].update(signature="x"), "Invalid `signature`"),
    "no signature": (lambda body: said(body)[0].pop("signature"), "thinking.signature: Field required"),
    "a dropped thought": (lambda body: said(body).pop(0), "cannot be modified"),
    "a dropped hidden thought": (lambda body: said(body).pop(3), "cannot be modified"),
    "a moved thought": (lambda body: said(body).insert(0, said(body).pop(2)), "cannot be modified"),
    "a thought moved past a call": (lambda body: said(body).insert(1, said(body).pop(2)), "cannot be modified"),
    "a changed hidden thought": (lambda body: said(body)[3].update(data="AAAA"), "Invalid `data`"),
    "a thought at the end": (lambda body: said(body).append(said(body)[0]), "final block in an assistant message"),
    "a thought from the user": (lambda body: results(body).append(said(body)[0]), "can only be in `assistant`"),
    "a content of nothing": (more({"role": "user", "content": ""}), "must have non-empty content"),
    "no blocks": (more({"role": "user", "content": []}), "must have non-empty content"),
    "content null": (more({"role": "user", "content": None}), "messages.3.content: Input should be a valid list"),
    "an empty text block": (lambda body: results(body)[2].update(text=""), "text content blocks must be non-empty"),
    "a blank text block": (lambda body: results(body)[2].update(text=" \n"), "must contain non-whitespace text"),
    "a blank block in a result": (
        lambda body: results(body)[0].update(content=[{"type": "text", "text": ""}]),
        "must be non-empty",
    ),
    "a blank system block": (
        top(system=[{"type": "text", "text": ""}]),
        "system: text content blocks must be non-empty",
    ),
    "a block without a type": (lambda body: results(body).append({}), "discriminator 'type'"),
    "a budget left out": (top(thinking={"type": "enabled"}), "thinking.enabled.budget_tokens: Field required"),
    "no messages": (top(messages=[]), "at least one message is required"),
    "assistant first": (lambda body: body["messages"].pop(0), 'first message must use the "user" role'),
    "a role of OpenAI": (more({"role": "tool", "content": "x"}), "messages.3.role: Input should be"),
    "a prefill": (more({"role": "assistant", "content": "So"}), "does not support assistant message prefill"),
    "a prefill ending in a space": (
        more({"role": "assistant", "content": "So "}),
        "cannot end with trailing whitespace",
    ),
    "a block nobody knows": (lambda body: results(body).append({"type": "novelty"}), "Input tag 'novelty' found"),
    "is_error as a text": (
        lambda body: results(body)[0].update(is_error="true"),
        "is_error: Input should be a valid bool",
    ),
    "a call id with a dot": (lambda body: said(body)[1].update(id="a.b"), "tool_use.id: String should match pattern"),
    "a call name with a dot": (
        lambda body: said(body)[1].update(name="multi_tool_use.parallel"),
        "messages.1.content.1.tool_use.name: String should match pattern",
    ),
    "arguments as a string": (lambda body: said(body)[1].update(input="{}"), "input: Input should be a valid dict"),
    "a key of OpenAI in a result": (lambda body: results(body)[0].update(name="x"), "Extra inputs are not permitted"),
    "temperature": (top(temperature=0.5), "temperature: Extra inputs are not permitted"),
    "no max_tokens": (lambda body: body.pop("max_tokens"), "max_tokens: Field required"),
    "max_tokens 0": (top(max_tokens=0), "max_tokens: Input should be greater than or equal to 1"),
    "a budget above max_tokens": (
        top(thinking={"type": "enabled", "budget_tokens": 1024}),
        "`max_tokens` must be greater",
    ),
    "no model": (lambda body: body.pop("model"), "model: Field required"),
    "calls without tools": (lambda body: body.pop("tools"), "must define `tools`"),
    "two tools of one name": (lambda body: body["tools"].append(body["tools"][0]), "Tool names must be unique"),
    "a tool name with a space": (tool(name="look up"), "tools.0.name: String should match pattern"),
    "a tool name too long": (tool(name="n" * 129), "tools.0.name: String should match pattern"),
    "a tool of OpenAI": (tool(parameters=SCHEMA), "tools.0.parameters: Extra inputs are not permitted"),
    "no schema": (lambda body: body["tools"][0].pop("input_schema"), "tools.0.input_schema: Field required"),
    "a schema of no object": (tool(input_schema={"type": "string"}), "schema must have type 'object'"),
    "a choice at the schema's root": (tool(input_schema={**SCHEMA, "anyOf": [{}]}), "does not support 'anyOf'"),
    "a schema with a wrong type": (
        tool(input_schema={"type": "object", "properties": {"q": {"type": "str"}}}),
        "JSON schema is invalid",
    ),
    "a reference to nowhere": (
        tool(input_schema={"type": "object", "properties": {"q": {"$ref": "#/$defs/Q"}}}),
        "can not be resolved",
    ),
    "a property with a space": (
        tool(input_schema={"type": "object", "properties": {"a b": {}}}),
        "Property keys should match",
    ),
    "strict, and more properties": (tool(strict=True), "'additionalProperties' is required"),
    "strict, and a minimum": (strict({"properties": {"q": {"type": "integer", "minimum": 1}}}), "'minimum' is not"),
    "strict, and recursive": (
        strict({"properties": {"q": {"$ref": "#/$defs/Q"}}, "$defs": {"Q": {"anyOf": [{"$ref": "#/$defs/Q"}]}}}),
        "recursive reference",
    ),
    "an unknown choice": (top(tool_choice={"type": "required"}), "tool_choice.type: Input should be"),
    "a choice as a text": (top(tool_choice="auto"), "tool_choice: Input should be a valid dict"),
    "a choice of no tool": (top(tool_choice={"type": "tool", "name": "x"}), "Tool 'x' not found"),
    "a choice without its name": (top(tool_choice={"type": "tool"}), "`name` belongs to"),
    "a choice while thinking": (
        top(max_tokens=2000, thinking={"type": "adaptive"}, tool_choice={"type": "any"}),
        "Thinking may not be enabled when tool_choice forces",
    ),
    "five cache breakpoints": (
        then(
            top(cache_control={"type": "ephemeral"}, system=[{"type": "text", "text": "s"}]),
            lambda body: [
                each.update(cache_control={"type": "ephemeral"}) for each in (*results(body), *body["system"])
            ],
        ),
        "A maximum of 4 blocks with cache_control",
    ),
    "cache control for minutes before an hour": (
        top(
            system=[{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "5m"}}],
            cache_control={"type": "ephemeral", "ttl": "1h"},
        ),
        "a ttl='1h' cache_control block must not come after",
    ),
    "a lone surrogate": (lambda body: results(body)[0].update(content="\ud800"), "not valid JSON"),
}


@pytest.mark.parametrize("case", ACCEPTED)
async def test_what_the_vendor_takes_is_taken(shared: Any, clients_of: Any, conforms: Any, case: str) -> None:
    clients = clients_of(shared)
    body = await looped(clients)
    ACCEPTED[case](body)

    reply = await ask(clients, body)

    assert reply["content"][0]["text"] == "nine"
    conforms(SHAPE, body)
    if "in between" not in case:  # turnsafe knows no system messages yet, the SDK's types do
        assert not turnsafe.validate(body["messages"], "anthropic").errors


@pytest.mark.parametrize("case", REFUSED)
async def test_what_the_vendor_refuses_is_refused(shared: Any, clients_of: Any, case: str) -> None:
    clients = clients_of(shared)
    body = await looped(clients)
    edit, message = REFUSED[case]
    edit(body)

    if case == "a lone surrogate":  # no SDK can encode one: as a hand-made client would send it
        request = clients.anthropic.post("/v1/messages", content=_ascii(body), cast_to=object, options=_JSON)
    else:
        request = ask(clients, body)
    with pytest.raises(anthropic.BadRequestError) as refused:
        await request

    assert message in refused.value.message
    assert refused.value.type == "invalid_request_error"
    assert message in shared.violations[-1].refusal


_JSON: Any = {"headers": {"Content-Type": "application/json"}}


def _ascii(body: Body) -> bytes:
    return json.dumps(body).encode()


async def test_a_paused_turn_is_sent_back_as_it_is_and_goes_on(play: Any) -> None:
    model, clients = play(SCRIPT[2:])
    body = start()

    paused = await ask(clients, body)
    body["messages"].append({"role": "assistant", "content": paused["content"]})
    went_on = await ask(clients, body)

    assert paused["stop_reason"] == "pause_turn"
    assert went_on["content"][0]["text"] == "more"
    assert model.violations == []


async def test_a_block_nobody_knows_is_taken_back_when_the_model_sent_it(play: Any) -> None:
    _, clients = play(SCRIPT[3:])
    body = start()
    novel = await ask(clients, body)
    body["messages"] += [{"role": "assistant", "content": novel["content"]}, {"role": "user", "content": "on"}]

    assert (await ask(clients, body))["content"][0]["text"] == "the end"

    novel["content"][1]["depth"] = 4
    with pytest.raises(anthropic.BadRequestError, match="Input tag 'novelty'"):
        await ask(clients, body)


async def test_thoughts_of_earlier_turns_may_be_left_out(play: Any) -> None:
    _, clients = play([*SCRIPT[:2], say("done")])
    body = await looped(clients)
    body["messages"] += [{"role": "assistant", "content": "nine"}, {"role": "user", "content": "on"}]
    body["messages"][1]["content"] = [each for each in said(body) if each["type"] == "tool_use"]

    assert (await ask(clients, body))["content"][0]["text"] == "done"


async def test_a_transcript_is_judged_alike_by_another_process(play: Any) -> None:
    _, clients = play(SCRIPT)
    body = await looped(clients)
    _, restarted = play(SCRIPT)

    assert (await ask(restarted, body))["content"][0]["text"] == "nine"
    said(body).pop(0)
    with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
        await ask(restarted, body)


async def test_counting_tokens_follows_the_same_grammar(play: Any) -> None:
    _, clients = play(SCRIPT)
    body = await looped(clients)
    del body["max_tokens"]

    assert (await ask(clients, body, "/v1/messages/count_tokens"))["input_tokens"] > 10
    results(body).pop(0)
    with pytest.raises(anthropic.BadRequestError, match="were found without"):
        await ask(clients, body, "/v1/messages/count_tokens")
