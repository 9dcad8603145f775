"""Untrusted text is shown inert, visible and whole (C57)."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import inert

FORGED = {
    "an escape that erases the line": ("\x1b[2K\x1b[1Gok", "\\x1b[2K\\x1b[1Gok"),
    "a carriage return and fake text": ("pay 9000\rpay 9", "pay 9000\\rpay 9"),
    "an eight-bit control": ("a\x9b31mb", "a\\x9b31mb"),
    "an override of the direction": ("a\u202egnp.exe", "a<U+202E>gnp.exe"),
    "an isolate": ("\u2066x\u2069", "<U+2066>x<U+2069>"),
    "a zero-width space": ("pay\u200bpal", "pay<U+200B>pal"),
    "a soft hyphen": ("pay\u00adpal", "pay<U+00AD>pal"),
    "a filler that counts as a letter": ("a\u3164b", "a<U+3164>b"),
    "letters of the tag block": ("a\U000e0041", "a<U+E0041>"),
    "data in variation selectors": ("a\ufe01\U000e0100", "a<U+FE01><U+E0100>"),
    "a no-break space": ("a\u00a0b", "a<U+00A0>b"),
    "half a surrogate pair": ("a\ud800", "a<U+D800>"),
    "a zero byte": ("\x00abc", "\\x00abc"),
    "padding before the payload": ("ok" + " " * 5000 + "rm -rf", "ok<5,000 spaces>rm -rf"),
    "padding that is no space": ("=" * 2000, "<2,000 times '='>"),
    "line breaks as padding": ("ok" + "\n" * 300 + "x", "ok<300 times '\\n'>x"),
    "text that looks like our own": ("<5,000 spaces><U+202E>", "<U+003C>5,000 spaces><U+003C>U+202E>"),
    "accents piled up": ("a" + "\u0301" * 6, "a\u0301\u0301\u0301<U+0301><U+0301><U+0301>"),
    "an accent that lands on our quotation mark": ("\u0301a", "<U+0301>a"),
}


@pytest.mark.parametrize(("text", "shown"), FORGED.values(), ids=FORGED.keys())
def test_a_forgery_is_seen_for_what_it_is(text: str, shown: str) -> None:
    assert inert.line(text) == shown


@pytest.mark.parametrize("text", ["Zoë wants 3 days", "日本　東京", "❤️", "a < b", '{"a": "C:\\\\new"}', "नमस्ते"])
def test_honest_text_stays_as_it_is(text: str) -> None:
    assert inert.line(text) == text
    assert inert.block(text) == text


def test_a_block_keeps_its_lines_and_its_indentation() -> None:
    assert inert.block('{\r\n\t"a": 1\n}\n\nend') == '{\n    "a": 1\n}\n\nend'


def test_blank_lines_in_a_block_are_counted() -> None:
    assert inert.block("ok\n\n\n\n\n\nx") == "ok\n<5 blank lines>\nx"
    assert inert.block("ok" + " \n" * 300 + "x") == "ok\n<600 blank characters>\nx"


def test_what_is_left_out_is_counted() -> None:
    assert inert.line("abcdef", limit=4) == "abcd <2 more characters>"
    assert inert.block("a" * 100 + "b", limit=100) == "a" * 100 + " <1 more characters>"


def test_a_name_is_never_cut_in_two() -> None:
    assert inert.line("abc\u202edef", limit=5) == "abc <4 more characters>"


@given(st.text())
def test_every_character_shown_can_be_seen(text: str) -> None:
    for shown in (inert.line(text), inert.block(text).replace("\n", "")):
        assert shown.replace("\u3000", "").isprintable()
        assert not any(unicodedata.bidirectional(char) in ("RLO", "LRO", "RLI", "FSI") for char in shown)


@given(st.text(alphabet='<U+202E>\u202e\u200b 5,spacet\n"'), st.text(alphabet='<U+202E>\u202e\u200b 5,spacet\n"'))
def test_two_texts_never_look_the_same(one: str, other: str) -> None:
    short = all(text.count("\n") < 3 and "    " not in text for text in (one, other))
    if short and one != other:
        assert inert.line(one) != inert.line(other)
