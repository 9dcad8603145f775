"""What the scripted model remembers of earlier requests never shows in an answer: a new server would give the same."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from perdure.testing import ScriptedModel, block, call, say, think
from perdure.testing.anthropic_grammar import Counted
from perdure.testing.known import Known, Message, misshaped
from tests.samples import png

SCRIPT = [
    [think("first"), call("look", q="a"), think("hidden", redacted=True), call("look", q=1)],
    [say("on it"), call("look", q=True)],
    [think("second"), call("look", q=None), block(type="novelty", depth=3)],
    say("done"),
    [think("third"), call("look", q={"a": 1, "b": [1.0]})],
    say("the end"),
]
PATHS = {"anthropic": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
SCHEMA = {"type": "object", "properties": {"q": {}}}
TASK = {"role": "user", "content": "go"}
PICTURE = base64.b64encode(png()).decode()
Body = dict[str, Any]
_client = httpx2.Client()
_keys = map(str, range(1_000_000))  # each request is another account's: vendors' caches show in the usage, and should


def start(protocol: str) -> Body:
    function = {"name": "look", "parameters": SCHEMA}
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
    match protocol:
        case "anthropic":
            return {
                "model": "m",
                "max_tokens": 9,
                "cache_control": {"type": "ephemeral"},
                "tools": [{"name": "look", "input_schema": SCHEMA}],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "go"}, picture]}],
            }
        case "responses":
            look = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}
            task = {"role": "user", "content": [{"type": "input_text", "text": "go"}, look]}
            return {"model": "m", "tools": [{"type": "function", "strict": False, **function}], "input": [task]}
    return {"model": "m", "tools": [{"type": "function", "function": function}], "messages": [TASK]}


def sent_back(protocol: str, reply: Any) -> list[Body]:
    """The messages of the next request: the reply, and an answer to each call in it, or a word of the user's."""
    match protocol:
        case "anthropic":
            asked = [each["id"] for each in reply["content"] if each["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": each, "content": f"it is {each}"} for each in asked]
            said = {"role": "assistant", "content": reply["content"]}
            return [said, {"role": "user", "content": results or [{"type": "text", "text": "on"}]}]
        case "responses":
            asked = [each["call_id"] for each in reply["output"] if "call_id" in each]
            outputs = [{"type": "function_call_output", "call_id": each, "output": f"it is {each}"} for each in asked]
            return [*reply["output"], *(outputs or [{"role": "user", "content": "on"}])]
    message = reply["choices"][0]["message"]
    asked = [each["id"] for each in message.get("tool_calls", ())]
    results = [{"role": "tool", "tool_call_id": each, "content": f"it is {each}"} for each in asked]
    return [message, *(results or [{"role": "user", "content": "on"}])]


def ask(model: ScriptedModel, protocol: str, body: Body | bytes) -> tuple[int, Any]:
    key = next(_keys)
    headers = {"x-api-key": key, "authorization": f"Bearer {key}", "anthropic-version": "2023-06-01"}
    headers["content-type"] = "application/json"
    raw = body if isinstance(body, bytes) else dumped(body)
    answer = _client.post(f"{model.url}{PATHS[protocol]}", content=raw, headers=headers)
    return answer.status_code, answer.json()


def dumped(body: Body) -> bytes:
    """As SDKs and perdure write it: what is known is recognised in these bytes."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def asked_anew(protocol: str, body: Body | bytes) -> tuple[int, Any]:
    with ScriptedModel(SCRIPT) as fresh:
        return ask(fresh, protocol, body)


def conversation(model: ScriptedModel, protocol: str) -> Body:
    """As a client has it, turn by turn, up to the last."""
    body = start(protocol)
    within = "input" if protocol == "responses" else "messages"
    for _ in SCRIPT[1:]:
        status, reply = ask(model, protocol, body)
        assert status == 200, reply
        body[within] = [*body[within], *sent_back(protocol, reply)]
    return body


# --- what is drawn ----------------------------------------------------------------------------------------------------

VALUES = st.sampled_from(
    ["", " ", "x", "go", "user", "assistant", "tool_use", None, True, 1, 1.0, [], {}, {"type": "text"}]
)
CACHED = {"cache_control": {"type": "ephemeral"}}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a body: what holds it, and its key or number there."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(inside):
        yield value, key
        yield from places(inner)


@st.composite
def edits(draw: st.DrawFn, body: Body) -> Body:
    """The body with one to three things changed, anywhere in it."""
    edited = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(list(places(edited))))
        kind = draw(st.sampled_from(["drop", "change", "take from elsewhere", "twice", "swap", "reorder", "mark"]))
        value = holder[key]
        match kind:
            case "drop":
                del holder[key]
            case "change":
                holder[key] = copy.deepcopy(draw(VALUES))
            case "take from elsewhere":
                other, place = draw(st.sampled_from(list(places(edited))))
                holder[key] = copy.deepcopy(other[place])
            case "twice" if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(value))
            case "swap" if isinstance(holder, list):
                holder.insert(draw(st.integers(0, len(holder))), holder.pop(key))
            case "reorder" if isinstance(value, dict):
                holder[key] = dict(reversed(value.items()))
            case "mark" if isinstance(value, dict):
                holder[key] = {**value, **copy.deepcopy(CACHED)}  # or a later edit would change what is drawn next
    return edited


@pytest.fixture(scope="module")
def seasoned() -> Iterator[ScriptedModel]:
    """It has seen whole conversations, and all that the tests of this file sent before."""
    with ScriptedModel(SCRIPT) as model:
        yield model


@pytest.fixture(scope="module", params=list(PATHS))
def seen(request: pytest.FixtureRequest, seasoned: ScriptedModel) -> tuple[str, Body]:
    return request.param, conversation(seasoned, request.param)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_request_is_answered_as_if_nothing_had_come_before(
    data: st.DataObject, seasoned: ScriptedModel, seen: tuple[str, Body]
) -> None:
    protocol, body = seen
    edited = data.draw(edits(body))
    expected = asked_anew(protocol, edited)
    assert ask(seasoned, protocol, edited) == expected
    assert ask(seasoned, protocol, edited) == expected
    assert ask(seasoned, protocol, body)[0] == 200


@pytest.mark.parametrize("real", [b'"messages":[', b'"messages" : [', b'"mess\\u0061ges":['])
@pytest.mark.parametrize("place", [b'"metadata":{%b},%b', b"%b,%b", b'%b,"x":0,%b'])
def test_a_known_transcript_elsewhere_in_a_body_is_not_the_messages(
    seasoned: ScriptedModel, place: bytes, real: bytes
) -> None:
    body = conversation(seasoned, "anthropic")
    head, _, rest = dumped(body).partition(b'"messages":[')
    decoy = b'"messages":[' + rest[:-1]
    other = real + b'{"role":"user","content":"other"}]}'
    sent = head + place % (decoy, other)
    assert json.loads(sent)["messages"] == [{"role": "user", "content": "other"}]
    assert ask(seasoned, "anthropic", sent) == asked_anew("anthropic", sent)


def test_numbers_and_truths_are_told_apart_though_they_are_equal(seasoned: ScriptedModel) -> None:
    body = conversation(seasoned, "anthropic")
    result = body["messages"][2]["content"][0]
    result["is_error"] = True
    assert ask(seasoned, "anthropic", body)[0] == 200
    result["is_error"] = 1
    assert ask(seasoned, "anthropic", body)[0] == 400


def test_what_was_refused_is_not_known(seasoned: ScriptedModel) -> None:
    body = start("anthropic")
    body["messages"].append({"role": "user", "content": "never taken"})
    broken = {**body, "messages": [*body["messages"], {"role": "user", "content": " "}]}
    for _ in range(2):
        assert ask(seasoned, "anthropic", broken)[0] == 400


def test_too_many_messages_are_too_many_also_when_most_are_known() -> None:
    known = Known(Message, "messages")
    shape: TypeAdapter[Any] = TypeAdapter(Counted)
    few = known.parsed(dumped({"model": "m", "messages": [TASK]}))
    known.take(few)
    [task] = few["messages"]
    wrong = misshaped(shape, {"model": "m", "messages": [task] * 100_001}, frozenset(), "messages")
    assert wrong is not None
    assert "at most 100000 items" in wrong[2]


def message(number: int) -> Body:
    return {"role": "user", "content": f"{number}" * 100}


def test_what_nobody_sent_for_long_is_forgotten() -> None:
    known = Known(Message, "messages", most_bytes=20_000)

    def taken(*numbers: int) -> list[bool]:
        body = known.parsed(dumped({"messages": [message(each) for each in numbers]}))
        before = [each.taken for each in body["messages"]]
        known.take(body)
        return before

    assert taken(0, 1, 2) == [False] * 3
    assert taken(0, 1, 2, 3) == [True, True, True, False]
    for number in range(4, 60):
        taken(0, number)
    assert taken(0, 1) == [True, False]
