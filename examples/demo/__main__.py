"""`perdure demo`: sets the stage, has the play played, shows what is left of it, and leaves no process behind."""

import argparse
import asyncio
import contextlib
import errno
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from examples.demo import prompt
from examples.demo.kept import DemoHeldError, Folder, Play, demo_folder, new_play
from examples.demo.show import EndOfInputError, Show, WorkerGoneError
from examples.demo.stage import (
    OFFER,
    ModelGoneError,
    Worker,
    chosen_model,
    end_leftover,
    model_at_hand,
    to_own_server,
)
from examples.demo.voice import Voice
from perdure import Runs
from perdure.console.exits import INTERRUPTED, OF_STATE, SETUP
from perdure.console.screen import plain_encoding
from perdure.core import inert
from perdure.core.contracts import Outcome
from perdure.core.runs import RunNotFoundError, UnreachableError
from perdure.temporal.embedded import DevServer, DevServerError, Running, StateHeldError
from perdure.traces import clock, text
from perdure.traces.lines import BLANK
from perdure.traces.turns import trace

_TROUBLE: Final = (DemoHeldError, ModelGoneError, WorkerGoneError, DevServerError, StateHeldError, UnreachableError)


def main(given: Sequence[str] | None = None) -> int:
    """Play. Exit codes as for `perdure run`: 0 for an answer, 130 after Ctrl-C, 11 when the stage could not be set."""
    asked = _parser().parse_args(given)
    plain_encoding()
    voice = Voice()
    try:
        return asyncio.run(_interruptible(voice, asked))
    except (asyncio.CancelledError, KeyboardInterrupt, EndOfInputError):
        voice.say("Interrupted: server, worker and model are gone, and nothing is lost. The same command goes on.")
        return INTERRUPTED
    except _TROUBLE as trouble:
        voice.screen.error(str(trouble))
        return SETUP
    finally:
        voice.ready()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="perdure demo",
        description="The leave desk: a run that outlives its worker, asks before it acts, and acts once.",
        epilog=f"{OFFER} LEAVE_DESK_MODEL names another one: anthropic:NAME, openai:NAME or openai-chat:NAME.",
    )
    parser.add_argument("--yes", action="store_true", help="approve without asking")
    parser.add_argument("--anew", action="store_true", help="begin a new one, also if the last was interrupted")
    parser.add_argument("--scripted", action="store_true", help="use the scripted model, also if a key is set")
    parser.add_argument("--called", default="perdure", help=argparse.SUPPRESS)  # how perdure was started
    return parser


async def _interruptible(voice: Voice, asked: argparse.Namespace) -> int:
    """Ctrl-C, or being told to end, cancels the play once; what is cleaned up then is not interrupted again."""
    playing = asyncio.create_task(_perform(voice, asked))
    told: list[int] = []

    def end(number: int) -> None:
        if not told:
            told.append(number)
            playing.cancel()
            voice.wait_for("ending worker and server")  # last: the terminal may be gone

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, end, each)
    try:
        return await playing
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


async def _perform(voice: Voice, asked: argparse.Namespace) -> int:
    with demo_folder() as folder:
        voice.screen.program = f"PERDURE_STATE={shlex.quote(str(folder.path))} {asked.called}"
        left = folder.unfinished()
        going_on = left is not None and not asked.anew
        play = left if left and going_on else _begin(folder, chosen_model(os.environ, scripted=asked.scripted))
        end_leftover(left.worker if left else 0)
        with model_at_hand(play.model) as about_model:
            voice.wait_for("Temporal's server is starting")
            async with DevServer(folder.path) as server:
                voice.ready()
                to_own_server(server)
                async with Worker(folder) as worker:
                    runs = await Runs.connect()
                    if left and not going_on:
                        await _give_up(runs, left)
                    show = Show(voice, folder, runs, play, worker, prompt.at_terminal() and not asked.yes)
                    _introduce(show, server, about_model, going_on=going_on)
                    outcome = await show.run()
                    await _conclude(show, outcome)
                return OF_STATE[outcome.state]


async def _give_up(runs: Runs, left: Play) -> None:
    """A run that nobody goes on with is not left waiting."""
    with contextlib.suppress(RunNotFoundError):
        await runs.cancel(left.run_id, reason="a new demo was begun")


def _begin(folder: Folder, model: str) -> Play:
    folder.clear()
    return folder.keep(new_play(model))


def _introduce(show: Show, server: Running, about_model: str, *, going_on: bool) -> None:
    voice, play = show.voice, show.play
    if going_on:
        began = clock.relative(play.began, datetime.now(UTC))
        voice.say(f"The leave desk, going on: this demo began {began} and was interrupted. (A new one: --anew)")
    else:
        voice.say(
            "The leave desk: a run that outlives its worker, asks before it acts, and acts once.",
            "In half a minute or so: the model looks things up, its worker is killed in mid-call, the run goes on, and "
            "somebody has to approve.",
        )
    voice.fact("server", f"Temporal's dev server on {server.address}, its SQLite file in {server.folder}")
    voice.fact("worker", f"process {show.worker.pid}, its log in {show.folder.worker_log.name} there")
    voice.fact("model", about_model)
    voice.fact("database", f"{show.folder.database.name} there: employees, leave, policy, bookings")
    voice.lines([BLANK])


async def _conclude(show: Show, outcome: Outcome) -> None:
    voice, run_id = show.voice, show.play.run_id
    seen = trace(await show.runs.events(run_id))
    if not show.play.killed:
        voice.say("The worker was not killed this time: leave_records had ended, or was never asked for.")
    voice.say("So it happened. This is the trace, from the history that Temporal keeps and nothing else:")
    voice.lines(text.traced(seen, text.View(now=datetime.now(UTC))))
    bookings = show.folder.bookings()
    voice.say(f"Bookings in the HR database: {len(bookings)}")
    for booking in bookings:
        voice.fact("", inert.line(booking))
    voice.say("Temporal's own page of the run:")
    voice.link(f"{show.runs.web_url(await show.runs.find(run_id))}")
    show.folder.finish()
    if show.asks:
        prompt.forget_typed()
        voice.say("It is there until you press Enter: that ends the demo, its server and its worker.")
        with contextlib.suppress(asyncio.CancelledError):  # Ctrl-C ends it as well
            await prompt.typed_line()


def _code() -> int:
    try:
        code = main()
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        return INTERRUPTED  # who read us is gone, a pipe or a terminal; by now everything else is, too
    return code


if __name__ == "__main__":
    code = _code()
    os._exit(code)  # an interpreter that used temporalio may abort while it exits, after all work is done
