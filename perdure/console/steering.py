"""Verbs that steer a run which did not ask: say, pause, resume, retry."""

from typing import Annotated
from uuid import uuid4

import typer

from perdure.console import exits
from perdure.console.deciding import ByOption, WhyOption
from perdure.console.desk import Desk, desk
from perdure.console.naming import at_most
from perdure.console.port import SteeringRefusedError
from perdure.console.reading import OutputOption, RunArgument
from perdure.console.running import tell_unserved
from perdure.console.screen import Output
from perdure.core import inert
from perdure.core.contracts import FINAL_STATES, MOST_SAID, Steer, Steered, Steering
from perdure.traces import clock, document, text
from perdure.traces.lines import Line, Span

WordsArgument = Annotated[
    str, typer.Argument(metavar="TEXT", help="What the model is to hear.", callback=at_most(MOST_SAID))
]
IdOption = Annotated[
    str | None, typer.Option("--id", help="An id of yours for this word: the same one twice is heard once.")
]


def add_to(app: typer.Typer) -> None:
    for verb in (say, pause, resume, retry):
        app.command(rich_help_panel="Decide")(verb)


def say(
    context: typer.Context,
    run: RunArgument,
    words: WordsArgument,
    word_id: IdOption = None,
    by: ByOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Tell a running run something. The model hears it before its next turn, with your name.

    \b
    perdure say order-17 'The customer called: she wants the blue one'

    What runs already goes on; pause the run first if nothing more may start. A run whose model has not answered yet
    does not end before it has heard you, unless its budget is spent.
    """
    at = desk(context)
    at.do(_steer(at, run, Steer.SAY, words, word_id, by, output))


def pause(
    context: typer.Context,
    run: RunArgument,
    reason: WhyOption = "",
    by: ByOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Let a run start nothing more: what is under way ends, then it stands still until it is resumed.

    \b
    perdure pause order-17 --reason 'the shop is closed'

    What waits can be decided meanwhile; what you approve runs once it is resumed. It can be spoken to, and cancelled.
    """
    at = desk(context)
    at.do(_steer(at, run, Steer.PAUSE, reason, None, by, output))


def resume(
    context: typer.Context,
    run: RunArgument,
    reason: WhyOption = "",
    by: ByOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Let a paused run go on.

    \b
    perdure resume order-17
    """
    at = desk(context)
    at.do(_steer(at, run, Steer.RESUME, reason, None, by, output))


def retry(
    context: typer.Context,
    run: RunArgument,
    reason: WhyOption = "",
    by: ByOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Take a failed run on from where it failed, under the same id.

    \b
    perdure retry order-17 --reason 'the key is renewed'

    What was observed stays observed. What was under way is handed to a worker again, idempotent calls with the same
    key; you are asked about those that may be done once, and if one would be sent anew, nothing is retried. What waited
    is asked anew.
    """
    at = desk(context)
    at.do(_retry(at, run, reason, by or at.operator, output))


async def _retry(at: Desk, run: str, reason: str, by: str, output: Output) -> int:
    runs = await at.world.runs()
    row = await runs.find(run)
    await runs.retry(row.run_id, by=by, reason=reason)
    if output is not Output.TEXT:
        at.screen.data([{"run_id": row.run_id, "asked": "retry", "by": by, "reason": reason}], output, one=True)
    at.screen.hint("it goes on:", text.next_command("watch", row.run_id))
    await tell_unserved(at, runs)
    return exits.DONE


async def _steer(at: Desk, run: str, steer: Steer, words: str, word_id: str | None, by: str, output: Output) -> int:
    if steer is Steer.SAY and not words.strip():
        raise typer.BadParameter("say what the model is to hear: there are no words in it")
    if word_id is not None and not 0 < len(word_id) <= _MOST_ID:
        raise typer.BadParameter(f"--id {word_id[:20]!r} is no id: give 1 to {_MOST_ID} characters")
    runs = await at.world.runs()
    row = await runs.find(run)
    if row.state in FINAL_STATES:
        raise SteeringRefusedError(f"run {row.run_id!r} has ended: {row.state}. {_TOO_LATE[steer]}")
    word = Steering(id=word_id or str(uuid4()), steer=steer, by=by or at.operator, text=words)
    steered = await runs.steer(row.run_id, word)
    if steered is None:
        at.screen.hint("no worker answers: it is left with the run, and takes effect when one is up")
        if output is not Output.TEXT:
            at.screen.data([{**document.plain(word), "left": True}], output, one=True)
        return exits.WAITING
    if output is Output.TEXT:
        at.screen.show([_told(at, row.run_id, steered)])
        at.screen.hint("follow it:", text.next_command("watch", row.run_id))
    else:
        at.screen.data([document.plain(steered)], output, one=True)
    return exits.DONE


_TOO_LATE = {
    Steer.SAY: "Nothing can be said to it any more",
    Steer.PAUSE: "Nothing was paused",
    Steer.RESUME: "Nothing was resumed",
}
_MOST_ID = 64  # characters: `Steering.id`


def _told(at: Desk, run_id: str, steered: Steered) -> Line:
    proof = "verified" if steered.verified else "unverified"
    again = "; it was so before, nothing changed" if steered.again else ""
    by = f"by {inert.line(steered.by)} ({proof}), {clock.stamp(steered.at, at.zone)}"
    return Line((Span(f"{inert.line(run_id)} {by}{again}"),), Span(text.SPOKEN[steered.steer], "ok"), 0, 9)
