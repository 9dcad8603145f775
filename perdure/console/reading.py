"""Verbs that only look: list, inbox, show, trace."""

import asyncio
import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from perdure.console import exits
from perdure.console.desk import Desk, desk, read_text, write_text
from perdure.console.naming import given
from perdure.console.port import RunNotFoundError, RunRow, RunsPort
from perdure.console.screen import Output, link
from perdure.core import inert
from perdure.core.contracts import FINAL_STATES, Request, RequestKind, RunState
from perdure.traces import cases as learnt
from perdure.traces import clock, document, text
from perdure.traces.events import Event
from perdure.traces.lines import BLANK, Line, Span, Style
from perdure.traces.shape import Trace
from perdure.traces.turns import trace

OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How data is written to stdout.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or how it begins.", callback=given)]
StateOption = Annotated[
    RunState | None, typer.Option(metavar="STATE", help=f"Only runs that stand so: {', '.join(RunState)}.")
]
FullOption = Annotated[bool, typer.Option("--full", help="Cut nothing.")]


def add_to(app: typer.Typer) -> None:
    panel = "Look"
    app.command("list", rich_help_panel=panel)(list_runs)
    app.command(rich_help_panel=panel)(inbox)
    app.command(rich_help_panel=panel)(show)
    app.command("trace", rich_help_panel=panel)(trace_run)


# --- list -------------------------------------------------------------------------------------------------------------


def list_runs(
    context: typer.Context,
    state: StateOption = None,
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="At most so many: those started last, newest first.")
    ] = 50,
    output: OutputOption = Output.TEXT,
) -> None:
    """The runs started last, newest first, and what each waits for or how it ended.

    \b
    perdure list --state waiting
    perdure list --agent leave-desk -o jsonl
    """
    at = desk(context)
    at.do(_list(at, state, agent, limit, output))


async def _list(at: Desk, state: RunState | None, agent: str | None, limit: int, output: Output) -> int:
    runs = await at.world.runs()
    rows = await runs.list(state=state, agent=agent, limit=limit)
    if output is not Output.TEXT:
        at.screen.data([document.row(row) for row in rows], output)
    else:
        at.screen.show(_rows(rows, at))
        if not rows and (state or agent):
            at.screen.hint("none match")
        elif not rows:
            at.screen.hint("no runs. Start one:", text.next_command("run AGENT 'TASK'"))
        elif len(rows) == limit:
            at.screen.hint(f"the newest {limit}; more with --limit")
    return exits.DONE


_HEAD = ("RUN", "STATE", "AGENT", "STARTED", "WHAT")
_SHORT = 60  # characters of what waits, or of a reason


def _rows(rows: Sequence[RunRow], at: Desk) -> Iterator[Line]:
    """A line each, in columns as wide as needed. A run's id is never cut: it is what the next command takes."""
    if not rows:
        return
    now = at.view().now
    cells = [
        (inert.line(row.run_id), row.state.value, inert.line(row.agent, 40), clock.relative(row.started, now))
        for row in rows
    ]
    width, *widths = (max(map(len, column)) + 2 for column in zip(_HEAD[:4], *cells, strict=True))
    yield _row(_HEAD, ("dim",) * 5, width, widths)
    held_up = {row.parent: row.run_id for row in rows if row.requests}
    for cell, row in zip(cells, rows, strict=True):
        tones: tuple[Style, ...] = ("title", text.TONES.get(row.state, "plain"), "plain", "dim", "plain")
        yield _row((*cell, _note(row, held_up.get(row.run_id, ""))), tones, width, widths)


def _row(cells: Sequence[str], tones: Sequence[Style], width: int, widths: Sequence[int]) -> Line:
    padded = [cell.ljust(room) for cell, room in zip(cells[1:4], widths, strict=True)]
    spans = tuple(Span(cell, tone) for cell, tone in zip([*padded, *cells[4:]], tones[1:], strict=True))
    return Line(spans, Span(cells[0], tones[0]), 0, width)


def _note(row: RunRow, child: str) -> str:
    """What one wants to know next: for which run it works, and what waits, or why it ended so.

    Args:
        child: a run that works for this one and waits, if one does.
    """
    whose = f"for {inert.line(row.parent)}" if row.parent else ""
    behind = f"its run {inert.line(child)} waits" if child else ""
    return "; ".join(filter(None, (whose, _standing(row), behind)))


def _standing(row: RunRow) -> str:
    told = [f"{_asked(one)} [{inert.line(one.id)}]" for one in row.requests]
    if row.paused:
        why = f": {inert.line(row.paused.text, _SHORT)}" if row.paused.text else ""
        told.insert(0, f"by {inert.line(row.paused.by, _SHORT)}{why}")
    if told:
        return "; ".join(told)
    return text.reason(_CLASS.sub("", row.outcome.reason), _SHORT) if row.outcome else ""


def _asked(request: Request) -> str:
    says_it = request.kind in (RequestKind.STUCK, RequestKind.QUESTION, RequestKind.LIMIT)  # the reason, not the title
    about = "" if request.kind is RequestKind.QUESTION else inert.line(request.title or request.tool, _SHORT)
    why = text.reason(request.reason, _SHORT) if says_it else ""
    return f"{request.kind.value} {about}".rstrip() + (f": {why}" if why else "")


_CLASS = re.compile(r"^(?:\w+(?:Error|Exception): )+")


# --- inbox ------------------------------------------------------------------------------------------------------------


def inbox(
    context: typer.Context,
    agent: Annotated[str | None, typer.Option(help="Only requests of this agent's runs.")] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """What waits for a person: each call whole, why it is gated, and the commands that decide.

    \b
    perdure inbox
    perdure approve a1b2c3d4
    perdure reject a1b2c3d4 --reason 'wrong account, use 42'
    """
    at = desk(context)
    at.do(_inbox(at, agent, output))


async def _inbox(at: Desk, agent: str | None, output: Output) -> int:
    runs = await at.world.runs()
    states = (RunState.WAITING, RunState.PAUSED)  # a paused run may be decided on, too
    rows = [row for state in states for row in await runs.list(state=state, agent=agent, limit=1000)]
    traces = await asyncio.gather(*(_traced(runs, row.run_id) for row in rows))
    items = [(seen, asked) for seen in traces for asked in seen.waiting]
    items.sort(key=lambda item: item[1].request.since)
    if output is not Output.TEXT:
        at.screen.data([document.request(seen, asked) for seen, asked in items], output)
        return exits.DONE
    for number, (seen, asked) in enumerate(items):
        at.screen.show([*([BLANK] if number else []), *text.request(seen, asked, at.view())])
    if not items:
        at.screen.hint("nothing waits")
    return exits.DONE


async def _traced(runs: RunsPort, run_id: str) -> Trace:
    return trace(await runs.events(run_id))


# --- show -------------------------------------------------------------------------------------------------------------


def show(
    context: typer.Context,
    run: Annotated[
        str,
        typer.Argument(metavar="RUN_OR_REQUEST", help="A run or a request, or how its id begins.", callback=given),
    ],
    full: FullOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Where a run stands: its task, what waits, its latest turn, its answer. Or one request, whole.

    \b
    perdure show leave-desk-7f3a
    perdure show a1b2c3d4
    """
    at = desk(context)
    at.do(_show(at, run, full, output))


async def _show(at: Desk, name: str, full: bool, output: Output) -> int:
    runs = await at.world.runs()
    row, request_id = await _found(runs, name)
    seen = await _traced(runs, row.run_id)
    view = at.view(full=full)
    if request_id:
        items = [asked for asked in seen.waiting if asked.request.id == request_id]
        if output is not Output.TEXT:
            at.screen.data([document.request(seen, asked) for asked in items], output, one=bool(items))
        else:
            at.screen.show(line for asked in items for line in text.request(seen, asked, view))
        return exits.DONE
    if output is not Output.TEXT:
        waiting = [document.request(seen, asked) for asked in seen.waiting]
        outcome = document.plain(seen.outcome)  # a row's has no answer
        more = {"task": seen.task, "answer": document.answer(seen), "waiting": waiting, "outcome": outcome}
        at.screen.data([document.row(row) | more], output, one=True)
        return exits.DONE
    at.screen.show(text.summary(seen, view))
    at.screen.hint("all of it:", text.next_command("trace", row.run_id))
    if url := runs.web_url(row):
        at.screen.hint("Temporal's page of it:", link(url))
    if row.state is RunState.FAILED:
        at.screen.hint("to take it on once that is mended:", text.next_command("retry", row.run_id))
    if row.state not in FINAL_STATES and (there := await runs.workers()) is not None and not there:
        at.screen.hint("no worker is up: the run waits for one:", text.next_command("worker FILE"))
    return exits.DONE


async def _found(runs: RunsPort, name: str) -> tuple[RunRow, str]:
    """The run of that id; else the request of that id, and its run."""
    try:
        return await runs.find(name), ""
    except RunNotFoundError as missing:
        try:
            row, request = await runs.find_request(name)
        except RunNotFoundError:
            raise missing from None
        return row, request.id


# --- trace ------------------------------------------------------------------------------------------------------------


def trace_run(
    context: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run's id, or how it begins.", callback=given)
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A history saved as JSON, instead of a run.")] = None,
    save: Annotated[
        Path | None, typer.Option(help="Save the run's history here, as Temporal's own JSON, and show nothing.")
    ] = None,
    as_case: Annotated[
        bool, typer.Option("--cases", help="The run as a test case for the scripted model; of many: `perdure cases`.")
    ] = False,
    full: FullOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Every turn, thought, call, observation, attempt and decision of a run, from its history alone.

    \b
    perdure trace leave-desk-7f3a --full
    perdure trace leave-desk-7f3a --save history.json
    perdure trace --file history.json -o json
    perdure trace --file history.json --cases > case.yaml

    With --cases, -o jsonl gives the conversation, as a line to evaluate or train on.
    """
    at = desk(context)
    if bool(run) == bool(file):
        raise typer.BadParameter("give a RUN, or --file with a saved history")
    if file and save:
        raise typer.BadParameter("--save saves a RUN's history: there is nothing to fetch with --file")
    if save and as_case:
        raise typer.BadParameter("--save saves the history itself: redirect what --cases prints into a file")
    if as_case and output is Output.JSON:
        raise typer.BadParameter("--cases is a script, or with -o jsonl a conversation")
    if save:
        at.do(_saved(at, run or "", save))
    elif as_case:
        at.do(_case(at, run or "", file, output))
    else:
        at.do(_trace(at, run or "", file, full, output))


async def _saved(at: Desk, run: str, save: Path) -> int:
    row = await (await at.world.runs()).find(run)
    write_text(save, await at.world.history_json(row.run_id))
    at.screen.hint("saved:", text.next_command("trace --file", str(save)))
    return exits.DONE


async def _trace(at: Desk, run: str, file: Path | None, full: bool, output: Output) -> int:
    with _telling(run, file):
        seen = trace(await _events(at, run, file))
    if output is not Output.TEXT:
        at.screen.data([document.document(seen)], output, one=True)
    else:
        at.screen.show(text.traced(seen, at.view(full=full)))
        if seen.waiting and not file:
            at.screen.hint("to decide what waits:", text.next_command("show", seen.run_id))
    return exits.DONE


async def _case(at: Desk, run: str, file: Path | None, output: Output) -> int:
    with _telling(run, file):
        events = await _events(at, run, file)
        if output is Output.TEXT:
            at.screen.file(learnt.case_text(events))
        else:
            at.screen.data([learnt.conversation(events)], output)
    return exits.DONE


async def _events(at: Desk, run: str, file: Path | None) -> Sequence[Event]:
    if file:
        return await at.world.read_history(read_text(file))
    runs = await at.world.runs()
    return await runs.events((await runs.find(run)).run_id)


@contextlib.contextmanager
def _telling(run: str, file: Path | None) -> Iterator[None]:
    """What is no history of a run, or of one that never began to talk, is told as not found."""
    try:
        yield
    except learnt.NothingToLearnError as error:
        raise RunNotFoundError(f"{str(file or run)!r} makes no case: {error}") from None
    except ValueError as error:
        raise RunNotFoundError(f"{str(file or run)!r} is no history of a run: {error}") from None
