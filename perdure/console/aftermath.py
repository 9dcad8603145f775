"""What came of a decision: the next thing that the record says about what was decided on."""

from dataclasses import dataclass
from typing import Literal

from perdure.console import exits
from perdure.core import inert
from perdure.core.contracts import CHOICES, Choice, Request, RequestKind
from perdure.traces import text
from perdure.traces.lines import Line, Span, Style
from perdure.traces.shape import Asked, Trace, TracedCall

_ENDED = frozenset({"ok", "error", "rejected", "refused"})


@dataclass(frozen=True)
class Came:
    """`asks`: somebody is asked again (`again`). `observed`: the call has ended. `goes_on`: the model answered."""

    what: Literal["asks", "observed", "goes_on", "ended"]
    code: int
    call: TracedCall | None = None
    again: Asked | None = None


def came_of(seen: Trace, request: Request, choice: Choice) -> Came | None:
    """What the run's record says next of the thing that `request` was about; None while it says nothing yet."""
    settled = next((asked for asked in seen.all_asked if asked.request.id == request.id), None)
    if settled is None or settled.until is None:
        return None
    call = seen.call(request)
    again = next((asked for asked in seen.waiting if _same_place(asked.request, request)), None)
    if again:
        return Came("asks", exits.WAITING, call, again)
    if call and (call.state in _ENDED or (choice is Choice.GIVE_UP and call.state == "unknown")):
        return Came("observed", exits.DONE, call)
    if seen.outcome:
        return Came(
            "ended", exits.DONE if choice in (Choice.STOP, Choice.FINISH) else exits.of(seen.outcome.state), call
        )
    if (
        call is None
        and choice is not Choice.FINISH
        and any(turn.number == request.turn and turn.stop for turn in seen.turns)
    ):
        return Came("goes_on", exits.DONE)
    return None


def _same_place(one: Request, other: Request) -> bool:
    return one.id != other.id and (one.turn, one.call) == (other.turn, other.call)


def told(came: Came, seen: Trace, request: Request) -> list[Line]:
    """It in words, with the next command where somebody is asked again."""
    if came.again:
        return _asks(came.again.request, request)
    if came.what == "ended" and seen.outcome:
        why = f": {text.because(seen)}" if seen.outcome.reason else ""
        return [_line("run", f"ended as {seen.outcome.state}{why}", text.TONES.get(seen.outcome.state, "plain"))]
    if came.call:
        tone = text.TONES.get(came.call.state, "label")
        said = came.call.observation or ("nobody knows; the model is told so" if came.call.state == "unknown" else "")
        return [_line(came.call.state.replace("_", " "), inert.line(said, 2000), tone)]
    return [_line("run", f"goes on: turn {request.turn}", "ok")]


def _asks(new: Request, before: Request) -> list[Line]:
    same = new.kind is before.kind
    why = "same reason" if new.reason == before.reason else inert.line(new.reason, 400)
    what = f"{_KINDS[new.kind]}{' again' if same else ''}"
    commands = [f"perdure show {text.quoted(new.id)}", *(text.command(new.id, each) for each in CHOICES[new.kind])]
    return [
        _line("waits", f"{what}: {inert.line(new.id)} ({why})", "ask"),
        *(Line((Span(command, "command"),), Span(""), 0, 9) for command in commands),
    ]


_KINDS = {
    RequestKind.APPROVAL: "asks for approval",
    RequestKind.UNKNOWN: "unknown outcome",
    RequestKind.STUCK: "stuck",
    RequestKind.QUESTION: "a question",
    RequestKind.LIMIT: "a budget is spent",
}


def _line(label: str, words: str, tone: Style) -> Line:
    return Line((Span(words),), Span(label, tone), 0, 9)
