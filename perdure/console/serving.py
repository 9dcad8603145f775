"""Verbs that serve: worker, dev, model."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from watchfiles import PythonFilter, awatch

from perdure.console import exits
from perdure.console.desk import Desk, desk
from perdure.console.port import RunsPort, UnreachableError
from perdure.core import inert
from perdure.core.contracts import RunState
from perdure.providers import rates
from perdure.tools.discovery import VARIABLE, AgentLoadError, separated
from perdure.traces import text
from perdure.traces.lines import Line, Span

FilesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILES]", help=f"Files or modules that declare agents (else those in ${VARIABLE})."),
]
RateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rate",
        metavar="VENDOR=CALLS",
        help="How often a vendor is asked by all workers together: anthropic=5 (a second), anthropic=300/min. "
        f"Repeatable; goes before ${rates.VARIABLE}.",
    ),
]
_LOOK_AGAIN = 1.5  # seconds between looks at what waits
_BREATH = 2.0  # seconds before a worker that ended by itself is followed by another
_GRACE = 35.0  # seconds for a worker to let its tools finish


def add_to(app: typer.Typer) -> None:
    for verb in (dev, worker):
        app.command(rich_help_panel="Serve")(verb)
    everything = {"ignore_unknown_options": True, "help_option_names": []}
    app.command(rich_help_panel="Serve", context_settings=everything)(model)


def worker(context: typer.Context, files: FilesArgument = None, rate: RateOption = None) -> None:
    """Serve agents until SIGTERM or Ctrl-C; running tools are let finish. Run as many as you like.

    \b
    perdure worker leave_desk.py billing.agents
    perdure worker leave_desk.py --rate anthropic=5
    """
    at = desk(context)
    _state(rate or [])
    at.do(_work(at, files or []))


def _state(stated: Sequence[str]) -> None:
    """Put rates where the worker reads them; the last one for a vendor counts."""
    try:
        rates.rates_of(",".join(stated))
    except rates.RateError as error:
        raise typer.BadParameter(str(error)) from None
    if stated:
        os.environ[rates.VARIABLE] = ",".join((os.environ.get(rates.VARIABLE, ""), *stated))


async def _work(at: Desk, files: Sequence[str]) -> int:
    if not await at.world.work(files):
        return exits.DONE
    try:  # it has said what is wrong; which code that means is found by looking again
        rates.rates_from_env()
        at.world.agents(files)
        await at.world.runs()
    except UnreachableError:
        return exits.UNREACHABLE
    except (AgentLoadError, rates.RateError):
        pass
    return exits.SETUP


def model(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="SCRIPT [OPTIONS]")] = None,
) -> None:
    """Serve a scripted model over HTTP, as strict as the vendors. `perdure model --help` documents scripts."""
    from perdure.testing.__main__ import main  # a server: nothing that other verbs should load

    raise typer.Exit(main(words or [], prog="perdure model"))


# --- dev --------------------------------------------------------------------------------------------------------------


def dev(context: typer.Context, files: FilesArgument = None) -> None:
    """A Temporal server and a worker in one terminal; what you save is served at once.

    A file that does not load any more is told, and the worker goes on with what it has. Runs outlive all of it: stop
    and start as you like. Ctrl-C is how it is meant to end: exit code 0.

    \b
    perdure dev leave_desk.py         then, in another terminal:
    perdure run leave-desk 'Book me 3 days from 14 December'
    """
    at = desk(context)
    at.do(_dev(at, files or []))


async def _dev(at: Desk, files: Sequence[str]) -> int:
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    say = at.screen.hint
    async with at.world.server(say) as page:
        say(page)
        bench = Bench(at, files)
        tasks = [asyncio.create_task(work) for work in (bench.serve(), _announce(at), stopped.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            say("stopping: tools that run are let finish; runs go on when you start again")
            await bench.close()
    return exits.DONE


class Bench:
    """One worker in a process of its own, replaced when the files change, if they still load."""

    def __init__(self, at: Desk, files: Sequence[str]) -> None:
        self._at, self._files = at, files
        self.worker: asyncio.subprocess.Process | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._warned = ""

    async def serve(self) -> None:
        """To be cancelled. What is saved while files are being loaded counts, too."""
        saved = awatch(*watched(self._files), watch_filter=PythonFilter())
        while True:
            change = asyncio.ensure_future(anext(saved))
            try:
                await self._replace()
                await self._until(change)
            finally:
                change.cancel()
            self._at.screen.hint("changed: loading anew")

    async def _until(self, change: "asyncio.Future[Any]") -> None:
        """Wait for a change; meanwhile, a worker that ends by itself is started anew."""
        while True:
            died = asyncio.ensure_future(self.worker.wait() if self.worker else asyncio.Event().wait())
            try:
                await asyncio.wait((change, died), return_when=asyncio.FIRST_COMPLETED)
            finally:
                died.cancel()
            if change.done():
                change.result()
                return
            code = self.worker.returncode if self.worker else None
            self._at.screen.hint(f"the worker ended by itself (code {code}); another one starts in {_BREATH:.0f} s")
            await asyncio.sleep(_BREATH)
            self.worker = await self._spawn("worker", *self._files)

    async def _replace(self) -> None:
        """The new one starts before the old one is told to go, so somebody is always there."""
        if not await self._loads():
            kept = "the worker goes on with what it has" if self.worker else "no worker runs"
            self._at.screen.hint(f"{kept}; waiting for a change")
            return
        old, self.worker = self.worker, await self._spawn("worker", *self._files)
        if old is None:
            commands = (text.next_command(verb) for verb in ("run AGENT 'TASK'", "inbox"))
            self._at.screen.hint("in another terminal (here Ctrl-C ends it):", *commands)
        else:
            task = asyncio.create_task(_end(old))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _loads(self) -> bool:
        """Whether the files load: tried in a process of its own, which then tells what is wrong or what there is.

        Warnings that were told before are not told again.
        """
        trial = await self._spawn("agents", "--keys", *self._files, stderr=asyncio.subprocess.PIPE)
        _, told = await trial.communicate()
        warned = told.decode(errors="replace").rstrip("\n")
        if warned and (trial.returncode != exits.DONE or warned != self._warned):
            self._at.screen.hint(*map(inert.line, warned.split("\n")))
        if trial.returncode == exits.DONE:
            self._warned = warned
        return trial.returncode == exits.DONE

    async def _spawn(self, *words: str, stderr: int | None = None) -> asyncio.subprocess.Process:
        """In a session of its own: Ctrl-C is for us, and we tell it."""
        return await asyncio.create_subprocess_exec(
            *self._at.world.command(*words), stdin=asyncio.subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )

    async def close(self) -> None:
        if self.worker:
            await _end(self.worker)
        await asyncio.gather(*self._leaving, return_exceptions=True)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _GRACE)
    except TimeoutError:
        process.kill()
        await process.wait()


def watched(files: Sequence[str]) -> list[Path]:
    """The folders to watch: those of the named files; for modules and entry points, where one works."""
    specs = files or separated(os.environ.get(VARIABLE, ""))
    paths = [Path(spec.partition(":")[0]).expanduser() for spec in specs]
    return sorted({path.resolve().parent if path.is_file() else Path.cwd() for path in paths}) or [Path.cwd()]


async def _announce(at: Desk) -> None:
    """Say what begins to wait. To be cancelled."""
    told: set[str] = set()
    runs: RunsPort | None = None
    while True:
        with contextlib.suppress(UnreachableError):
            runs = runs or await at.world.runs()
            for row in await runs.list(state=RunState.WAITING, limit=100):
                for request in row.requests:
                    if request.id not in told:
                        told.add(request.id)
                        about = inert.line(request.tool) or "the model"
                        words = f"{about} in {inert.line(row.run_id)}:"
                        at.screen.hint(Line((Span(words),), Span("waits", "ask"), 0, 7))
                        at.screen.hint(text.next_command("show", request.id))
        await asyncio.sleep(_LOOK_AGAIN)
