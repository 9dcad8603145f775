"""`perdure ...`, and `python client.py ...`: the verbs, with the real world behind them.

The only module of the console that knows what stands behind its port. Temporal is imported when a verb needs it, so
that `--help` and `agents` answer at once.
"""

import asyncio
import inspect
import os
import shlex
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

import perdure
from perdure import _home, store
from perdure.console import checking, deciding, demo, exits, learning, reading, running, screen, serving, steering
from perdure.console.desk import Desk, Finding, SetupError, World, operator
from perdure.core import inert
from perdure.tools import discovery
from perdure.tools.agents import Agent
from perdure.traces.events import Event

if TYPE_CHECKING:
    from perdure.temporal.runs import Runs


class _Verb(TyperCommand):
    """A flag takes no value, and its help says none."""

    def get_params(self, ctx: Any) -> Any:
        return _flags_without_value(super().get_params(ctx))


class _Verbs(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        return _flags_without_value(super().get_params(ctx))


def _flags_without_value(params: list[Any]) -> list[Any]:
    for param in params:
        if isinstance(param, TyperOption) and param.is_flag:
            param.metavar = ""
    return params


def app(desk: Callable[[], Desk]) -> typer.Typer:
    """The verbs, over a desk that is made when one is called."""
    verbs = typer.Typer(
        name="perdure",
        cls=_Verbs,
        help="Durable ReAct agents on Temporal: runs that outlive their process, side effects that people approve.",
        epilog=exits.TOLD,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @verbs.callback()
    def begin(
        context: typer.Context,
        version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True, callback=_version),
    ) -> None:
        context.obj = desk()

    for group in (running, reading, deciding, steering, learning, serving, checking, demo):
        group.add_to(verbs)
    for registered in verbs.registered_commands:
        registered.cls = _Verb
        registered.help = _unwrapped(inspect.getdoc(registered.callback) or "")
    return verbs


def _unwrapped(told: str) -> str:
    """A docstring whose paragraphs a terminal may wrap; those marked with \\b keep their lines."""
    paragraphs = told.split("\n\n")
    return "\n\n".join(each if each.startswith("\b") else each.replace("\n", " ") for each in paragraphs)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"perdure {perdure.__version__}\n")
        raise typer.Exit


def main() -> None:
    """Run the command line. Does not return: an interpreter that used Temporal may abort while it exits."""
    screen.plain_encoding()
    code = _code()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # who read us has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    os._exit(code)


def program() -> str:
    """How perdure was started, as a shell takes it: commands that we suggest are to work when they are copied."""
    started = sys.argv[0] if sys.argv else ""
    if os.path.basename(started) == "client.py" and not os.path.isabs(started):
        return f"python {shlex.quote(started)}"
    found = shutil.which("perdure")
    if os.path.basename(started) != "perdure" or (found and os.path.realpath(found) == os.path.realpath(started)):
        return "perdure"
    near = os.path.relpath(started)
    if near.startswith(os.pardir):
        return shlex.quote(started)
    return shlex.quote(near if os.sep in near else os.path.join(os.curdir, near))


def _code() -> int:
    try:
        app(lambda: Desk(Real(), screen.Screen(program=program())))()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else exits.BUG
    except (KeyboardInterrupt, asyncio.CancelledError):
        return exits.INTERRUPTED
    except BrokenPipeError:
        return exits.DONE
    except Exception:
        if os.environ.get("PERDURE_DEBUG"):
            raise
        return _bug()
    return exits.DONE


def _bug() -> int:
    kind, error, _ = sys.exc_info()
    name = kind.__name__ if kind else "Error"
    sys.stderr.write(
        f"perdure: a bug of perdure's own: {name}: {inert.line(str(error))}\n"
        "Runs are not harmed. PERDURE_DEBUG=1 shows where; please report it.\n"
    )
    return exits.BUG


class Real(World):
    """Temporal, an author's agents, and processes of our own."""

    async def runs(self) -> "Runs":
        """Under the operator's own name, so that starts and cancels say whose they are (unverified)."""
        from perdure.temporal.connect import connect
        from perdure.temporal.kept import store_for_reading
        from perdure.temporal.runs import Runs

        return Runs(await connect(identity=f"{operator()}@{socket.gethostname()}"), store=store_for_reading())

    async def history_json(self, run_id: str) -> str:
        return await (await self.runs()).history_json(run_id)

    async def read_history(self, text: str) -> Sequence[Event]:
        from perdure.temporal.saved import saved

        return await saved(text)

    def agents(self, specs: Sequence[str]) -> Mapping[str, Agent]:
        return discovery.load(specs)

    @asynccontextmanager
    async def server(self, told: Callable[[str], None]) -> AsyncIterator[str]:
        from perdure.temporal.connect import address
        from perdure.temporal.embedded import STORE_FOLDER, DevServer, DevServerError

        if os.environ.get("TEMPORAL_ADDRESS") or os.environ.get("TEMPORAL_PROFILE"):
            yield f"Temporal at {address()}, as TEMPORAL_ADDRESS or TEMPORAL_PROFILE says"
            return
        server = DevServer(on_wait=lambda seconds: told(f"Temporal is starting ({seconds:.0f} s)"))
        try:
            found = await server.start()
        except (DevServerError, OSError) as error:
            raise SetupError(f"the embedded Temporal server does not start: {error}") from None
        os.environ[store.VARIABLE] = os.environ.get(store.VARIABLE) or str(found.folder / STORE_FOLDER)  # its workers'
        try:
            yield f"Temporal on {found.address}, its page on {found.ui_url}; state in {found.folder}"
        finally:
            await server.stop()

    async def survey(self) -> AsyncIterator[Finding]:
        from perdure.temporal.survey import survey

        async for found in survey():
            yield Finding(found.check, found.ok, found.found, found.next)

    def store(self) -> store.Store | None:
        from perdure.temporal.connect import client_store

        return client_store()

    async def work(self, specs: Sequence[str]) -> int:
        code: int = await _home.load("worker").main(specs)
        return code

    def command(self, *words: str) -> Sequence[str]:
        return _home.command("client", *words)
