"""Verbs that decide: approve, reject, answer, cancel. What is shown is what is hashed is what is decided on."""

from collections.abc import Sequence
from typing import Annotated
from uuid import uuid4

import typer

from perdure.console import exits
from perdure.console.aftermath import Came, came_of, told
from perdure.console.desk import MOST_NAMED, Desk, desk, within
from perdure.console.naming import at_most, deciding
from perdure.console.port import (
    AlreadyDecidedError,
    DecisionRefusedError,
    RunNotFoundError,
    RunRow,
    RunsPort,
)
from perdure.console.reading import OutputOption, RunArgument
from perdure.console.screen import Output
from perdure.core import inert
from perdure.core.contracts import CHOICES, FINAL_STATES, MOST_SAID, Choice, Decision, Request, RequestKind, Settled
from perdure.core.digests import of_bytes
from perdure.traces import clock, document, text
from perdure.traces.events import Event
from perdure.traces.lines import Line, Span
from perdure.traces.shape import Trace
from perdure.traces.turns import trace

RequestArgument = Annotated[
    str,
    typer.Argument(
        metavar="REQUEST",
        help="A request's id, or how it begins (at least 4 characters): see inbox.",
        callback=deciding,
    ),
]
ByOption = Annotated[
    str,
    typer.Option(
        "--by", help="Whose word it is (else $PERDURE_OPERATOR, else the login name).", callback=at_most(MOST_NAMED)
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why. The model is told.", callback=at_most(MOST_SAID))]
WhyOption = Annotated[str, typer.Option("--reason", help="Why, for other operators.", callback=at_most(MOST_SAID))]
ResultOption = Annotated[
    str,
    typer.Option("--result", help="With happened: what the tool would have returned.", callback=at_most(MOST_SAID)),
]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait up to 30 s for what comes of it.")]


_WORDS = (Choice.HAPPENED, Choice.RERUN, Choice.GIVE_UP, Choice.RETRY, Choice.STOP, Choice.EXTEND, Choice.FINISH)
"""The choices that `answer` makes where no question is asked."""

_PATIENCE = 30.0  # seconds for what comes of a decision


def add_to(app: typer.Typer) -> None:
    for verb in (approve, reject, answer, cancel):
        app.command(rich_help_panel="Decide")(verb)


def approve(
    context: typer.Context,
    request: RequestArgument,
    reason: WhyOption = "",
    by: ByOption = "",
    wait: WaitOption = True,
    output: OutputOption = Output.TEXT,
) -> None:
    """Let one call run: exactly the bytes shown, once. Then say what came of it.

    \b
    perdure approve a1b2c3d4 --reason 'checked with HR'
    """
    at = desk(context)
    at.do(_decide(at, request, Choice.APPROVE, by=by, reason=reason, wait=wait, output=output))


def reject(
    context: typer.Context,
    request: RequestArgument,
    reason: ReasonOption = "",
    by: ByOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Do not let a call run. The model is told so, with your reason, and goes on.

    \b
    perdure reject a1b2c3d4 --reason 'wrong account, use 42'
    """
    at = desk(context)
    at.do(_decide(at, request, Choice.REJECT, by=by, reason=reason, wait=False, output=output))


def answer(
    context: typer.Context,
    request: RequestArgument,
    said: Annotated[
        str,
        typer.Argument(
            metavar="ANSWER",
            help="question: your words. unknown: happened, rerun, give_up. stuck: retry, stop. limit: extend, finish.",
            callback=at_most(MOST_SAID),
        ),
    ],
    reason: Annotated[
        str, typer.Option("--reason", help="Why. After give_up the model is told.", callback=at_most(MOST_SAID))
    ] = "",
    result: ResultOption = "",
    by: ByOption = "",
    wait: WaitOption = True,
    output: OutputOption = Output.TEXT,
) -> None:
    """Answer a request that is no approval: a question, an unknown outcome, a run that is stuck, a spent budget.

    \b
    perdure answer a1b2c3d4 'the second account'  a question: your words
    perdure reject a1b2c3d4 --reason 'ask them'   a question, declined
    perdure answer a1b2c3d4 happened --result 'booking LV-1042'
    perdure answer a1b2c3d4 rerun      it did not happen: again, same key
    perdure answer a1b2c3d4 give_up    nobody knows; the model is told that
    perdure answer a1b2c3d4 retry      it is mended: try again
    perdure answer a1b2c3d4 stop       end the run as failed
    perdure answer a1b2c3d4 extend     as much again of what is spent
    perdure answer a1b2c3d4 finish     no more: one last turn, without tools
    """
    at = desk(context)
    at.do(_decide(at, request, said, by=by, reason=reason, result=result, wait=wait, output=output))


def _choice(said: str, request: Request, result: str, choices: Sequence[str]) -> tuple[Choice, str]:
    """What `answer` means by a word, and the result that goes with it.

    Raises:
        typer.BadParameter: it means nothing here.
    """
    if request.kind is RequestKind.QUESTION:
        if not (answer := chosen(choices, said)):
            fit = f"one of {', '.join(map(repr, choices))}" if choices else "words"
            decline = f"or decline it: {text.command(request.id, Choice.REJECT)}"
            raise typer.BadParameter(f"{said!r} is no answer to {request.id}: give {fit}, {decline}")
        return Choice.ANSWER, answer
    if said not in _WORDS:
        fit = " or ".join(text.command(request.id, each) for each in CHOICES[request.kind])
        raise typer.BadParameter(f"{said!r} does not answer a request of kind {request.kind}: {fit}")
    if said == Choice.HAPPENED and not result:
        raise typer.BadParameter("happened needs --result: the model goes on with it as the tool's result")
    return Choice(said), result


def chosen(choices: Sequence[str], said: str) -> str:
    """The answer as it stands among the choices; empty if it is none of them, or has no words."""
    if not choices:
        return said if said.strip() else ""
    return next((each for each in choices if each.casefold() == said.strip().casefold()), "")


async def _decide(
    at: Desk,
    request_id: str,
    said: Choice | str,
    *,
    by: str,
    reason: str,
    result: str = "",
    wait: bool,
    output: Output,
) -> int:
    runs = await at.world.runs()
    try:
        row, request = await runs.find_request(request_id)
    except AlreadyDecidedError as already:
        made = said if said in set(Choice) else Choice.ANSWER
        return _again(at, already.settled, Choice(made), output)
    except RunNotFoundError as missing:
        raise await _unknown(runs, request_id, missing) from None
    events = await runs.events(row.run_id)
    seen = trace(events)
    if isinstance(said, Choice):
        choice = said
    else:
        call = seen.call(request)
        choice, result = _choice(said, request, result, call.choices if call else ())
    if choice not in CHOICES[request.kind]:
        fit = " or ".join(f"`{text.command(request.id, each)}`" for each in CHOICES[request.kind])
        raise DecisionRefusedError(f"request {request.id!r} is of kind {request.kind}: {fit}")
    _show(at, seen, request)
    decision = Decision(
        id=str(uuid4()),
        request=request.id,
        choice=choice,
        by=by or at.operator,
        digest=shown_digest(seen, request),
        reason=reason,
        result=result,
    )
    settled = await runs.decide(row.run_id, decision)
    if settled is None:
        at.screen.hint("no worker answers: the decision is left with the run, and takes effect when one is up")
        if output is not Output.TEXT:
            left = {"request": request.id, "choice": choice, "by": decision.by, "left": True}
            at.screen.data([document.plain(left)], output, one=True)
        return exits.WAITING
    wait = wait and not row.paused  # nothing comes of it before it is resumed
    after = await within(_PATIENCE, _aftermath(runs, row.run_id, request, settled)) if wait else None
    _report(at, settled, output, after, request)
    _tell_next(at, row, after, output, waited=wait)
    return after[1].code if after and after[1] else exits.DONE


async def _unknown(runs: RunsPort, name: str, missing: RunNotFoundError) -> RunNotFoundError:
    """Why there is no such request: a run's id, which is at hand in every list, is none."""
    try:
        row = await runs.find(name)
    except RunNotFoundError:
        return missing
    what = "what waits in it" if row.requests else "where it stands; nothing waits in it"
    return RunNotFoundError(
        f"{row.run_id!r} is a run, and requests are decided on: `perdure show {text.quoted(row.run_id)}` shows {what}"
    )


def _tell_next(at: Desk, row: RunRow, after: "_After | None", output: Output, *, waited: bool) -> None:
    if row.paused:
        by = inert.line(row.paused.by)
        at.screen.hint(f"paused by {by}, and goes on when it is resumed:", text.next_command("resume", row.run_id))
    elif waited and after is None:
        at.screen.hint(f"nothing came of it in {_PATIENCE:.0f} s; it goes on:", text.next_command("watch", row.run_id))
    elif output is Output.TEXT and _goes_on(after):
        at.screen.hint("follow it:", text.next_command("watch", row.run_id))


def _goes_on(after: "_After | None") -> bool:
    """Whether the run is not known to have ended, or to ask again."""
    seen, came = after or (None, None)
    return not (seen and seen.outcome) and not (came and came.what in ("asks", "ended"))


def shown_digest(seen: Trace, request: Request) -> str:
    """The digest of the bytes that were shown, computed from them.

    Raises:
        DecisionRefusedError: an approval of a call that the record does not hold, or holds with other bytes.
    """
    call = seen.call(request)
    if request.kind is not RequestKind.APPROVAL:
        return request.digest
    if call is None:
        raise DecisionRefusedError(
            f"the record holds no call for request {request.id!r}: nothing can be approved unseen"
        )
    return of_bytes(call.arguments)


def _show(at: Desk, seen: Trace, request: Request) -> None:
    call = seen.call(request) if request.kind is not RequestKind.QUESTION else None
    at.screen.hint(Line((Span(f"{inert.line(seen.run_id)} ({inert.line(seen.agent)}): {inert.line(seen.task, 200)}"),)))
    if call:
        at.screen.hint(*text.call_lines(call.tool, call.arguments, call.effect))
    at.screen.hint(Line((Span(inert.line(request.reason), "ask"),), Span("why", "label"), 2, 11))


def _again(at: Desk, settled: Settled, choice: Choice, output: Output) -> int:
    """The same word twice is harmless; another one comes too late."""
    if settled.choice is not choice:
        raise DecisionRefusedError(
            f"request {settled.request!r} was decided before: {settled.choice} by {settled.by!r}, "
            f"{clock.stamp(settled.decided, at.zone)}"
        )
    _report(at, settled.model_copy(update={"again": True}), output)
    return exits.DONE


_After = tuple[Trace, Came | None]


async def _aftermath(runs: RunsPort, run_id: str, request: Request, settled: Settled) -> _After:
    """The run once something came of the decision, or once it ended; and what that is."""
    events: list[Event] = []
    async for event in runs.watch(run_id):
        events.append(event)
        if event.at >= settled.decided and (came := came_of(seen := trace(events), request, settled.choice)):
            return seen, came
    seen = trace(events)
    return seen, came_of(seen, request, settled.choice)


def _report(
    at: Desk, settled: Settled, output: Output, after: _After | None = None, request: Request | None = None
) -> None:
    seen, came = after or (None, None)
    if output is not Output.TEXT:
        call = seen.call(request) if seen and request else None
        again = came.again.request if came and came.again else None
        more = {"call": call, "came": came.what if came else None, "asks": again, "state": seen.state if seen else None}
        at.screen.data([{**document.plain(settled), **document.plain(more)}], output, one=True)
        return
    proof = "verified" if settled.verified else "unverified"
    again_said = "; it had been decided so before, nothing changed" if settled.again else ""
    words = (
        f"{inert.line(settled.request)} by {inert.line(settled.by)} ({proof}), {clock.stamp(settled.decided, at.zone)}"
    )
    at.screen.show([Line((Span(f"{words}{again_said}"),), Span(settled.choice.value, "ok"), 0, 9)])
    if seen and came and request:
        at.screen.show(told(came, seen, request))


def cancel(
    context: typer.Context,
    run: RunArgument,
    reason: WhyOption = "",
    by: ByOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Stop a run. Its tools are told and waited for; the trace then says what did and did not happen.

    \b
    perdure cancel leave-desk-7f3a --reason 'booked by phone'
    """
    at = desk(context)
    at.do(_cancel(at, run, reason, by, output))


async def _cancel(at: Desk, run: str, reason: str, by: str, output: Output) -> int:
    runs = await at.world.runs()
    row = await runs.find(run)
    if row.state in FINAL_STATES:
        raise DecisionRefusedError(f"run {row.run_id!r} has ended: {row.state}. Nothing was cancelled")
    try:
        await runs.cancel(row.run_id, reason=reason, by=by)
    except RunNotFoundError:
        raise DecisionRefusedError(f"run {row.run_id!r} ended just now. Nothing was cancelled") from None
    if output is not Output.TEXT:
        at.screen.data([{"run_id": row.run_id, "asked": "cancel", "reason": reason}], output, one=True)
    at.screen.hint("asked to stop:", text.next_command("watch", row.run_id))
    return exits.DONE
