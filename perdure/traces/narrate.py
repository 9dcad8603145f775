"""A run told as it happens: fed one event at a time, it gives the lines that have become known.

What can be said only at the end (marked figures) is said by the trace of all events so far.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Final

from perdure.core import inert
from perdure.core.contracts import (
    ASK_CRITIC,
    CALL_MODEL,
    CHECK_DECISION,
    CHECK_STEERING,
    CHOICES,
    ELSEWHERE,
    RUN_TOOL,
    AdmittedCall,
    Checked,
    Choice,
    Critique,
    Decision,
    Ending,
    FileRef,
    Observation,
    RecordedTurn,
    Request,
    RequestKind,
    Steering,
    Stop,
    Verdict,
)
from perdure.core.files import listed
from perdure.core.messages import thoughts
from perdure.traces import clock, text
from perdure.traces import events as e
from perdure.traces.lines import Line, Span, Style, said
from perdure.traces.turns import read, trace

_WIDTH: Final = 10  # of a label
_LIMIT: Final = 400


class Narration:
    """Call `feed` with each event in order. `told` keeps them all, for a trace at any time."""

    def __init__(self, zone: tzinfo | None = None, *, limit: int = _LIMIT) -> None:
        self.told: list[e.Event] = []
        self.requests: dict[str, Request] = {}  # what waits now
        self._zone, self._limit = zone, limit
        self._scheduled: dict[str, e.ActivityScheduled] = {}
        self._calls: dict[tuple[str, int], AdmittedCall] = {}  # by activity id of the turn, and index
        self._attempts: set[tuple[str, int]] = set()
        self._words: list[Decision | Steering] = []  # of operators
        self._now: datetime | None = None
        self._day = ""

    def feed(self, event: e.Event) -> list[Line]:
        self.told.append(event)
        self._now = max(self._now or event.at, event.at)
        if event.at < self._now:  # an attempt that the server told of between two events
            event = replace(event, at=self._now)
        if isinstance(event, e.ActivityScheduled):
            self._scheduled[event.activity_id] = event
        lines = list(self._lines(event))
        if lines and (day := clock.day(event.at, self._zone)) != self._day:
            self._day = day
            lines.insert(0, Line((Span(f"{day} {clock.offset(event.at, self._zone)}", "dim"),)))
        return lines

    def _said(
        self, event: e.Event, label: str, body: str, style: Style = "plain", tone: Style = "label"
    ) -> Iterator[Line]:
        head = f"{clock.clock(event.at, self._zone)}  {label}"
        yield from said(head, body, style=style, tone=tone, hang=len(head) - len(label) + _WIDTH)

    def _lines(self, event: e.Event) -> Iterator[Line]:
        match event:
            case e.RunStarted():
                start = event.start
                yield from self._said(event, "run", f"{inert.line(event.run_id)} ({inert.line(start.agent)})", "title")
                yield from self._said(event, "task", inert.block(start.task, self._limit))
                yield from self._files(event, start.files)
            case e.ActivityScheduled():
                yield from self._scheduling(event)
            case e.ActivityStarted(attempt=number) if number > 1 and self._is_news(event):
                words = text.attempt(number, event.worker, event.last_failure)
                yield from self._said(event, "retry", f"{self._name(event.activity_id)}: {words}", "warn", "warn")
            case e.ActivityCompleted():
                yield from self._completed(event)
            case e.ActivityFailed(kind=kind) if kind == ELSEWHERE:
                yield from self._said(event, "moved", inert.line(event.message, self._limit), "dim")
            case e.ActivityFailed():
                words = f"{self._name(event.activity_id)}: {text.reason(f'{event.kind}: {event.message}', self._limit)}"
                yield from self._said(event, "lost", words, "bad", "bad")
            case e.WorkHanded():
                words = f"run {inert.line(event.run_id)}. What it waits for: perdure inbox"
                yield from self._said(event, "by", words)
            case e.StandingChanged():
                yield from self._standing(event)
            case e.DecisionReceived(decision=decision) if self._is_first(decision):
                told = decision.reason or decision.result
                reason = f": {inert.line(told)}" if told else ""
                words = f"{decision.choice} of {inert.line(decision.request)} by {_by(decision.by)}{reason}"
                yield from self._said(event, "decided", words, "ask")
            case e.SteeringReceived(steering=word) if self._is_first(word):
                told = f": {inert.block(word.text, self._limit)}" if word.text else ""
                yield from self._said(event, text.SPOKEN[word.steer], f"by {_by(word.by)}{told}", "ask")
            case e.RunRetried():
                why = f": {inert.line(event.reason)}" if event.reason else ""
                yield from self._said(event, "retried", f"by {_by(event.by)}{why}", "ask")
            case e.CancelRequested():
                why = f": {inert.line(event.reason)}" if event.reason else ""
                yield from self._said(event, "cancel", f"asked by {inert.line(event.by)}{why}", "warn")
            case e.WorkflowTaskFailed():
                yield from text.suspended(event.message, event.worker)
            case e.RunEnded() if event.status != "continued":
                yield from text.ending(trace(self.told), text.View(now=event.at, zone=self._zone, limit=None))

    def _is_news(self, event: e.ActivityStarted) -> bool:
        """An attempt is told of while it runs, and again by the history when its activity closes."""
        mark = (event.activity_id, event.attempt)
        known = mark in self._attempts
        self._attempts.add(mark)
        return not known

    def _is_first(self, word: Decision | Steering) -> bool:
        """What was left by signal with no worker up comes again as the update that it was meant to be."""
        known = word in self._words
        self._words.append(word)
        return not known

    def _name(self, activity_id: str) -> str:
        """The tool, or what else an activity does."""
        scheduled = self._scheduled.get(activity_id)
        call = self._call(scheduled) if scheduled else None
        return inert.line(call.name if call else activity_id)

    def _call(self, scheduled: e.ActivityScheduled) -> AdmittedCall | None:
        asked = scheduled.input if isinstance(scheduled.input, dict) else {}
        return self._calls.get((asked.get("turn_id", ""), asked.get("call", -1)))

    def _scheduling(self, event: e.ActivityScheduled) -> Iterator[Line]:
        asked = event.input if isinstance(event.input, dict) else {}
        if event.activity == CALL_MODEL:
            yield from self._said(event, f"turn {asked.get('turn', '?')}", "thinking", "dim", "title")
            for ref in asked.get("since", ()):
                if ref.get("kind") == "note" and not ref.get("id"):  # what an operator said is told as it comes
                    yield from self._said(event, "note", inert.block(ref.get("text", "")), "dim")
        elif event.activity == ASK_CRITIC:
            yield from self._said(event, "critic", f"is asked, after {inert.line(asked.get('occasion', '?'))}", "dim")
        elif event.activity == RUN_TOOL and (call := self._call(event)):
            again = event.activity_id.rpartition("r")[2].isdigit()
            if call.verdict is Verdict.ASK or again:
                yield from self._said(event, "runs", inert.line(call.name) + (" again" if again else ""), "call")

    def _completed(self, event: e.ActivityCompleted) -> Iterator[Line]:
        scheduled = self._scheduled.get(event.activity_id)
        if scheduled is None:
            return
        took = clock.lasted((event.at - scheduled.at).total_seconds())
        if scheduled.activity == CALL_MODEL and (turn := read(RecordedTurn, event.result)):
            yield from self._thought(event, turn, took)
        elif scheduled.activity == ASK_CRITIC and (critique := read(Critique, event.result)):
            word = "has nothing to change" if critique.approved else inert.block(critique.text, self._limit)
            yield from self._said(event, "critic", word or "(said nothing)", "claim")
            yield from self._said(event, "", f"{took}; {text.spent(critique.usage, critique.cost)}", "dim")
        elif scheduled.activity in (CHECK_DECISION, CHECK_STEERING):
            checked = read(Checked, event.result)
            if checked and not checked.accepted:
                yield from self._said(event, "no", f"not accepted: {inert.line(checked.why)}", "warn", "warn")
        elif seen := read(Observation, event.result):
            yield from self._observed(event, seen, took)

    def _thought(self, event: e.ActivityCompleted, turn: RecordedTurn, took: str) -> Iterator[Line]:
        for part in thoughts(turn.protocol, turn.message):
            unread = part.kind == "call" and turn.stop is Stop.UNREAD
            if (part.kind in ("thinking", "text") or unread) and part.text != turn.answer:
                yield from self._said(event, "claims", inert.block(part.text, self._limit), "claim")
            elif part.kind == "refusal":
                yield from self._said(event, "declines", inert.block(part.text, self._limit), "bad", "bad")
        for call in turn.calls:
            self._calls[event.activity_id, call.index] = call
            yield from self._said(event, "call", f"{inert.line(call.name)} {inert.line(call.arguments)}", "call")
            if call.verdict is Verdict.REFUSE:
                yield from self._said(event, "refused", inert.line(call.reason, self._limit), "warn", "warn")
        if turn.stop not in ("calls", "answer"):
            yield from self._said(event, "stop", turn.stop.value, "warn", "warn")
        yield from self._said(event, "", f"{took}; {text.spent(turn.usage, turn.cost)}", "dim")

    def _observed(self, event: e.ActivityCompleted, seen: Observation, took: str) -> Iterator[Line]:
        tone = text.TONES.get(seen.ending, "plain")
        if seen.ending in (Ending.OK, Ending.ERROR):
            body = f"{self._name(event.activity_id)} ({took}): {inert.line(seen.text, self._limit)}"
            yield from self._said(event, seen.ending.value, body, tone=tone)
            yield from self._files(event, seen.files)
        elif seen.ending is Ending.UNKNOWN:
            yield from self._said(
                event, "unknown", f"{self._name(event.activity_id)}: {inert.line(seen.reason)}", tone=tone
            )

    def _files(self, event: e.Event, files: tuple[FileRef, ...]) -> Iterator[Line]:
        for file in files:
            yield from self._said(event, "file", listed(file))

    def _standing(self, event: e.StandingChanged) -> Iterator[Line]:
        before, self.requests = self.requests, {request.id: request for request in event.standing.requests}
        for request in self.requests.values():
            if request.id not in before:
                yield from self._waiting(event, request)

    def _waiting(self, event: e.Event, request: Request) -> Iterator[Line]:
        kind = "approval of" if request.kind is RequestKind.APPROVAL else request.kind.value
        call = text.titled(request.title) or inert.line(request.tool)  # with its arguments: several may wait at a time
        what = kind if request.kind is RequestKind.QUESTION else f"{kind} {call}".rstrip()
        yield from self._said(event, "waits", f"{what} — {inert.line(request.reason, self._limit)}", "ask", "ask")
        asked = self._calls.get((request.turn_id, request.call))
        answers = asked.question.choices if asked and asked.question else ()
        for choice in CHOICES[request.kind]:
            for answer in (choice is Choice.ANSWER and answers) or ("",):
                yield from self._said(event, "", text.command(request.id, choice, answer), "command")


def _by(name: str) -> str:
    """Who said something. A narration tells it as it comes in, before anybody can have verified it."""
    return f"{inert.line(name)} (unverified)"
