"""What every text about a run is made of: fields, times, token counts, reasons, and commands to be copied."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Final

from perdure.core import inert
from perdure.core.contracts import NEEDS_PERSON, NOT_RUN, STOPPED, TRANSCRIPT_MISMATCH, Choice, Limits, Usage
from perdure.core.limits import dollars
from perdure.traces import clock
from perdure.traces.lines import Line, Span, Style, said

COLUMN: Final = 11
TONES: Final[dict[str, Style]] = {
    **dict.fromkeys(("answered", "ok"), "ok"),
    **dict.fromkeys(("failed", "refused", "error", "unknown", "rejected", "not_run", "stuck"), "bad"),
    **dict.fromkeys(("limited", "cancelled", "cancelling", "paused"), "warn"),
    **dict.fromkeys(("waiting", "approval"), "ask"),
}


@dataclass(frozen=True)
class View:
    """How to look: when, in which zone, how much of a long text (None: all of it)."""

    now: datetime
    zone: tzinfo | None = None
    limit: int | None = 1200

    def stamp(self, at: datetime) -> str:
        return f"{clock.stamp(at, self.zone)} ({clock.relative(at, self.now)})"


def field(label: str, text: str, style: Style = "plain", tone: Style = "label") -> Iterator[Line]:
    return said(label, text, style=style, tone=tone, indent=2, hang=COLUMN)


def tokens(usage: Usage) -> str:
    """`900 tokens in (600 cached), 45 out (12 reasoning)`"""
    cached = f" ({usage.cached:,} cached)" if usage.cached else ""
    reasoning = f" ({usage.reasoning:,} reasoning)" if usage.reasoning else ""
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out{reasoning}"


def spent(usage: Usage, cost: Decimal | None) -> str:
    """`900 tokens in, 45 out; $0.031`"""
    return tokens(usage) + (f"; {dollars(cost)}" if cost is not None else "")


def limits(turns: int, most: Limits) -> str:
    """`12 turns, 50,000 tokens, $0.50, 10 min 0 s of thinking and acting`"""
    parts = (
        f"{turns} turns",
        f"{most.tokens:,} tokens" if most.tokens else "",
        dollars(most.money) if most.money else "",
        f"{clock.lasted(most.seconds)} of thinking and acting" if most.seconds else "",
    )
    return ", ".join(filter(None, parts)) + ("; then an operator is asked for more" if most.ask else "")


def quoted(id: str) -> str:
    """An id as a word of a shell command."""
    return shlex.quote(inert.line(id))


def next_command(verb: str, id: str = "") -> Line:
    """A line that is a command, to be copied."""
    return Line((Span(f"perdure {verb} {quoted(id)}" if id else f"perdure {verb}", "command"),), Span(""), 2, 2)


def reason(told: str, limit: int | None = None) -> str:
    """Why something ended or waits, without the names that code gives to it."""
    return inert.line(_OUR_NAMES.sub("", told), limit)


def titled(title: str) -> str:
    """A call's title, which was made inert when it was recorded: what that named and counted is not named again."""
    bare = _INERT.sub("", title)
    return title if inert.line(bare) == bare else inert.line(title)


_INERT: Final = re.compile(r"<(?:U\+[0-9A-F]{4,6}|[\d,]+ (?:spaces|blank characters|times '[^']*'|more characters))>")
_OUR_NAMES: Final = re.compile(
    rf"^(?:(?:ApplicationError|ActivityError|FailureError|{NEEDS_PERSON}|{NOT_RUN}|{STOPPED}|{TRANSCRIPT_MISMATCH}): )+"
)


def command(request_id: str, choice: Choice, answer: str = "") -> str:
    """The command that makes this choice. `answer`: to a question."""
    shown = quoted(request_id)
    match choice:
        case Choice.APPROVE:
            return f"perdure approve {shown}"
        case Choice.REJECT:
            return f"perdure reject {shown} --reason '...'"
        case Choice.HAPPENED:
            return f"perdure answer {shown} happened --result '...'"
        case Choice.ANSWER:
            words = shlex.quote(inert.line(answer)) if answer else "'...'"
            return f"perdure answer {shown} {words}"
        case _:
            return f"perdure answer {shown} {choice}"
