"""Verbs that start and follow runs: run, start, watch."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from perdure.console import exits
from perdure.console.desk import Desk, IdTakenError, SetupError, desk, read_file
from perdure.console.naming import given
from perdure.console.port import AgentNotServedError, RunsPort, Started, UnreachableError
from perdure.console.prompting import Prompter
from perdure.console.reading import OutputOption, RunArgument
from perdure.console.screen import Output, link
from perdure.core import inert
from perdure.core.contracts import FileRef
from perdure.core.files import listed
from perdure.core.runs import StartRefusedError, check_start
from perdure.files import FileError, check_together, checked
from perdure.traces import document, text
from perdure.traces.events import Event, RunEnded, RunStarted
from perdure.traces.narrate import Narration
from perdure.traces.turns import trace

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help="An agent's name: see perdure agents.")]
TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="What it is to do, or - to read it from stdin.")]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="The run's id: an id of your business. A second start with it returns the first run.",
        callback=given,
    ),
]
FileOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--file", help="A file that the task is about: PDF, PNG, JPEG, GIF, WebP or text. Repeat it for several."
    ),
]
ToolsOption = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Of the agent's tools, those that this run may have; '' for none. Default: all."),
]
TimeoutOption = Annotated[float | None, typer.Option(help="Seconds to follow it; the run goes on.")]
PromptOption = Annotated[bool, typer.Option("--prompt/--no-prompt", help="Ask at a terminal when something waits.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Approve every call, in your name; the rest still waits.")]


def add_to(app: typer.Typer) -> None:
    for verb in (run, start, watch):
        app.command(rich_help_panel="Run")(verb)


def run(
    context: typer.Context,
    agent: AgentArgument,
    task: TaskArgument,
    run_id: IdOption = None,
    tools: ToolsOption = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end, or only start it.")] = True,
    timeout: TimeoutOption = None,
    prompt: PromptOption = True,
    yes: YesOption = False,
    output: OutputOption = Output.TEXT,
    file: FileOption = None,
) -> None:
    """Start a run and follow it: progress on stderr, the answer on stdout. The exit code tells how it ended.

    \b
    perdure run leave-desk 'Book me 3 days from 14 December'
    perdure run billing 'Pay this' --file invoice-17.pdf --id invoice-17 --timeout 60
    perdure run billing 'Is invoice 17 right?' --tools invoice,order
    perdure run leave-desk - < task.txt -o json
    """
    at = desk(context)
    wanted = Wanted(agent, _read(task), run_id, file or (), _named(tools))
    at.do(_run(at, wanted, wait, timeout, prompt, yes, output))


def start(
    context: typer.Context,
    agent: AgentArgument,
    task: TaskArgument,
    run_id: IdOption = None,
    tools: ToolsOption = None,
    output: OutputOption = Output.TEXT,
    file: FileOption = None,
) -> None:
    """Start a run and return at once, with its id on stdout.

    \b
    perdure start billing 'Pay invoice 17' --id invoice-17
    """
    at = desk(context)
    at.do(_start(at, Wanted(agent, _read(task), run_id, file or (), _named(tools)), output))


def watch(
    context: typer.Context,
    run: RunArgument,
    timeout: TimeoutOption = None,
    prompt: PromptOption = True,
    output: OutputOption = Output.TEXT,
) -> None:
    """Tell a run from its beginning, and on as it happens, to its end.

    \b
    perdure watch leave-desk-7f3a
    perdure watch leave-desk-7f3a -o jsonl     every event as a line
    """
    at = desk(context)
    at.do(_watch(at, run, timeout, prompt, output))


def _read(task: str) -> str:
    return sys.stdin.read() if task == "-" else task


def _named(tools: str | None) -> tuple[str, ...] | None:
    return None if tools is None else tuple(name.strip() for name in tools.split(",") if name.strip())


@dataclass(frozen=True)
class Wanted:
    """A run as it was asked for on the command line."""

    agent: str
    task: str
    run_id: str | None
    paths: Sequence[Path]
    tools: tuple[str, ...] | None


async def _started(at: Desk, runs: RunsPort, wanted: Wanted) -> Started:
    try:
        check_start(wanted.agent, wanted.task, wanted.run_id, wanted.tools)
        files = [read_file(path) for path in wanted.paths]
        refs = tuple(map(checked, files))
        check_together(refs)
    except (StartRefusedError, FileError) as error:
        raise typer.BadParameter(inert.block(str(error))) from None
    served = await runs.served()
    if served is not None and wanted.agent not in served:
        raise AgentNotServedError(wanted.agent, served)
    try:
        started = await runs.start(wanted.agent, wanted.task, run_id=wanted.run_id, files=files, tools=wanted.tools)
    except FileError as error:  # there is no store, and so a run takes less
        raise SetupError(str(error)) from None
    if not started.new:
        await _refuse_another(runs, started.run_id, wanted, refs)
        at.screen.hint(f"run {inert.line(started.run_id)} exists already, and this is it; nothing was started")
    await tell_unserved(at, runs)
    return started


async def _refuse_another(runs: RunsPort, run_id: str, wanted: Wanted, files: Sequence[FileRef]) -> None:
    """A run's id is an id of somebody's business: one that is taken by other business is a mistake.

    Raises:
        IdTakenError: the run of this id is another agent's, or has another task or other files.
    """
    first = next(event for event in await runs.events(run_id) if isinstance(event, RunStarted)).start
    other = [f"agent {first.agent!r} (here: {wanted.agent!r})"] if first.agent != wanted.agent else []
    if first.task != wanted.task:
        other.append(f"the task {first.task[:200]!r}")
    if [file.sha256 for file in first.files] != [file.sha256 for file in files]:
        other.append(f"the files {', '.join(map(listed, first.files))}" if first.files else "no files")
    if first.tools != wanted.tools:
        named = "all that its agent has" if first.tools is None else ", ".join(first.tools) or "none"
        other.append(f"other tools ({named})")
    if other:
        raise IdTakenError(
            f"run {run_id!r} exists already, and has {' and '.join(other)}. Nothing was started: give another --id, or "
            f"see `perdure show {text.quoted(run_id)}`"
        )


async def tell_unserved(at: Desk, runs: RunsPort) -> None:
    """Say so when no worker is up: what was started stands still until one is."""
    if (there := await runs.workers()) is not None and not there:
        at.screen.hint("no worker is up: the run waits for one:", text.next_command("worker FILE"))


async def _runs(at: Desk) -> RunsPort:
    try:
        return await at.world.runs()
    except UnreachableError as error:
        if "perdure dev" in str(error):
            raise
        raise UnreachableError(f"{error}\nA server and a worker in one terminal: `perdure dev FILE`") from None


async def _start(at: Desk, wanted: Wanted, output: Output) -> int:
    started = await _started(at, await _runs(at), wanted)
    _tell_started(at, started, output)
    return exits.DONE


def _tell_started(at: Desk, started: Started, output: Output) -> None:
    if output is Output.TEXT:
        at.screen.out.file.write(inert.line(started.run_id) + "\n")
        at.screen.hint("follow it:", text.next_command("watch", started.run_id))
    else:
        at.screen.data([document.plain(started)], output, one=True)


async def _run(
    at: Desk,
    wanted: Wanted,
    wait: bool,
    timeout: float | None,
    prompt: bool,
    yes: bool,
    output: Output,
) -> int:
    runs = await _runs(at)
    started = await _started(at, runs, wanted)
    row = await runs.find(started.run_id)
    if not wait:
        _tell_started(at, started, output)
        return exits.of(row.state)
    if url := runs.web_url(row):
        at.screen.hint("Temporal's page of it:", link(url))
    follower = Follower(at, runs, started.run_id, output, approve_all=yes, prompt=prompt, aside=True)
    return await follower.follow(timeout)


async def _watch(at: Desk, run: str, timeout: float | None, prompt: bool, output: Output) -> int:
    runs = await at.world.runs()
    row = await runs.find(run)
    return await Follower(at, runs, row.run_id, output, approve_all=False, prompt=prompt, aside=False).follow(timeout)


class Follower:
    """Tells a run to its end. `aside`: progress is no data and goes to stderr, only the answer to stdout."""

    def __init__(
        self, at: Desk, runs: RunsPort, run_id: str, output: Output, *, approve_all: bool, prompt: bool, aside: bool
    ) -> None:
        self._at, self._runs, self._run_id, self._output, self._aside = at, runs, run_id, output, aside
        self._narration = Narration(at.zone)
        terminal = sys.stdin.isatty() and at.screen.err.is_terminal
        self._prompter = Prompter(
            at, runs, run_id, self._narration, approve_all=approve_all, prompt=prompt and terminal
        )

    async def follow(self, timeout: float | None) -> int:
        try:
            async with asyncio.timeout(timeout):
                async for event in self._runs.watch(self._run_id):
                    self._tell(event)
                    self._prompter.look()
        except TimeoutError:
            self._at.screen.hint("not ended yet; it goes on:", text.next_command("watch", self._run_id))
        except asyncio.CancelledError:  # Ctrl-C
            self._at.screen.hint("", "the run goes on without us:", text.next_command("watch", self._run_id))
            raise
        finally:
            await self._prompter.close()
        return self._end()

    def _tell(self, event: Event) -> None:
        lines = self._narration.feed(event)
        if self._output is Output.JSONL and not self._aside:
            self._at.screen.data([{"event": type(event).__name__, **document.plain(event)}], self._output)
        elif not self._aside and self._output is Output.TEXT:
            self._at.screen.show(lines)
        elif not isinstance(event, RunEnded):
            self._at.screen.hint(*lines)

    def _end(self) -> int:
        seen = trace(self._narration.told)
        if self._output is Output.JSON or (self._output is Output.JSONL and self._aside):
            self._at.screen.data([document.document(seen)], self._output, one=True)
        elif self._output is Output.TEXT and self._aside:
            self._at.screen.show(text.ending(seen, self._at.view(full=True)))
        return exits.of(seen.state)
