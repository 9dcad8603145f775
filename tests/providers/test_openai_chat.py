"""How chat completions are read, of OpenAI and of the servers that imitate it, and what of them is sent back."""

import json
from typing import Any

import pytest

from perdure.core.contracts import AdmittedCall, Opening, RecordedTurn, Stop, Usage, Verdict
from perdure.core.transcript import Assistant
from perdure.providers import Reply, provider

_CHAT = provider("openai-chat")
_OPENING = Opening(digest="", turns=1, protocol="openai-chat", model="m", system="Be exact.")


def _call(arguments: Any = '{"b": 1}', id: Any = "call_1", name: str = "f") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _read(message: dict[str, Any], finish_reason: Any = "stop", **more: Any) -> Reply:
    message = {"role": "assistant", **message}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}], "model": "m", **more}
    return _CHAT.read(json.dumps(answer).encode(), _OPENING)


def _sent(message: dict[str, Any], *calls: tuple[str, str]) -> Any:
    admitted = tuple(
        AdmittedCall(index=index, id=id, name=name, verdict=Verdict.RUN) for index, (id, name) in enumerate(calls)
    )
    turn = RecordedTurn(digest="", stop=Stop.CALLS, calls=admitted, protocol="openai-chat", message=message)
    encoded = _CHAT.encode([Assistant(turn)])
    return json.loads(encoded) if encoded else None


@pytest.mark.parametrize(
    ("message", "reason", "stop"),
    [
        ({"content": "Nine days."}, "stop", Stop.ANSWER),
        ({"content": [{"type": "text", "text": "Nine days."}]}, "stop", Stop.ANSWER),
        ({"content": "Nine days."}, "eos", Stop.ANSWER),
        ({"content": None, "tool_calls": [_call()]}, "tool_calls", Stop.CALLS),
        ({"content": "Wait.", "tool_calls": [_call()]}, "stop", Stop.CALLS),
        ({"content": "Nine days.", "tool_calls": []}, "tool_calls", Stop.ANSWER),
        ({"content": "Nine days."}, "length", Stop.CUT),
        ({"content": None}, "stop", Stop.BLANK),
        ({}, "stop", Stop.BLANK),
        ({"content": "\n "}, "stop", Stop.BLANK),
        ({"content": None, "reasoning_content": "Hm."}, "stop", Stop.BLANK),
        ({"content": "Nine days."}, "content_filter", Stop.REFUSED),
        ({"content": None, "refusal": "Nine days."}, "stop", Stop.REFUSED),
    ],
)
def test_stops_are_read(message: dict[str, Any], reason: str, stop: Stop) -> None:
    reply = _read(message, reason)
    assert reply.stop is stop
    assert reply.answer == ("Nine days." if stop in (Stop.ANSWER, Stop.CUT, Stop.REFUSED) else "")
    assert reply.message == {"role": "assistant", **message}


def test_calls_are_read_as_asked() -> None:
    asked = _read({"tool_calls": [_call("", ""), _call(None, None), _call({"a": 1}), _call("[]")]}, "length").calls
    assert [each.arguments for each in asked] == ["", "", '{"a":1}', "[]"]
    assert [each.id for each in asked] == ["", "", "call_1", "call_1"]
    assert [each.whole for each in asked] == [True, True, True, False]


def test_a_custom_call_nobody_offered_is_read_and_can_be_answered() -> None:
    custom = {"id": "", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    [asked] = _read({"tool_calls": [custom]}, "tool_calls").calls
    assert (asked.name, asked.arguments) == ("shell", "ls")
    assert _sent({"tool_calls": [custom]}, ("call_9", "shell"))["tool_calls"] == [{**custom, "id": "call_9"}]


def test_usage_may_be_missing() -> None:
    assert _read({"content": "x"}).usage == Usage()
    assert _read({"content": "x"}, usage=None).usage == Usage()
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    assert _read({"content": "x"}, usage=usage).usage == Usage(input=100, cached=60, output=30, reasoning=12)


def test_a_message_goes_back_with_what_a_server_added_and_without_what_only_answers_hold() -> None:
    message = {
        "role": "assistant",
        "content": "Wait.",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "reasoning_content": "Hm.",
        "tool_calls": [_call()],
    }
    kept = {"role": "assistant", "content": "Wait.", "reasoning_content": "Hm.", "tool_calls": [_call()]}
    assert _sent(message, ("call_1", "f")) == kept


@pytest.mark.parametrize("broken", ["", None, "[]", "5", "null", "{", '{"a": NaN}', "[" * 5000])
def test_arguments_that_are_no_object_go_back_as_one(broken: Any) -> None:
    [call] = _sent({"tool_calls": [_call(broken)]}, ("call_1", "f"))["tool_calls"]
    assert call == _call("{}")


def test_arguments_that_are_an_object_go_back_to_the_byte() -> None:
    text = '{ "b" :1.0,\n"a": "\\u00fc\\ud83d\\ude00", "b": 2 }'
    assert _sent({"tool_calls": [_call(text)]}, ("call_1", "f"))["tool_calls"] == [_call(text)]


def test_calls_go_back_under_their_admitted_ids_and_names() -> None:
    message = {"content": None, "tool_calls": [_call(), _call(), {"function": {"name": "a b", "arguments": "{}"}}]}
    sent = _sent(message, ("call_1", "f"), ("call_1_2", "f"), ("call_3", "a_b"))
    assert sent["tool_calls"] == [_call(), _call(id="call_1_2"), _call("{}", "call_3", "a_b")]
    assert sent["content"] is None


def test_a_message_with_nothing_to_say_is_not_sent() -> None:
    assert _sent({"role": "assistant", "content": None, "tool_calls": []}) is None


def test_the_instructions_come_first() -> None:
    body = json.loads(_CHAT.body(_OPENING, b"", tools=True))
    assert body["messages"] == [{"role": "system", "content": "Be exact."}]
    assert "tool_choice" not in body  # which the API refuses where no tools are
