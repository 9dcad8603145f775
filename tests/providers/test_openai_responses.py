"""How answers of the Responses API are read, and what of them is sent back."""

import json
from typing import Any

import pytest

from perdure.core.contracts import AdmittedCall, Opening, RecordedTurn, Stop, Usage, Verdict
from perdure.core.transcript import Assistant
from perdure.providers import ModelError, Reply, provider

_RESPONSES = provider("openai-responses")
_OPENING = Opening(digest="", turns=1, protocol="openai-responses", model="m", system="")
_REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA=="}
_CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"b": 1}'}


def _message(*parts: Any) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": list(parts)}


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


_REFUSAL = _message({"type": "refusal", "refusal": "I won't."})


def _read(output: Any, status: Any = "completed", **more: Any) -> Reply:
    return _RESPONSES.read(
        json.dumps({"object": "response", "output": output, "status": status, **more}).encode(), _OPENING
    )


def _incomplete(output: Any, reason: str) -> Reply:
    return _read(output, "incomplete", incomplete_details={"reason": reason})


def _sent(output: Any, *calls: tuple[str, str]) -> Any:
    admitted = tuple(
        AdmittedCall(index=index, id=id, name=name, verdict=Verdict.RUN) for index, (id, name) in enumerate(calls)
    )
    turn = RecordedTurn(digest="", stop=Stop.CALLS, calls=admitted, protocol="openai-responses", message=output)
    return json.loads(b"[" + _RESPONSES.encode([Assistant(turn)]) + b"]")


@pytest.mark.parametrize(
    ("output", "stop"),
    [
        ([_REASONING, _message(_text("Nine"), _text(" days."))], Stop.ANSWER),
        ([_REASONING, _CALL], Stop.CALLS),
        ([_message(_text("Wait.")), _CALL], Stop.CALLS),
        ([], Stop.BLANK),
        (None, Stop.BLANK),
        ([_REASONING], Stop.BLANK),
        ([_message(_text(" \n"))], Stop.BLANK),
        ([_message()], Stop.BLANK),
        ([_REFUSAL], Stop.REFUSED),
    ],
)
def test_stops_are_read(output: Any, stop: Stop) -> None:
    reply = _read(output)
    assert reply.stop is stop
    assert reply.answer == {Stop.ANSWER: "Nine days.", Stop.REFUSED: "I won't."}.get(stop, "")
    assert reply.message == output


def test_an_incomplete_response_is_cut_or_refused() -> None:
    assert _incomplete([_message(_text("Nine"))], "max_output_tokens").stop is Stop.CUT
    assert _incomplete([_REASONING], "max_output_tokens").stop is Stop.CUT
    refused = _incomplete([_message(_text("Nine"))], "content_filter")
    assert (refused.stop, refused.answer) == (Stop.REFUSED, "Nine")


def test_a_call_is_not_whole_if_the_output_limit_cut_it() -> None:
    reply = _incomplete([_CALL, {**_CALL, "arguments": '{"b'}], "max_output_tokens")
    assert (reply.stop, [asked.whole for asked in reply.calls]) == (Stop.CALLS, [True, False])
    reply = _incomplete([{**_CALL, "status": "incomplete"}, _message(_text("x"))], "max_output_tokens")
    assert [asked.whole for asked in reply.calls] == [False]


def test_a_policy_failure_is_a_refusal_not_an_error() -> None:
    error = {"code": "misalignment_policy_violation", "message": "Not this."}
    reply = _read([], "failed", error=error)
    assert (reply.stop, reply.answer) == (Stop.REFUSED, "Not this.")


def test_usage_counts_cache_and_reasoning() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 12},
    }
    assert _read([], usage=usage).usage == Usage(input=100, cached=60, cache_written=10, output=30, reasoning=12)
    assert _read([], usage=None).usage == Usage()


def test_items_go_back_in_order_and_untouched() -> None:
    output = [_REASONING, {"type": "new_item", "x": None}, _message(_text("Wait.")), _CALL]
    assert _sent(output, ("call_1", "f")) == output


def test_a_call_goes_back_under_its_admitted_id_and_name_with_an_object() -> None:
    output = [_CALL, {**_CALL, "name": "f g", "arguments": "[]"}, {**_CALL, "arguments": {"a": 1}}]
    assert _sent(output, ("call_1", "f"), ("call_2", "f_g"), ("call_3", "f")) == [
        _CALL,
        {**_CALL, "call_id": "call_2", "name": "f_g", "arguments": "{}"},
        {**_CALL, "call_id": "call_3", "arguments": '{"a":1}'},
    ]


def test_nulls_of_known_items_and_reasoning_without_a_successor_stay_away() -> None:
    output = [{**_REASONING, "status": None, "content": None}, {**_CALL, "namespace": None}, _REASONING]
    assert _sent(output, ("call_1", "f")) == [_REASONING, _CALL]


def test_nothing_is_stored_at_the_vendor() -> None:
    body = json.loads(_RESPONSES.body(_OPENING, b"", tools=True))
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    with pytest.raises(ModelError, match="'store'"):
        _RESPONSES.body(_OPENING.model_copy(update={"settings": {"store": True}}), b"", tools=True)
