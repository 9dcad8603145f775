"""What many runs took, as lines for people. Pure, like every view."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from perdure.core import inert
from perdure.core.contracts import Limits
from perdure.core.limits import dollars
from perdure.traces import clock
from perdure.traces.lines import BLANK, Line, Span
from perdure.traces.stats import AgentStats, Expected, Spread, ToolStats
from perdure.traces.words import COLUMN, View, field, limits

_FEW: Final = 20  # runs: below, the 95th percentile is the largest, and one run more may change it
_MOST_TOOLS: Final = 30
_HEAD: Final = ("median", "95%", "most", "all")


def shown(found: AgentStats, view: View) -> Iterator[Line]:
    """One agent: its runs, what they took, its tools, and what follows from it."""
    yield from _heading(found, view)
    if found.ended:
        yield from _figures(found)
        yield from _told(found)
        yield from _tools(found.tools, view)
        yield from _advice(found)


def _heading(found: AgentStats, view: View) -> Iterator[Line]:
    count = "1 run" if found.runs == 1 else f"{found.runs:,} runs"
    since = f"  {count}, of which {found.ended:,} ended; started since {clock.stamp(found.first, view.zone)}"
    yield Line((Span(inert.line(found.agent), "title"), Span(since)))
    yield from field("states", _counts(found.states))


def _counts(counts: Mapping[str, int], of: str = "") -> str:
    """`31 answered, 2 limited`, or with `of`: `refund (2 runs), clock (1 run)`"""
    if not of:
        return ", ".join(f"{count:,} {inert.line(name)}" for name, count in counts.items())
    return ", ".join(f"{inert.line(name, 60)} ({count:,} {of}{'s'[: count != 1]})" for name, count in counts.items())


# --- what they took ---------------------------------------------------------------------------------------------------


def _figures(found: AgentStats) -> Iterator[Line]:
    rows = [
        ("turns", _cells(found.turns, _count)),
        ("calls", _cells(found.calls, _count)),
        ("tokens in", _cells(found.input, _count)),
        ("  cached", _cells(found.cached, _count)),
        ("tokens out", _cells(found.output, _count)),
        ("money", _cells(found.money, dollars)),
        ("waiting", _cells(found.waited, clock.lasted)),
        ("run time", _cells(found.took, clock.lasted)),
    ]
    widths = [max(len(head), *(len(cells[at]) for _, cells in rows)) + 2 for at, head in enumerate(_HEAD)]
    for label, cells in (("", _HEAD), *rows):
        row = "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        yield Line((Span(row, "plain" if label else "dim"),), Span(label, "label"), 2, COLUMN + 2)


def _cells(spread: Spread[Any] | None, told: Callable[[Any], str]) -> Sequence[str]:
    if spread is None:
        return ("-",) * len(_HEAD)
    return tuple(told(figure) for figure in (spread.median, spread.p95, spread.most, spread.total))


def _count(figure: int) -> str:
    return f"{figure:,}"


def _told(found: AgentStats) -> Iterator[Line]:
    """What the figures leave out."""
    if found.unpriced:
        priced = found.money.count if found.money else 0
        models = _counts(found.unpriced, "run")
        told = (
            f"money is that of {priced:,} runs, at list prices or the author's; nobody knows what these cost: {models}"
        )
        yield from field("unpriced", told, "warn", "warn")
    elif found.money:
        yield from field(
            "", "money is at list prices or the author's; waiting, for people, is part of the run time", "dim"
        )
    if found.retries:
        yield from field("retries", f"{found.retries:,} of the model")


# --- tools ------------------------------------------------------------------------------------------------------------

_TOOL_HEAD: Final = ("tool", "calls", "ok", "error", "repeats", "median", "95%")


def _tools(tools: Sequence[ToolStats], view: View) -> Iterator[Line]:
    most = len(tools) if view.limit is None else _MOST_TOOLS
    if not tools:
        return
    cells = [_TOOL_HEAD, *(_tool(each) for each in tools[:most])]
    first, *widths = (max(map(len, column)) + 2 for column in zip(*cells, strict=True))
    rest = [Span(""), *(Span(_rest(each), "warn") for each in tools[:most])]
    yield BLANK
    for number, (row, more) in enumerate(zip(cells, rest, strict=True)):
        told = row[0].ljust(first) + "".join(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True))
        yield Line((more,), Span(told, "plain" if number else "dim"), 2, 2 + first + sum(widths) + 2)
    if len(tools) > most:
        yield Line((Span(f"and {len(tools) - most:,} more: --full, or -o json", "dim"),), Span(""), 2, 2)


def _tool(each: ToolStats) -> tuple[str, ...]:
    counts = (each.calls, each.ok, each.error, each.repeats)
    times = (each.took.median, each.took.p95) if each.took else ()
    return (
        inert.line(each.tool),
        *(f"{count:,}" for count in counts),
        *([clock.lasted(seconds) for seconds in times] or ["-", "-"]),
    )


def _rest(each: ToolStats) -> str:
    """What is rare enough to be said in words."""
    rare = {
        "refused": each.refused,
        "rejected": each.rejected,
        "unknown": each.unknown,
        "not run": each.not_run,
        "retries": each.retries,
    }
    return ", ".join(f"{count:,} {name}" for name, count in rare.items() if count)


# --- what follows -----------------------------------------------------------------------------------------------------


def _advice(found: AgentStats) -> Iterator[Line]:
    if found.suggested or found.expected:
        yield BLANK
    if found.suggested:
        yield from field("budget", _budget(found))
        yield from field("", _ground(found), "dim")
    if found.expected:
        yield from _expected(found.expected)


def _budget(found: AgentStats) -> str:
    said = ", ".join(f"{name}={_figure(figure)}" for name, figure in found.suggested.items())
    now = f"  (now: {limits(found.budget, found.limits or Limits())})" if found.budget else ""
    return f"Budget({said}){now}"


def _figure(figure: int | str) -> str:
    """As Python writes it: `14_000`, `"0.50"`."""
    return f"{figure:_}" if isinstance(figure, int) else f'"{figure}"'


def _ground(found: AgentStats) -> str:
    answered, limited = found.states.get("answered", 0), found.states.get("limited", 0)
    runs = "the one answered run" if answered == 1 else f"{answered:,} answered runs"
    few = ": few yet" if answered < _FEW else ""
    cut = f"; {limited:,} ended limited, and what they needed is not seen" if limited else ""
    return f"the 95th percentile of {runs}, and half as much again{few}{cut}"


def _expected(expected: Expected) -> Iterator[Line]:
    if not expected.runs:
        yield from field("tools", "no run's task fits an expectation", "warn", "warn")
        return
    share = f"{expected.right / expected.runs:.0%}"
    yield from field("tools", f"right in {expected.right:,} of {expected.runs:,} expected runs ({share})")
    for label, tools in (("missing", expected.missing), ("wrong", expected.wrong)):
        if tools:
            yield from field(label, _counts(tools, "run"), "warn")
