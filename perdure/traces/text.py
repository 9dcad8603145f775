"""A trace as lines for people. Pure: the same record, moment and zone give the same lines.

Every text in it that a model, a tool, a stranger or an operator wrote passes through `perdure.core.inert`. Arguments
are never cut. Observations and thoughts are, at `limit` characters each, and then say how to see the rest.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from perdure.core import inert
from perdure.core.contracts import (
    CHOICES,
    ELSEWHERE,
    Choice,
    Effect,
    FileRef,
    Limits,
    Outcome,
    RequestKind,
    RunState,
    Steer,
    Steered,
)
from perdure.core.files import listed
from perdure.core.messages import Part
from perdure.traces import clock
from perdure.traces.lines import BLANK, Line, Span, laid_out, said
from perdure.traces.shape import Asked, Execution, Ruling, Spoken, Trace, TracedCall, TracedCritique, TracedTurn
from perdure.traces.words import COLUMN, field
from perdure.traces.words import TONES as TONES
from perdure.traces.words import View as View
from perdure.traces.words import command as command
from perdure.traces.words import limits as limits
from perdure.traces.words import next_command as next_command
from perdure.traces.words import quoted as quoted
from perdure.traces.words import reason as reason
from perdure.traces.words import spent as spent
from perdure.traces.words import titled as titled
from perdure.traces.words import tokens as tokens

_SAME: Final = 200  # characters by which a reason is known again; an outcome's is cut
_EFFECTS: Final = {
    Effect.READ: "it changes nothing",
    Effect.IDEMPOTENT: "at most one effect, however often it is tried",
    Effect.ONCE: "tried once; if its result is lost, you are asked what happened",
}
_MEANING: Final = {
    Choice.APPROVE: "exactly these bytes run, once",
    Choice.REJECT: "it does not run; the model is told so, with your reason",
    Choice.HAPPENED: "it took effect; the model is told the result you give",
    Choice.RERUN: "it did not happen: it runs again, with the same idempotency key",
    Choice.GIVE_UP: "nobody knows; the model is told exactly that",
    Choice.RETRY: "it is mended: try again",
    Choice.STOP: "the run ends as failed",
    Choice.ANSWER: "the model goes on with your words, and your name to them",
    Choice.EXTEND: "the run gets as much again of what is spent, and goes on",
    Choice.FINISH: "the model is asked once more, without tools, to answer with what it has",
}
_DECLINED: Final = "no answer is given; the model is told so, with your reason"


def traced(trace: Trace, view: View) -> list[Line]:
    """The whole trace."""
    return [
        *heading(trace, view),
        *_happened((), (asked for asked in trace.asked if not _is_next(trace, asked)), view),
        *(line for turn in trace.turns for line in _turn(trace, turn, view)),
        *_happened((), (asked for asked in trace.asked if _is_next(trace, asked)), view),
        *ending(trace, view),
    ]


def _is_next(trace: Trace, asked: Asked) -> bool:
    """Whether it was asked before a turn that was not taken yet."""
    return bool(trace.turns) and asked.request.turn > trace.turns[-1].number


def summary(trace: Trace, view: View) -> list[Line]:
    """Where a run stands: the latest turn, what waits (each shown once), how it ended and what kept it until then."""
    items = (line for asked in trace.waiting for line in (BLANK, *request(trace, asked, view, heading=False)))
    if trace.outcome:
        return [*heading(trace, view), *_kept(trace, view), *ending(trace, view)]
    latest = _turn(trace, trace.turns[-1], view, apart=True) if trace.turns else ()
    return [*heading(trace, view), *latest, *items]


def _kept(trace: Trace, view: View) -> Iterator[Line]:
    """What a run that did not answer was waiting for last, and what was said to it."""
    asked = sorted(trace.all_asked, key=lambda each: each.request.since)
    if not asked or not trace.outcome or trace.outcome.state is RunState.ANSWERED:
        return
    last = asked[-1]
    if not last.settled or last.settled.choice is Choice.STOP:
        yield from _asked([last], view)


def because(trace: Trace) -> str:
    """Why a run ended so, without repeating what it was stuck on where that is shown before."""
    told = trace.outcome.reason if trace.outcome else ""
    for asked in trace.all_asked:
        told = told.partition(f": {asked.request.reason[:_SAME]}")[0] if asked.request.reason else told
    return reason(told)


def heading(trace: Trace, view: View) -> Iterator[Line]:
    """Who, what, when, how much."""
    state = Span(trace.state.value, TONES.get(trace.state, "plain"))
    yield Line((Span(inert.line(trace.run_id), "title"), Span("  "), Span(inert.line(trace.agent)), Span("  "), state))
    yield from field("task", inert.block(trace.task))
    yield from _files(trace.files)
    if trace.model:
        yield from field("model", f"{inert.line(trace.model)} ({inert.line(trace.protocol)})")
    if trace.tools is not None:
        yield from field("tools", f"{inert.line(', '.join(trace.tools)) or 'none'}: no others were given to this run")
    if trace.parent:
        yield from field("for", f"run {inert.line(trace.parent)}")
    yield from field("started", f"{view.stamp(trace.started)} by {inert.line(trace.by)}")
    if trace.ended:
        took = clock.lasted((trace.ended - trace.started).total_seconds())
        yield from field("ended", f"{view.stamp(trace.ended)}, after {took}")
    budget = f" of {trace.budget}" if trace.budget is not None else ""
    more = ", its budget extended" if trace.extended else ""
    taken = trace.turns_gone + sum(turn.stop is not None for turn in trace.turns)
    total = trace.usage + trace.handed if trace.handed else trace.usage
    yield from field("used", f"{taken}{budget} turns{more}; {spent(total, trace.cost)}")
    if trace.handed:
        yield from field("", f"of that, {tokens(trace.handed)} by the runs that it handed work to", "dim")
    if trace.limits and trace.budget is not None and trace.limits != Limits():
        yield from field("budget", limits(trace.budget, trace.limits))
    if trace.turns_gone:
        gone = "turn 1" if trace.turns_gone == 1 else f"turns 1 to {trace.turns_gone}"
        yield from field("gone", f"{gone}: the server's retention took them, and no store kept them", "warn")
    if trace.cancelling:
        why = f": {inert.line(trace.cancelling.reason)}" if trace.cancelling.reason else ""
        yield from field("cancel", f"asked by {inert.line(trace.cancelling.by)} {view.stamp(trace.cancelling.at)}{why}")
    for each in trace.retried:
        why = f": {inert.line(each.reason)}" if each.reason else ""
        yield from field("retried", f"by {inert.line(each.by)} (unverified), {view.stamp(each.at)}{why}", "ask")
    if trace.paused:
        why = f": {inert.line(trace.paused.text)}" if trace.paused.text else ""
        yield from field("paused", f"by {_by(trace.paused)}, {view.stamp(trace.paused.at)}{why}", "warn", "warn")
    for word in trace.spoken:
        if word.turn is None and not (trace.paused and trace.paused.id == word.id):
            yield from spoken(word, trace, view)
    for suspension in trace.suspensions:
        if not suspension.over:
            yield from suspended(suspension.message, suspension.worker)


def spoken(word: Spoken, trace: Trace, view: View) -> Iterator[Line]:
    """What an operator said, and what became of it."""
    text = f": {inert.block(word.text, view.limit)}" if word.text else ""
    became = ""
    if word.accepted is False:
        became = f" — not accepted: {inert.line(word.why_not)}"
    elif word.steer is Steer.SAY and word.turn is None:
        became = " — not heard: the run ended first" if trace.outcome else " — not heard yet"
    yield from field(SPOKEN[word.steer], f"by {_by(word)}, {clock.stamp(word.at, view.zone)}{text}{became}", "ask")


def _by(word: Spoken | Steered) -> str:
    return f"{inert.line(word.by)} ({'verified' if word.verified else 'unverified'})"


SPOKEN: Final = {Steer.SAY: "said", Steer.PAUSE: "paused", Steer.RESUME: "resumed"}


def suspended(message: str, worker: str) -> Iterator[Line]:
    """The alarm of a run that no worker can take on."""
    text = (
        f"no worker can take this run on; the server tries again for ever. Worker {inert.line(worker)} says: "
        f"{inert.line(message, 400)}. Deploy the code that the run was started with, or a fix; `perdure doctor` looks."
    )
    yield from said("SUSPENDED", text, style="bad", tone="bad", hang=COLUMN)


# --- turns and calls --------------------------------------------------------------------------------------------------


def _turn(trace: Trace, turn: TracedTurn, view: View, *, apart: bool = False) -> Iterator[Line]:
    """A turn; with `apart` without what waits for a person, which is shown on its own."""
    yield BLANK
    took = f" · {clock.lasted(turn.took)}" if turn.took is not None else " · thinking"
    facts = f"{clock.stamp(turn.started, view.zone)}{took}" + (
        f" · {spent(turn.usage, turn.cost)}" if turn.stop else ""
    )
    yield Line((Span(facts, "dim"),), Span(f"turn {turn.number}", "title"), 0, COLUMN)
    for word in turn.said:
        yield from spoken(word, trace, view)
    for note in turn.heard:
        yield from field("note", inert.block(note), "dim")
    yield from _happened(turn.executions, turn.asked, view, apart=apart)
    for model in turn.passed:
        yield from field("out", inert.line(model), "warn", "warn")
    if turn.protocol:
        yield from field("model", f"{inert.line(turn.model)} ({inert.line(turn.protocol)})")
    yield from claims(turn, view, trace.outcome)
    for call in turn.calls:
        if not (apart and call.state == "waiting"):
            yield from _call(call, view)
    if turn.critique:
        yield from _critique(turn.critique, view)


def _critique(critique: TracedCritique, view: View) -> Iterator[Line]:
    """What the critic said after a turn; a claim, like all that models say."""
    said = "has nothing to change" if critique.approved else _cut(critique.text, view)
    if critique.told:
        said += "\n(told to the model)"
    elif not critique.approved and critique.text:
        said += "\n(not told)"
    yield from field("critic", said or "(said nothing)" if took(critique.executions) else "is asked", "claim")
    facts = (f"after {critique.occasion}", took(critique.executions), spent(critique.usage, critique.cost))
    yield from field("", " · ".join(filter(None, facts)), "dim")
    yield from _happened(critique.executions, (), view)


def claims(turn: TracedTurn, view: View, outcome: Outcome | None = None) -> Iterator[Line]:
    """What the model said. A run's answer is shown at its end, not twice."""
    for part in turn.claims:
        if not (outcome and part.kind == "text" and part.text == outcome.answer):
            yield from claim(part, view)
    if turn.stop not in (None, "calls", "answer"):
        yield from field("stop", f"{turn.stop}", "warn")


def claim(part: Part, view: View) -> Iterator[Line]:
    match part.kind:
        case "redacted":
            yield from field("claims", "(thinking that the provider does not show)", "dim")
        case "unknown":
            yield from field(inert.line(part.name, 20), inert.line(part.text, view.limit), "dim")
        case "refusal":
            yield from field("declines", inert.block(part.text, view.limit), "bad")
        case _:
            yield from field("claims" if part.kind == "thinking" else "says", _cut(part.text, view), "claim")


def _cut(text: str, view: View) -> str:
    shown = inert.block(text, view.limit)
    cut = view.limit is not None and len(text) > view.limit
    return f"{shown} (all of it: --full, or -o json)" if cut and shown.endswith("more characters>") else shown


def _call(call: TracedCall, view: View) -> Iterator[Line]:
    yield from call_lines(call.tool, call.arguments, call.effect, took(call.executions))
    if call.asked_name:
        yield from field("", f"the model called it {inert.line(call.asked_name)}", "dim")
    if call.verdict == "ask":
        yield from field("asks", inert.line(call.reason), "ask")
    if call.by:
        yield from field("by", f"run {inert.line(call.by)}")
    in_doubt = call.state == "unknown" or any(each.request.kind is RequestKind.UNKNOWN for each in call.asked)
    if len(call.executions) > 1 and not in_doubt:
        yield from field("sent", ", ".join(inert.line(each.activity_id) for each in call.executions), "warn")
    if call.key and in_doubt:
        yield from field("key", inert.line(call.key))
    sendings = [(each.begun or each.scheduled, list(_sending(each, view))) for each in call.executions if in_doubt]
    yield from _happened(call.executions, call.asked, view, also=sendings)
    if call.observation is not None:
        yield from field(call.state, _cut(call.observation, view), tone=TONES.get(call.state, "label"))
    elif call.state != "waiting":
        what = "not run yet" if call.state == "pending" else ""
        yield from field(call.state.replace("_", " "), what, tone=TONES.get(call.state, "label"))
        if call.by and call.state == "running":  # what keeps it, a person perhaps, is told there
            yield Line(next_command("show", call.by).spans, Span(""), 2, COLUMN)
    yield from _files(call.files)


def _files(files: Iterable[FileRef]) -> Iterator[Line]:
    for file in files:
        yield from field("file", listed(file))


def sent(call: TracedCall, view: View) -> Iterator[Line]:
    """What one needs to look a call up where it may have taken effect: its key, when it was sent, and to whom."""
    yield from field("key", inert.line(call.key))
    for each in call.executions:
        yield from _sending(each, view)


def _sending(execution: Execution, view: View) -> Iterator[Line]:
    activity = inert.line(execution.activity_id)
    if execution.begun:
        told = f"{view.stamp(execution.begun)} to worker {inert.line(execution.worker)} ({activity})"
    else:
        told = f"{view.stamp(execution.scheduled)} ({activity}); which worker took it, if any, is not recorded"
    yield from field("sent", told)


def took(executions: tuple[Execution, ...]) -> str:
    seconds = [execution.took for execution in executions if execution.took is not None]
    return clock.lasted(sum(seconds)) if seconds else ""


def call_lines(tool: str, arguments: str, effect: Effect, facts: str = "", label: str = "call") -> Iterator[Line]:
    """A call with its exact arguments, laid out where they are long."""
    more = " · ".join(part for part in (effect.value if effect is not Effect.READ else "", facts) if part)
    tail = (Span(f"  {more}", "dim"),) if more else ()
    rows = inert.block(laid_out(arguments)).split("\n")
    name = Span(inert.line(tool) + " ", "call")
    first = (name, *tail) if len(rows) > 1 else (name, Span(rows[0]), *tail)
    yield Line(first, Span(label, "label"), 2, COLUMN)
    if len(rows) > 1:
        yield from (Line((Span(row),), Span(""), 2, COLUMN + 2) for row in rows)


def _happened(
    executions: Iterable[Execution],
    asked: Iterable[Asked],
    view: View,
    *,
    also: Sequence[tuple[datetime, list[Line]]] = (),
    apart: bool = False,
) -> Iterator[Line]:
    """Attempts worth a word, who was asked, and what else there is, in the order of time. A reason is told once."""
    asked = list(asked)
    reasons = {each.request.reason for each in asked if each.request.kind is not RequestKind.APPROVAL}
    tries = [(each.ended or each.scheduled, list(_try(each, reasons))) for each in executions]
    shown = [each for each in asked if not (apart and each.until is None)]
    before = ["", *(each.request.reason for each in shown)]
    questions = [
        (each.request.since, list(_asked([each], view, before=last))) for each, last in zip(shown, before, strict=False)
    ]
    for _, lines in sorted([*also, *tries, *questions], key=lambda each: each[0]):
        yield from lines


def _try(execution: Execution, told: Collection[str] = ()) -> Iterator[Line]:
    """More than one attempt, or one that came to nothing, if that is not in what is `told` anyhow."""
    if execution.attempts > 1:
        yield from field("retried", attempt(execution.attempts, execution.worker, execution.last_failure), "warn")
    _, _, message = execution.failure.partition(": ")
    if execution.failure_kind == ELSEWHERE:
        yield from field("moved", inert.line(message, 400), "dim")
        return
    if execution.failure and message not in told:
        words = reason(execution.failure, 400)
        where = f" on {inert.line(execution.worker)}" if execution.worker else ""
        yield from field("lost", f"{words}{where}", "bad", "bad")


def attempt(number: int, worker: str, last_failure: str) -> str:
    before = f"; before: {inert.line(last_failure, 200)}" if last_failure else ""
    return f"attempt {number} on {inert.line(worker)}{before}"


# --- requests and decisions -------------------------------------------------------------------------------------------


def _asked(asked: Iterable[Asked], view: View, *, before: str = "") -> Iterator[Line]:
    """Requests and what was said to them. `before`: the reason of the request before, not told twice."""
    for each in asked:
        wanted = each.request
        if wanted.kind is not RequestKind.APPROVAL:
            why = "again, for the same reason" if wanted.reason == before else reason(wanted.reason, view.limit)
            yield from field(wanted.kind.value, why, "ask")
        for ruling in each.rulings:
            yield from field("decided" if ruling.accepted else "said", ruled(ruling, each, view))
        if each.until is None:
            yield from field(
                "waits", f"request {inert.line(wanted.id)}, since {view.stamp(wanted.since)}", "ask", "ask"
            )
        elif not each.settled:
            yield from field("withdrawn", f"request {inert.line(wanted.id)}, {view.stamp(each.until)}", "dim")


def ruled(ruling: Ruling, asked: Asked, view: View) -> str:
    """`approve by ann (unverified), 2026-11-29 ..., after 1 min: fine`"""
    proof = "verified" if ruling.verified else "unverified"
    waited = clock.lasted((ruling.at - asked.request.since).total_seconds())
    why = f": {inert.line(ruling.reason)}" if ruling.reason else ""
    result = f"; result given: {inert.line(ruling.result)}" if ruling.result else ""
    when = clock.stamp(ruling.at, view.zone)
    said = f"{ruling.choice} by {inert.line(ruling.by)} ({proof}), {when}, after {waited}{why}{result}"
    return f"{said}{_became(ruling, asked)}"


def _became(ruling: Ruling, asked: Asked) -> str:
    if ruling.accepted:
        return ""
    if ruling.accepted is False or ruling.why_not:
        return f" — not accepted: {inert.line(ruling.why_not)}"
    if asked.until is not None:
        return " — not taken: the request had been settled or withdrawn"
    if ruling.via == "signal":
        return " — left with the run; takes effect when a worker is up"
    return " — still being checked"


def request(trace: Trace, asked: Asked, view: View, *, commands: bool = True, heading: bool = True) -> Iterator[Line]:
    """One item of the inbox: all one needs to decide, and (unless one is just being asked) the commands.

    Without `heading`, what stands above it anyway is left out: run, goal, and what the model said in the turn.
    """
    wanted = asked.request
    yield Line(
        (Span(inert.line(wanted.id), "title"), Span(f"  {wanted.kind.value}  ", "ask"), Span(titled(wanted.title)))
    )
    if heading:
        works_for = f", for run {inert.line(trace.parent)}" if trace.parent else ""
        run = f"{inert.line(trace.run_id)} ({inert.line(trace.agent)}), turn {wanted.turn}{works_for}"
        yield from field("run", run)
        yield from field("goal", inert.block(trace.task, view.limit))
        yield from _files(trace.files)
        for part in trace.claims(wanted):
            if part.kind in ("thinking", "text"):
                yield from field("claims", _cut(part.text, view), "claim")
    call = trace.call(wanted)
    if call and wanted.kind is not RequestKind.QUESTION:
        yield from call_lines(call.tool, call.arguments, call.effect)
        yield from field("sha256", call.digest, "dim")
        yield from field("effect", f"{call.effect}: {_EFFECTS[call.effect]}", "dim")
        if wanted.kind is RequestKind.UNKNOWN:
            yield from sent(call, view)
    label = "asks" if wanted.kind is RequestKind.QUESTION else "why"
    yield from field(label, reason(wanted.reason), "ask")
    yield from field("since", f"{view.stamp(wanted.since)}; it waits without a limit")
    for ruling in asked.rulings:
        yield from field("said", ruled(ruling, asked, view), "dim")
    for choice in CHOICES[wanted.kind]:
        declined = wanted.kind is RequestKind.QUESTION and choice is Choice.REJECT
        yield from field(choice.value.replace("_", " "), _DECLINED if declined else _MEANING[choice], "dim")
        answers = (call.choices if call else ()) if choice is Choice.ANSWER else ()
        if commands:
            for answer in answers or ("",):
                yield Line((Span(command(wanted.id, choice, answer), "command"),), Span(""), 2, COLUMN)
        elif answers:
            yield from field("", ", ".join(map(inert.line, answers)))


# --- the end ----------------------------------------------------------------------------------------------------------


def ending(trace: Trace, view: View) -> Iterator[Line]:
    """The answer with its unsupported figures marked, or why there is none."""
    outcome = trace.outcome
    if outcome is None:
        return
    yield BLANK
    tone = TONES.get(outcome.state, "plain")
    answer = laid_out(outcome.answer) if trace.structured else outcome.answer
    yield from said(outcome.state.value, inert.block(answer), tone=tone, hang=COLUMN)
    if outcome.reason:
        yield from field("because", because(trace), tone=tone)
    for line in outcome.report:
        yield from field("left", inert.line(line))
    if trace.unsupported:
        figures = ", ".join(inert.line(figure.text) for figure in trace.unsupported)
        yield from field("unproven", f"in no observation and not in the task: {figures}", "warn", "warn")
    elif trace.saw_files and outcome.state is RunState.ANSWERED:
        yield from field("figures", "not looked for: files were read, and figures may stand in them", "dim")
    elif outcome.state is RunState.ANSWERED and trace.turns:
        yield from field("figures", "each stands in an observation or in the task", "dim")
