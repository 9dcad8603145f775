"""Verbs that learn from many runs: stats, cases."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TypeVar
from urllib.parse import quote

import typer

from perdure.console import exits, naming
from perdure.console.desk import Desk, SetupError, desk, read_text, write_text
from perdure.console.port import RunNotFoundError, RunRow, RunsPort
from perdure.console.reading import FullOption, OutputOption
from perdure.console.screen import Output
from perdure.core import inert
from perdure.core.contracts import RunState
from perdure.traces import cases as learnt
from perdure.traces import document, expectations, stats_text
from perdure.traces.events import Event
from perdure.traces.expectations import Expectation, ExpectationsError
from perdure.traces.lines import BLANK
from perdure.traces.stats import stats as summed
from perdure.traces.turns import trace

T = TypeVar("T")
_AT_ONCE: Final = 8  # histories read at a time: they are large, and the server has runs to serve

SinceOption = Annotated[
    str | None, typer.Option(help="Only runs started since: 90min, 12h, 7d, 2w ago, or a date like 2026-11-01.")
]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many runs: those started last.")]


class Form(StrEnum):
    SCRIPT = "script"
    JSONL = "jsonl"


def add_to(app: typer.Typer) -> None:
    for verb in (stats, cases):
        app.command(rich_help_panel="Learn")(verb)


@dataclass(frozen=True)
class _Wanted:
    """Which runs: the newest `limit` of them."""

    agent: str | None
    since: datetime | None
    limit: int
    state: RunState | None = None

    async def rows(self, runs: RunsPort) -> Sequence[RunRow]:
        found = await runs.list(agent=self.agent, state=self.state, limit=self.limit)
        return [row for row in found if self.since is None or row.started >= self.since]


async def _read(at: Desk, runs: RunsPort, rows: Sequence[RunRow], of: Callable[[Sequence[Event]], T]) -> list[T]:
    """What is made of each run's events. Those that are gone, or hold nothing of the kind, are told of and left out."""
    gate, missed = asyncio.Semaphore(_AT_ONCE), list[str]()

    async def one(row: RunRow, done: Callable[[], None]) -> list[T]:
        async with gate:
            try:
                return [of(await runs.events(row.run_id))]
            except (RunNotFoundError, ValueError) as error:
                missed.append(inert.line(f"left out {row.run_id!r}: {error}"))
                return []
            finally:
                done()

    with at.screen.progress("reading runs", len(rows)) as done:
        found = await asyncio.gather(*(one(row, done) for row in rows))
    at.screen.hint(*missed)
    return [each for some in found for each in some]


# --- stats ------------------------------------------------------------------------------------------------------------


def stats(
    context: typer.Context,
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Only this agent's runs.")] = None,
    since: SinceOption = None,
    limit: LimitOption = 100,
    expect: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Which tools which tasks need, to be held against the runs.")
    ] = None,
    full: FullOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """What runs took, at the median and the 95th percentile, how tools fared, and a budget that fits.

    \b
    perdure stats refunds --since 7d
    perdure stats refunds --expect refunds.expect.yaml
    perdure stats -n 1000 -o json
    """
    at = desk(context)
    at.do(_stats(at, _Wanted(agent, naming.since(since), limit), expect, full, output))


async def _stats(at: Desk, wanted: _Wanted, expect: Path | None, full: bool, output: Output) -> int:
    expected = _expectations(expect)
    runs = await at.world.runs()
    rows = await wanted.rows(runs)
    found = summed(await _read(at, runs, rows, trace), expected)
    if output is not Output.TEXT:
        at.screen.data([document.stats(each) for each in found], output)
        return exits.DONE
    for number, each in enumerate(found):
        at.screen.show([*([BLANK] if number else []), *stats_text.shown(each, at.view(full=full))])
    if not found:
        at.screen.hint("no runs match")
    elif len(rows) == wanted.limit:
        at.screen.hint(f"the newest {wanted.limit:,} runs; more with -n")
    return exits.DONE


def _expectations(path: Path | None) -> Sequence[Expectation]:
    if path is None:
        return ()
    try:
        return expectations.read(read_text(path, "a file of expectations"))
    except ExpectationsError as error:
        raise SetupError(f"{str(path)!r} holds no expectations: {error}") from None


# --- cases ------------------------------------------------------------------------------------------------------------


def cases(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="RUNS", help="Runs, by their ids.")] = None,
    agent: Annotated[str | None, typer.Option(help="Instead: runs of this agent.")] = None,
    state: Annotated[
        RunState | None, typer.Option(metavar="STATE", help="Of these, only runs that stand so: see `list`.")
    ] = None,
    since: SinceOption = None,
    limit: LimitOption = 100,
    form: Annotated[
        Form, typer.Option("--output", "-o", help="A test for the scripted model, or a line to train on.")
    ] = Form.SCRIPT,
    save: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A script for each run, in this folder.")] = None,
) -> None:
    """Runs as test cases for the scripted model, or (-o jsonl) as conversations to evaluate or fine-tune on.

    \b
    perdure cases order-17 > order-17.yaml
    perdure cases --agent refunds --since 7d --save cases
    perdure cases --agent refunds --state answered -n 1000 -o jsonl > refunds.jsonl
    """
    at = desk(context)
    if bool(names) == bool(agent):
        raise typer.BadParameter("give RUNS, or --agent")
    if save and form is Form.JSONL:
        raise typer.BadParameter("--save is for scripts: of -o jsonl, redirect stdout into a file")
    for name in names or []:
        naming.given(name)
    at.do(_cases(at, names or [], _Wanted(agent, naming.since(since), limit, state), form, save))


async def _cases(at: Desk, names: Sequence[str], wanted: _Wanted, form: Form, save: Path | None) -> int:
    runs = await at.world.runs()
    rows = [await runs.find(name) for name in names] or await wanted.rows(runs)
    if not rows:
        at.screen.hint("no runs match")
    elif form is Form.JSONL:
        at.screen.data(await _read(at, runs, rows, learnt.conversation), Output.JSONL)
    elif save is not None:
        found = await _read(at, runs, rows, lambda events: (trace(events).run_id, learnt.case_text(events)))
        _save(at, save, found)
    elif len(rows) > 1:
        raise typer.BadParameter("a script is of one run: for several, give --save FOLDER, or -o jsonl")
    else:
        for text in await _read(at, runs, rows, learnt.case_text):
            at.screen.file(text)
    return exits.DONE


def _save(at: Desk, folder: Path, scripts: Sequence[tuple[str, str]]) -> None:
    """One file for each run, named after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunNotFoundError(f"cannot make the folder {str(folder)!r}: {error.strerror}") from None
    for run_id, text in scripts:
        write_text(folder / f"{quote(run_id, safe='')}.yaml", text)
    at.screen.hint(f"saved {len(scripts):,} in {str(folder)!r}")
