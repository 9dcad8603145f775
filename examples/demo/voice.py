"""How the demo speaks: its own words behind a bar, the run's own lines as the trace tells them, and what is waited for.

The last is shown on terminals alone, and goes again.
"""

import time
from collections.abc import Iterable

from rich.live import Live
from rich.text import Text

from perdure.console.screen import Screen, link
from perdure.traces.lines import BLANK, Line, Span, said

_BAR = "▌ "


class _Elapsed:
    """What is waited for, and for how long: asked again at every refresh."""

    def __init__(self, what: str) -> None:
        self._what, self._since = what, time.monotonic()

    def __rich__(self) -> Text:
        return Text(f"{_BAR}{self._what} · {time.monotonic() - self._since:.0f} s", style="dim", no_wrap=True)


class Voice:
    def __init__(self, screen: Screen | None = None) -> None:
        self.screen = screen or Screen()
        self._live: Live | None = None
        self._asking = False

    def lines(self, lines: Iterable[Line]) -> None:
        lines = list(lines)
        if lines and self._asking:  # somebody else was faster than who is asked
            self.answered()
            self.screen.show([BLANK])
        self.screen.show(lines)

    def say(self, head: str, *more: str) -> None:
        """Words of the demo's own: what happens, and what is to be said of it."""
        bar = Span(_BAR.strip(), "ask")
        spans = [Span(head, "title"), *(Span(text) for text in more)]
        self.lines([BLANK, *(Line((span,), bar, 0, len(_BAR)) for span in spans), BLANK])

    def fact(self, label: str, text: str) -> None:
        self.lines(said(label, text, indent=2, hang=11))

    def link(self, url: str) -> None:
        """On one line, however long: a terminal wraps it without breaking it."""
        self.screen.show([link(url)])

    def prompt(self, text: str) -> None:
        """Without a line's end: what is typed stands behind it. Then say `answered`."""
        self.screen.out.print(Text(f"{_BAR}{text} ", style="bold magenta"), end="", soft_wrap=True)
        self.screen.out.file.flush()
        self._asking = True

    def answered(self) -> None:
        self._asking = False

    def wait_for(self, what: str) -> None:
        """Show, on a terminal, that `what` is waited for, until `ready` or the next wait."""
        self.ready()
        if self.screen.out.is_terminal:
            live = Live(_Elapsed(what), console=self.screen.out, transient=True, refresh_per_second=4)
            live.start()
            self._live = live

    def ready(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None
