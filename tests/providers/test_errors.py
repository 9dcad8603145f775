"""Every failure over real HTTP: its class, how long to wait, what to do, and no key in sight."""

import pickle
import re
import time
from email.utils import formatdate
from typing import Any

import pytest

from perdure.core.contracts import Opening
from perdure.providers import PROTOCOLS, ModelError, provider
from perdure.providers.protocol import Kind

protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


async def _fails(protocol: str) -> ModelError:
    model = provider(protocol)
    opening = Opening(digest="", turns=1, protocol=protocol, model="m", system="")
    with pytest.raises(ModelError) as caught:
        model.read(await model.post(b'{"model":"m"}'), opening)
    error = caught.value
    assert len(error.message) <= 1000
    assert error.__cause__ is None
    assert "0123456789" not in repr(error)
    return error


def _body(protocol: str, message: str = "No.", type: str = "some_error", code: str | None = None) -> dict[str, Any]:
    if protocol == "anthropic":
        details = {"details": {"error_code": code}} if code else {}
        return {"type": "error", "error": {"type": type, "message": message, **details}, "request_id": "req_1"}
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


@protocols
@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (400, "person", "settings and tools"),
        (401, "person", "_API_KEY"),
        (402, "person", "credit"),
        (403, "person", "use this model"),
        (404, "person", "start another run under a new id"),
        (408, "retry", "later"),
        (409, "retry", "later"),
        (413, "compact", "shorten"),
        (422, "person", "settings"),
        (429, "retry", "later"),
        (500, "retry", "later"),
        (503, "retry", "later"),
        (529, "retry", "later"),
    ],
)
async def test_a_status_is_classed_and_says_what_to_do(
    protocol: str, status: int, kind: Kind, advice: str, served: Any
) -> None:
    served(_body(protocol, "The vendor's words."), status, {"request-id": "req_1", "x-request-id": "req_1"})
    error = await _fails(protocol)
    assert error.kind == kind
    assert advice in error.message
    assert "The vendor's words" in error.message
    assert "req_1" in error.message
    assert error.details["status"] == status


async def test_an_empty_account_that_is_told_in_words_alone_is_no_fault_of_the_request(served: Any) -> None:
    served(
        _body("anthropic", "Your credit balance is too low to access the Anthropic API.", "invalid_request_error"), 400
    )
    error = await _fails("anthropic")
    assert (error.kind, error.outage) == ("person", True)
    assert "Add credit" in error.message


@protocols
@pytest.mark.parametrize(
    ("status", "type", "code", "kind"),
    [
        (429, "insufficient_quota", "insufficient_quota", "person"),
        (429, "rate_limit_error", "contract_spend_limit_reached", "person"),
        (429, "rate_limit_error", "enforced_spend_limit_reached", "person"),
        (429, "rate_limit_error", "ramp_limit_exceeded", "retry"),
        (400, "invalid_request_error", "context_length_exceeded", "compact"),
        (400, "overloaded_error", None, "retry"),
        (404, "invalid_request_error", "model_not_found", "person"),
        (500, "api_error", None, "retry"),
    ],
)
async def test_a_type_or_code_says_more_than_the_status(
    protocol: str, status: int, type: str, code: str | None, kind: Kind, served: Any
) -> None:
    served(_body(protocol, type=type, code=code), status)
    assert (await _fails(protocol)).kind == kind


@protocols
@pytest.mark.parametrize(
    "words",
    [
        "prompt is too long: 212000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000",
        "This model's maximum context length is 8192 tokens.",
        "the request exceeds the available context size",
    ],
)
async def test_a_prompt_that_is_too_long_is_known_by_its_words(protocol: str, words: str, served: Any) -> None:
    served(_body(protocol, words, "invalid_request_error"), 400)
    assert (await _fails(protocol)).kind == "compact"


@protocols
async def test_the_vendor_says_how_long_to_wait(protocol: str, served: Any) -> None:
    served(_body(protocol), 429, {"retry-after": "17.5"})
    assert (await _fails(protocol)).retry_after == 17.5
    served(_body(protocol), 529, {"retry-after-ms": "1500", "retry-after": "2"})
    assert (await _fails(protocol)).retry_after == 1.5
    served(_body(protocol), 429, {"retry-after": formatdate(time.time() + 500, usegmt=True)})
    assert 300 < ((await _fails(protocol)).retry_after or 0) < 501
    for nonsense in ("soon", "nan", "inf", "Wed, 01 Jan 999999 00:00:00 GMT"):
        served(_body(protocol), 429, {"retry-after": nonsense})
        assert (await _fails(protocol)).retry_after is None
    served(_body(protocol), 429, {"retry-after": "-5"})
    assert (await _fails(protocol)).retry_after == 0


@protocols
@pytest.mark.parametrize(
    "wait",
    ["601", "604800", "1e300", formatdate(time.time() + 86_400, usegmt=True)],
    ids=["601", "604800", "1e300", "date"],
)
async def test_a_wait_that_nobody_would_see_is_a_persons(protocol: str, wait: str, served: Any) -> None:
    served(_body(protocol), 429, {"retry-after": wait})
    error = await _fails(protocol)
    assert (error.kind, error.retry_after) == ("person", None)
    assert re.search(r"asks to wait until 20\d\d-\d\d-\d\d \d\d:\d\d\+00:00; answer retry then", error.message)


@protocols
async def test_the_vendor_decides_whether_to_retry(protocol: str, served: Any) -> None:
    served(_body(protocol), 429, {"x-should-retry": "false", "retry-after": "3"})
    error = await _fails(protocol)
    assert (error.kind, error.retry_after) == ("person", None)
    served(_body(protocol), 500, {"x-should-retry": "false"})
    assert "asks not to be asked again" in (await _fails(protocol)).message
    served(_body(protocol), 400, {"x-should-retry": "true"})
    assert (await _fails(protocol)).kind == "retry"
    served(_body(protocol), 413, {"x-should-retry": "true"})
    assert (await _fails(protocol)).kind == "compact"


@protocols
async def test_keys_are_not_repeated(protocol: str, served: Any) -> None:
    echo = (
        "Bad key sk-ant-test-0123456789 or sk-test-0123456789, 'Authorization: Bearer abc0123456789', sk-ab**0123456789"
    )
    served(_body(protocol, echo), 401)
    error = await _fails(protocol)
    assert "[redacted]" in error.message
    assert "Bad key" in error.message


@protocols
async def test_a_long_message_leaves_room_for_the_advice(protocol: str, served: Any) -> None:
    served(_body(protocol, "very " * 10_000), 401)
    assert (await _fails(protocol)).message.endswith("then answer retry.")


@protocols
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "not JSON"),
        (b"<html><body>Bad gateway</body></html>", "Bad gateway"),
        (b'{"content": [{"type": "text", "te', "not JSON"),
        (b'"text"', "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", "no "),
        (b'{"x": NaN}', "NaN"),
        (b'{"x": 1e999}', "1e999"),
        (b"[" * 100_000, "not JSON"),
    ],
)
async def test_a_200_that_is_no_turn_is_asked_again(protocol: str, answer: bytes, why: str, served: Any) -> None:
    served(answer, 200, {"content-type": "text/html" if answer.startswith(b"<") else "application/json"})
    error = await _fails(protocol)
    assert error.kind == "retry"
    assert why in error.message


@pytest.mark.parametrize(
    ("protocol", "answer", "kind"),
    [
        ("anthropic", {"content": [{"type": "text", "text": "x"}], "stop_reason": None}, "retry"),
        ("anthropic", {"content": [{"type": "text", "text": "x"}]}, "retry"),
        ("anthropic", {"content": "x", "stop_reason": "end_turn"}, "retry"),
        ("anthropic", {"content": [], "stop_reason": "model_context_window_exceeded"}, "compact"),
        ("anthropic", _body("anthropic", type="overloaded_error"), "retry"),
        ("anthropic", _body("anthropic", type="api_error"), "retry"),
        ("anthropic", _body("anthropic", type="a_type_of_2027"), "retry"),
        ("anthropic", _body("anthropic", type="authentication_error"), "person"),
        ("anthropic", _body("anthropic", type="invalid_request_error"), "person"),
        ("anthropic", _body("anthropic", type="request_too_large"), "compact"),
        ("anthropic", {"type": "error", "error": "no more"}, "retry"),
        ("openai-responses", {"output": [], "status": "in_progress"}, "retry"),
        ("openai-responses", {"output": []}, "retry"),
        ("openai-responses", {"output": [], "status": "failed", "error": {"code": "server_error"}}, "retry"),
        ("openai-responses", {"output": [], "status": "failed", "error": {"code": "rate_limit_exceeded"}}, "retry"),
        ("openai-responses", {"output": [], "status": "failed", "error": {"code": "invalid_prompt"}}, "person"),
        ("openai-responses", {"output": [], "status": "failed", "error": None}, "retry"),
        ("openai-responses", {"output": "x", "status": "completed"}, "retry"),
        ("openai-chat", {"choices": []}, "retry"),
        ("openai-chat", {"choices": [{"message": None, "finish_reason": "stop"}]}, "retry"),
        ("openai-chat", {"choices": [{"message": {"content": "x"}, "finish_reason": None}]}, "retry"),
        ("openai-chat", {"choices": [{"message": {"content": "x"}}]}, "retry"),
        ("openai-chat", _body("openai-chat", code="insufficient_quota"), "person"),
        ("openai-chat", {"error": {"message": "out of memory", "code": 500}}, "retry"),
        ("openai-chat", {"error": "out of memory"}, "retry"),
        ("openai-chat", {"error": {"message": "no credit", "code": 402}}, "person"),
        ("openai-chat", {"choices": [{"message": {}, "error": {"message": "gone", "code": 502}}]}, "retry"),
    ],
)
async def test_a_failure_inside_a_200_is_classed(protocol: str, answer: Any, kind: Kind, served: Any) -> None:
    served(answer)
    assert (await _fails(protocol)).kind == kind


@protocols
async def test_a_body_cut_on_its_way_is_asked_again(protocol: str, served: Any) -> None:
    served(b'{"content": [', 200, {"content-length": "500", "connection": "close"})
    error = await _fails(protocol)
    assert error.kind == "retry"
    assert "RemoteProtocolError" in error.message


@protocols
async def test_a_server_that_is_not_there_is_asked_again(
    protocol: str, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    error = await _fails(protocol)
    assert error.kind == "retry"
    assert "_BASE_URL" in error.message


@protocols
async def test_without_a_key_a_person_is_told_which_one(
    protocol: str, served: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # a profile there would be a key too
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    error = await _fails(protocol)
    assert error.kind == "person"
    assert ("ANTHROPIC_API_KEY" if protocol == "anthropic" else "OPENAI_API_KEY") in error.message
    assert "where the worker runs, restart it, then answer retry" in error.message
    assert "doctor" not in error.message  # it asks no vendor


@protocols
@pytest.mark.parametrize("key", ["sk-0123456789\n", "sk-\u00fc0123456789"])
async def test_a_key_with_stray_characters_is_a_persons_to_mend(
    protocol: str, key: str, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    served(_body(protocol), 401)
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert (await _fails(protocol)).kind == "person"


@protocols
@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://127.0.0.1", "http://[::1"])
async def test_a_base_url_that_is_none_never_escapes_as_a_bug(
    protocol: str, url: str, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    assert (await _fails(protocol)).kind == "person"


@protocols
async def test_a_new_environment_is_used_at_once(protocol: str, served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served(_body(protocol), 401)
    await _fails(protocol)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    assert (await _fails(protocol)).kind == "retry"


def test_an_error_survives_pickling_and_takes_notes() -> None:
    error = ModelError("retry", "no", 2.0, {"status": 429})
    error.add_note("while thinking")
    again = pickle.loads(pickle.dumps(error))
    assert (again.kind, str(again), again.retry_after, again.details) == ("retry", "no", 2.0, {"status": 429})
