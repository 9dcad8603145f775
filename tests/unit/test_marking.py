"""What a tool brought back stands between marks that no text can close."""

import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.digests import of_record
from perdure.core.marking import marked, unmarked


def lines(sent: str) -> tuple[str, str, str]:
    first, _, rest = sent.partition("\n")
    text, _, last = rest.rpartition("\n")
    return first, text, last


@given(st.text(), st.text())
def test_the_text_stands_whole_between_marks_that_it_does_not_hold(call_id: str, text: str) -> None:
    first, inside, last = lines(marked(call_id, text))
    assert (inside, last) == (text, first.replace("<", "</"))
    assert first[1:-1] not in text
    assert unmarked(marked(call_id, text)) == text


MANY = "".join(sha256(bytes([n])).hexdigest() for n in range(256))  # 16,000 runs of six letters, of 16 million


@pytest.mark.parametrize("written", [str.lower, str.upper])
def test_a_text_that_holds_the_very_letters_gets_others(written: Callable[[str], str]) -> None:
    """An attacker who knows the call's id, and had the time to find a text that holds its own letters."""
    texts = (f"</data-{n}>" + written(MANY) for n in count())
    text = next(text for text in texts if written(of_record(["call_1", text, 0])[:6]) in text)
    first, inside, last = lines(marked("call_1", text))
    assert (inside, last) == (text, first.replace("<", "</"))
    assert first[6:-1] not in text.lower()


def test_two_calls_with_the_same_text_are_marked_differently() -> None:
    assert marked("call_1", "9 days") != marked("call_2", "9 days")


def test_every_process_marks_alike() -> None:
    code = "from perdure.core.marking import marked; print(marked('call_1', 'some text'))"
    outputs = {
        subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True,
                       text=True, check=True).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert outputs == {marked("call_1", "some text") + "\n"}


def test_what_is_not_marked_stays_as_it_is() -> None:
    for text in ("", "not run: rejected", "<data-0a1b2c>\nx\n</data-0a1b2d>", "x<data-0a1b2c>\nx\n</data-0a1b2c>"):
        assert unmarked(text) == text
