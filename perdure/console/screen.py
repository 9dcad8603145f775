"""Where lines go: data to stdout, progress and hints to stderr; colours and wrapping on terminals only.

Texts never pass through Rich's markup, and what is not a terminal gets each line whole, without a style. Commands and
addresses are to be copied: they are never broken, and name perdure as it was started.
"""

import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from perdure.traces import document
from perdure.traces.lines import Line, Span, Style

STYLES: Final[dict[Style, str]] = {
    "plain": "",
    "dim": "dim",
    "title": "bold",
    "label": "dim",
    "claim": "italic",
    "call": "cyan",
    "ok": "green",
    "bad": "red",
    "warn": "yellow",
    "ask": "magenta",
    "command": "bold",
}
_NARROWEST: Final = 20  # columns left for text; below, lines wrap as the terminal likes


_OURS: Final = "perdure "


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"


class Screen:
    """Both streams of a process."""

    def __init__(self, *, out: Console | None = None, err: Console | None = None, program: str = "perdure") -> None:
        self.program = program
        self.out = out or Console(markup=False, highlight=False, emoji=False)
        self.err = err or Console(stderr=True, markup=False, highlight=False, emoji=False)

    def show(self, lines: Iterable[Line]) -> None:
        """Data."""
        self._write(self.out, lines)

    def hint(self, *lines: Line | str) -> None:
        """Progress and advice."""
        self._write(self.err, (line if isinstance(line, Line) else Line((Span(line),)) for line in lines))

    def error(self, text: str) -> None:
        """What went wrong, expected as it is. Commands in it stand between backticks."""
        text = text.replace(f"`{_OURS}", f"`{self.program} ")
        for number, row in enumerate(text.split("\n")):
            self.hint(Line((Span(row),), Span("" if number else "perdure:", "bad"), 0, 9))

    def data(self, values: list[Any], output: Output, *, one: bool = False) -> None:
        """JSON: a list (with `one`, its only value) indented, or one value a line."""
        if output is Output.JSONL:
            rows = [document.dumps(value) for value in values]
        else:
            rows = [document.dumps(values[0] if one else values, indent=2)]
        for row in rows:
            self.out.file.write(row + "\n")
        self.out.file.flush()

    def file(self, text: str) -> None:
        """Data that is a file's text."""
        self.out.file.write(text)
        self.out.file.flush()

    @contextmanager
    def progress(self, doing: str, total: int) -> Iterator[Callable[[], None]]:
        """How far something has come that takes a while; call what it gives for each step. On a terminal only."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=self.err, transient=True, disable=not self.err.is_terminal) as bar:
            task = bar.add_task(doing, total=total)
            yield lambda: bar.advance(task)

    def _write(self, console: Console, lines: Iterable[Line]) -> None:
        for line in map(self._named, lines):
            if not console.is_terminal:
                console.file.write(f"{line}\n")
                continue
            for row in rows(line, console.width, console):
                console.print(row, soft_wrap=True)
        console.file.flush()

    def _named(self, line: Line) -> Line:
        """Commands as they can be typed here."""
        if self.program == "perdure" or not any(span.style == "command" for span in line.spans):
            return line
        return replace(line, spans=tuple(map(self._span, line.spans)))

    def _span(self, span: Span) -> Span:
        if span.style != "command" or not span.text.startswith(_OURS):
            return span
        return replace(span, text=f"{self.program} {span.text.removeprefix(_OURS)}")


def rows(line: Line, width: int, console: Console) -> list[Text]:
    """A line as rows no wider than a terminal; its column is kept. What must stay whole is left for it to wrap."""
    head = Text(line.head)
    head.stylize(STYLES[line.label.style], line.indent, line.indent + len(line.label.text))
    body = Text.assemble(*((span.text, STYLES[span.style]) for span in line.spans))
    room = width - head.cell_len
    if room < _NARROWEST or not body.plain or _is_whole(line, room):
        return [head.append_text(body)]
    whole = body.copy()
    whole.plain = _WHOLE.sub(lambda found: found[0].replace(" ", _JOINT), body.plain)
    wrapped = whole.wrap(console, room)
    for row in wrapped:
        row.plain = row.plain.replace(_JOINT, " ")
    first, *rest = wrapped or [body]
    return [head.append_text(first), *(Text(" " * max(line.hang, line.indent)).append_text(row) for row in rest)]


_JOINT: Final = "\ue000"  # for private use, and as wide as a space: `inert` lets no such character through
_WHOLE: Final = re.compile(r"`[^`]+`")
_ADDRESS: Final = re.compile(r"https?://\S+")


def _is_whole(line: Line, room: int) -> bool:
    """Whether it is a command, or holds something to be copied that is wider than the room there is."""
    if any(span.style == "command" for span in line.spans):
        return True
    text = "".join(span.text for span in line.spans)
    return any(len(each) > room for each in (*_WHOLE.findall(text), *_ADDRESS.findall(text)))


def link(url: str) -> Line:
    """An address on a line of its own."""
    return Line((Span(url, "command"),), Span(""), 2, 2)


def plain_encoding() -> None:
    """What a stream's encoding lacks is shown escaped, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
