"""The labels of text mode (Thought, Action, Action Input, Observation, Final Answer), as models write them.

A label begins a line: a model may think these words anywhere else. Case, bold, heading marks, a number ("Action 2:"),
a byte order mark before it and a full-width colon make no difference.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

TEXT_MODE: Final = "text+"  # before the name of the protocol that carries it: "text+anthropic"

Kind = Literal["thought", "action", "input", "observation", "answer"]

_WORDS = r"(?P<word>thought|action[ _-]?input|action|observation|final[ _-]?answer)(?:[ \t]*\d+)?[ \t*_`]*[:\uff1a]\**"
_BEGIN = r"(?:^|(?<=</think>)|(?<=</thinking>)|(?<=</reasoning>))"
_LABEL: Final = re.compile(_BEGIN + r"[\ufeff \t*_#`]*" + _WORDS, re.IGNORECASE | re.MULTILINE)
_INSIDE: Final = re.compile(r"(?<!\w)" + _WORDS, re.IGNORECASE)
_THINKING: Final = re.compile(r"[\ufeff\s]*<(think|thinking|reasoning)>", re.IGNORECASE)
_THOUGHT: Final = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)


@dataclass(frozen=True)
class Label:
    """A label of some kind; its line begins at `start`, what it labels at `body`."""

    kind: Kind
    start: int
    body: int


def labels(text: str, start: int = 0) -> Iterator[Label]:
    """The labels at the beginnings of lines, in order."""
    return map(_label, _LABEL.finditer(text, start))


def labels_inside(text: str, start: int) -> Iterator[Label]:
    """What looks like a label anywhere, in the middle of a line too, in order."""
    return map(_label, _INSIDE.finditer(text, start))


def _label(found: "re.Match[str]") -> Label:
    kinds: dict[str, Kind] = {"t": "thought", "a": "action", "o": "observation", "f": "answer"}
    word = found["word"].lower()
    return Label("input" if word.endswith("input") else kinds[word[0]], found.start(), found.end())


def thinking(text: str) -> int:
    """Where the reasoning ends that a server left in a text, between <think> tags: 0 if there is none.

    Templates exist that open the tag in the prompt; then the first closing one counts, if no label comes before it.
    """
    if opened := _THINKING.match(text):
        closed = re.compile(f"</{opened[1]}>", re.IGNORECASE).search(text, opened.end())
        return closed.end() if closed else len(text)
    closed = _THOUGHT.search(text)
    first = next(labels(text), None)
    return closed.end() if closed and (first is None or closed.start() < first.start) else 0


def ends_thinking(text: str, start: int) -> bool:
    """Whether reasoning is closed after `start`."""
    return _THOUGHT.search(text, start) is not None


def answer_at(text: str, label: Label, end: int) -> str:
    """The answer that a label announces; without the end of a bold face that began before the label."""
    said = text[label.body : end].strip()
    bold = text[label.start : label.body].count("**") % 2 and said.endswith("**")
    return said.removesuffix("**").rstrip() if bold else said


@dataclass(frozen=True)
class Piece:
    """A part of a model's text: what it thinks, what it does (labels and all), what it answers."""

    kind: Literal["thought", "action", "answer"]
    text: str


def pieces(text: str) -> Iterator[Piece]:
    """A recorded text, taken apart for reading. Everything is in one of the pieces, but the labels of thoughts."""
    start = thinking(text)
    yield Piece("thought", re.sub(r"</?(?:think|thinking|reasoning)>", "", text[:start], flags=re.IGNORECASE).strip())
    found = list(labels(text, start))
    deed = next((each for each in found if each.kind in ("action", "input", "answer")), None)
    end = deed.start if deed else len(text)
    spoken, at = [], start
    for each in found:
        if each.kind == "thought" and each.start < end:
            spoken.append(text[at : each.start])
            at = each.body
    yield Piece("thought", "".join([*spoken, text[at:end]]).strip())
    if deed and deed.kind == "answer":
        yield Piece("answer", answer_at(text, deed, len(text)))
    elif deed:
        yield Piece("action", text[deed.start :].strip())
