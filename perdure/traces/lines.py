"""Lines to show: text with the names of styles, so that one view serves terminals, pipes and pages.

A view is a pure function that gives lines; it decides what is said and in what order. Whoever writes them decides on
colours and wrapping. Texts in spans are inert already (`perdure.core.inert`), and never markup.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

Style = Literal["plain", "dim", "title", "label", "claim", "call", "ok", "bad", "warn", "ask", "command"]


@dataclass(frozen=True)
class Span:
    text: str
    style: Style = "plain"


@dataclass(frozen=True)
class Line:
    """`label` stands at `indent`, the spans in a column of their own from `hang` on: wrapped rows go on there."""

    spans: tuple[Span, ...] = ()
    label: Span = Span("")
    indent: int = 0
    hang: int = 0

    @property
    def head(self) -> str:
        """Indent and label, as wide as the column's beginning or wider."""
        return (" " * self.indent + self.label.text + " " * bool(self.label.text)).ljust(self.hang)

    def __str__(self) -> str:
        return (self.head + "".join(span.text for span in self.spans)).rstrip()


BLANK: Final = Line()


def text(lines: Iterable[Line]) -> str:
    """Lines without styles or wrapping."""
    return "\n".join(map(str, lines))


def said(
    label: str,
    body: str | Iterable[Span],
    *,
    style: Style = "plain",
    tone: Style = "label",
    indent: int = 0,
    hang: int = 0,
) -> Iterator[Line]:
    """A labelled text, each of its own lines on one of ours."""
    if not isinstance(body, str):
        yield Line(tuple(body), Span(label, tone), indent, hang)
        return
    for number, row in enumerate(body.split("\n")):
        yield Line((Span(row, style),), Span("" if number else label, tone), indent, hang)


_JSON: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\s+|"')
_SHORT: Final = 72


def laid_out(arguments: str) -> str:
    """JSON with line breaks and indents around its tokens, every other byte as it is. Short text stays on one line."""
    if len(arguments) <= _SHORT:
        return arguments
    depth, out = 0, []
    for token in _JSON.findall(arguments):
        if token in ("{", "["):
            depth += 1
            out.append(f"{token}\n{'  ' * depth}")
        elif token in ("}", "]"):
            depth = max(depth - 1, 0)
            out.append(f"\n{'  ' * depth}{token}")
        elif token == ",":
            out.append(f",\n{'  ' * depth}")
        else:
            out.append(": " if token == ":" else token)
    return re.sub(r"([{\[])\n\s*\n\s*([}\]])", r"\1\2", "".join(out))
