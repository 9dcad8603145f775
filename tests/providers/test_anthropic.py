"""How answers of the Messages API are read, and what of them is sent back."""

import json
from typing import Any

import pytest

from perdure.core.contracts import AdmittedCall, Opening, RecordedTurn, Stop, Usage, Verdict
from perdure.core.transcript import Assistant
from perdure.providers import ModelError, Reply, provider

_ANTHROPIC = provider("anthropic")
_OPENING = Opening(digest="", turns=1, protocol="anthropic", model="m", system="")
_TEXT = {"type": "text", "text": "Nine days."}
_CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"b": 1, "a": "x"}}
_THOUGHT = {"type": "thinking", "thinking": "28 - 19", "signature": "s=="}


def _read(content: Any, stop_reason: Any = "end_turn", **more: Any) -> Reply:
    answer = {"type": "message", "role": "assistant", "content": content, "stop_reason": stop_reason, **more}
    return _ANTHROPIC.read(json.dumps(answer).encode(), _OPENING)


def _sent(content: Any, *calls: tuple[str, str], stop: Stop = Stop.CALLS) -> Any:
    admitted = tuple(
        AdmittedCall(index=index, id=id, name=name, verdict=Verdict.RUN) for index, (id, name) in enumerate(calls)
    )
    turn = RecordedTurn(digest="", stop=stop, calls=admitted, protocol="anthropic", message=content)
    encoded = _ANTHROPIC.encode([Assistant(turn)])
    return json.loads(encoded)["content"] if encoded else None


@pytest.mark.parametrize(
    ("content", "reason", "stop"),
    [
        ([_TEXT], "end_turn", Stop.ANSWER),
        ([_TEXT], "stop_sequence", Stop.ANSWER),
        ([_TEXT], "some_reason_of_2027", Stop.ANSWER),
        ([_THOUGHT, _CALL], "tool_use", Stop.CALLS),
        ([_TEXT, _CALL], "end_turn", Stop.CALLS),
        ([_CALL], "pause_turn", Stop.CALLS),
        ([_TEXT], "tool_use", Stop.ANSWER),
        ([_TEXT], "pause_turn", Stop.PAUSED),
        ([_TEXT], "max_tokens", Stop.CUT),
        ([_THOUGHT], "max_tokens", Stop.CUT),
        ([], "end_turn", Stop.BLANK),
        (None, "end_turn", Stop.BLANK),
        ([{"type": "text", "text": " \n\t"}], "end_turn", Stop.BLANK),
        ([_THOUGHT], "end_turn", Stop.BLANK),
        ([], "refusal", Stop.REFUSED),
        ([_TEXT, _CALL], "refusal", Stop.REFUSED),
    ],
)
def test_stops_are_read(content: Any, reason: str, stop: Stop) -> None:
    reply = _read(content, reason)
    assert reply.stop is stop
    assert bool(reply.calls) == (stop is Stop.CALLS)
    assert reply.message == content


def test_the_answer_is_all_text_of_the_last_message() -> None:
    texts = [{"type": "text", "text": text} for text in ("Ann has ", "9 days", " left.")]
    assert _read([_THOUGHT, *texts]).answer == "Ann has 9 days left."
    assert _read([_TEXT, _CALL], "tool_use").answer == ""
    assert _read([_TEXT], "refusal").answer == "Nine days."
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    assert _read([], "refusal", stop_details=details).answer == "Not this."
    assert _read([], "refusal", stop_details=None).answer == ""


def test_a_call_is_not_whole_if_the_output_limit_cut_it() -> None:
    reply = _read([_CALL, {**_CALL, "input": {}}], "max_tokens")
    assert [asked.whole for asked in reply.calls] == [True, False]
    assert [asked.whole for asked in _read([_CALL, _TEXT], "max_tokens").calls] == [True]


def test_calls_are_read_as_asked_also_with_ids_and_names_no_api_takes_back() -> None:
    odd = {"type": "tool_use", "id": "", "name": 'get_x(id="1")', "input": None}
    first, second, third = _read([_CALL, odd, {**_CALL, "input": "[1"}], "tool_use").calls
    assert (first.id, first.name, json.loads(first.arguments)) == ("toolu_1", "f", {"a": "x", "b": 1})
    assert (second.id, second.name, second.arguments) == ("", 'get_x(id="1")', "")
    assert third.arguments == "[1"


def test_input_tokens_count_what_was_cached() -> None:
    usage = {
        "input_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 30,
        "output_tokens_details": {"thinking_tokens": 12},
    }
    assert _read([_TEXT], usage=usage).usage == Usage(input=125, cached=100, cache_written=20, output=30, reasoning=12)
    assert _read([_TEXT]).usage == Usage()
    assert _read([_TEXT], usage={"input_tokens": None, "cache_read_input_tokens": "7"}).usage == Usage()


def test_blocks_go_back_in_order_and_untouched() -> None:
    content = [_THOUGHT, _CALL, {"type": "redacted_thinking", "data": "xyz"}, {"type": "new", "x": None}, _CALL]
    sent = _sent(content, ("toolu_1", "f"), ("toolu_1", "f"))
    assert sent == content


def test_a_call_goes_back_under_its_admitted_id_and_name() -> None:
    content: list[Any] = [_CALL, _TEXT, {**_CALL, "name": "functions.f", "caller": {"type": "direct"}}]
    assert _sent(content, ("toolu_1", "f"), ("toolu_1_2", "functions_f")) == [
        _CALL,
        _TEXT,
        {**_CALL, "id": "toolu_1_2", "name": "functions_f", "caller": {"type": "direct"}},
    ]
    assert content[2]["id"] == "toolu_1"  # the record itself stays as it was


@pytest.mark.parametrize(
    ("given", "sent"), [(None, {}), ("", {}), ([], {}), (5, {}), ("{", {}), ('{"a": 1}', {"a": 1})]
)
def test_input_that_is_no_object_goes_back_as_one(given: Any, sent: Any) -> None:
    assert _sent([{**_CALL, "input": given}], ("toolu_1", "f"))[0]["input"] == sent


def test_a_call_without_input_goes_back_with_an_empty_one() -> None:
    assert _sent([{"type": "tool_use", "id": "t", "name": "f"}], ("t", "f"))[0]["input"] == {}


def test_what_the_api_would_not_take_back_stays_away() -> None:
    blank = {"type": "text", "text": "  "}
    assert _sent([blank, _CALL], ("toolu_1", "f")) == [_CALL]
    assert _sent([_TEXT, _THOUGHT], stop=Stop.CUT) == [_TEXT]
    assert _sent([_THOUGHT], stop=Stop.CUT) is None


@pytest.mark.parametrize("setting", ["stream", "messages", "tools"])
def test_settings_may_not_replace_what_perdure_writes(setting: str) -> None:
    with pytest.raises(ModelError, match=f"'{setting}'") as caught:
        _ANTHROPIC.body(_OPENING.model_copy(update={"settings": {setting: True}}), b"", tools=True)
    assert caught.value.kind == "person"


def test_a_setting_of_none_takes_a_default_away() -> None:
    body = json.loads(
        _ANTHROPIC.body(_OPENING.model_copy(update={"settings": {"cache_control": None}}), b"", tools=True)
    )
    assert "cache_control" not in body
    assert body["max_tokens"] == 16_000
    assert "system" not in body
