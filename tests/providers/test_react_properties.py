"""Of all texts: none crashes the reader, what is read is what was written, and no argument is ever a shortened one."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.labels import labels
from perdure.core.transcript import Heard, Result
from perdure.providers import provider
from perdure.providers.react import Action, FinalAnswer, parse
from perdure.providers.text import _FORM
from perdure.providers.text import _words as words_of
from tests.providers.fuzz_text import KINDS, PIECES, check_exact, check_read, check_text

PLAIN = st.text(st.characters(exclude_categories=["Cs"]))
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=10,
)


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_no_text_crashes_the_reader(text: str) -> None:
    check_text(text)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(seed=st.integers(0, 2**32))
def test_texts_of_the_fuzz_target_are_read_exactly_or_not_at_all(kind: Callable[..., None], seed: int) -> None:
    kind(random.Random(seed))


@pytest.mark.parametrize(
    "piece", sorted({*PIECES, "<", "*", "a", "< data", "Action: search[", '{"a":', "[[", "Action:* "}), ids=repr
)
def test_no_text_takes_for_ever(piece: str) -> None:
    """What takes the square of a text's length would take hours here."""
    for text in (
        piece * 100_000,
        f"Action: search[{piece * 100_000}",
        f"Action: search\nAction Input: {piece * 100_000}",
    ):
        check_text(text)
        provider("text+openai-chat").encode([Heard((Result("c", "f", text, False),))])


@given(st.dictionaries(PLAIN, JSON, max_size=4), st.sampled_from([None, 0, 2]), st.booleans(), PLAIN)
def test_an_object_comes_back_as_it_was_written(
    arguments: dict[str, Any], indent: int | None, ascii: bool, thought: str
) -> None:
    thought = "" if list(labels(f"\n{thought}")) or "<" in thought else thought
    written = json.dumps(arguments, indent=indent, ensure_ascii=ascii)
    check_read(f"{thought}\nAction: search\nAction Input: {written}", "search", arguments)


def test_the_form_that_advice_shows_is_one_that_is_read() -> None:
    acting, _, answering = _FORM.partition("Or, when you are done:")
    assert isinstance(parse(acting.replace("the tool's name", "health").strip(), []), Action)
    assert isinstance(parse(answering, []), FinalAnswer)


@given(PLAIN, PLAIN)
def test_texts_in_quotes_come_back_as_they_were_written(one: str, other: str) -> None:
    check_read(f"Action: send({json.dumps(one)}, body={json.dumps(other)})", "send", {"to": one, "body": other})


@given(PLAIN, PLAIN)
def test_nothing_that_follows_an_action_changes_it(q: str, fiction: str) -> None:
    written = json.dumps({"q": q})
    check_exact(f"Action: search\nAction Input: {written}\nObservation: {fiction}", "search", {"q": q})


@given(st.lists(PLAIN), st.booleans())
def test_words_are_found_in_every_vendors_form(texts: list[str], parts: bool) -> None:
    said = "".join(texts)
    chat = {"content": [{"type": "text", "text": text} for text in texts] if parts else said}
    blocks = [{"type": "thinking", "thinking": "x"}, *({"type": "text", "text": text} for text in texts)]
    items = [{"type": "message", "content": [{"type": "output_text", "text": text}]} for text in texts]
    assert ["".join(words_of(message)) for message in (chat, blocks, items)] == [said] * 3
