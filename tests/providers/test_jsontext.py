"""JSON in and out: the same bytes every time, and only what can be recorded."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.contracts import Opening
from perdure.providers import PROTOCOLS, provider
from perdure.providers.jsontext import dumped, loaded, object_in

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_what_was_read_is_written_the_same_whatever_the_order_of_keys(value: Any) -> None:
    once = dumped(value)
    assert dumped(loaded(once)) == once
    assert dumped(json.loads(json.dumps(value, sort_keys=True))) == once
    once.decode("utf-8")


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (rb'["\ud800"]', ["\ufffd"]),
        (rb'["a\uDFFFb"]', ["a\ufffdb"]),
        (rb'{"\ud83d": 1}', {"\ufffd": 1}),
        (rb'["\ud83d\ude00"]', ["\U0001f600"]),
        (rb'["\ude00\ud83d"]', ["\ufffd\ufffd"]),
        (b'["\xff"]', ["\ufffd"]),
        (b"\xef\xbb\xbf[1]", [1]),
        (rb'["\\ud800"]', ["\\ud800"]),
    ],
)
def test_half_characters_are_replaced_as_they_come_in(body: bytes, value: Any) -> None:
    assert loaded(body) == value
    json.dumps(loaded(body), ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", "[" * 101 + "]" * 101, "[" * 100_000, "", "{'a': 1}"])
def test_what_cannot_be_recorded_is_not_json(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        loaded(text)


def test_an_object_is_found_only_in_a_text_that_is_one() -> None:
    assert object_in('{"a": 1}') == {"a": 1}
    assert [object_in(text) for text in ("", "null", "[]", "5", '{"a": NaN}', None, {"a": 1})] == [None] * 7


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_half_characters_in_an_answer_never_reach_the_record(protocol: str) -> None:
    text = r"\ud800 and \ud83d\ude00"
    answers = {
        "anthropic": '{"content": [{"type": "text", "text": "%s"}], "stop_reason": "end_turn"}',
        "openai-responses": '{"output": [{"type": "message", "content": [{"type": "output_text", "text": "%s"}]}], '
        '"status": "completed"}',
        "openai-chat": '{"choices": [{"message": {"content": "%s"}, "finish_reason": "stop"}]}',
    }
    opening = Opening(digest="", turns=1, protocol=protocol, model="m", system="")
    reply = provider(protocol).read((answers[protocol] % text).encode(), opening)
    assert reply.answer == "\ufffd and \U0001f600"
    json.dumps(reply.message, ensure_ascii=False).encode("utf-8")


def test_an_unknown_protocol_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'gopher'.*openai-chat"):
        provider("gopher")


def test_importing_the_providers_imports_no_vendor() -> None:
    program = (
        "import sys; from perdure.providers import PROTOCOLS, provider; [provider(name) for name in PROTOCOLS]; "
        "print(sorted({'anthropic', 'openai'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
