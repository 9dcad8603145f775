"""Test an agent without a model: a scripted one that speaks the vendors' protocols and is as strict as they are.

    played = await play(desk, [call("hr_lookup", employee="ann"), say("9 days left")], "How many days has ann left?")

plays a whole run, for real but for the model (`play.py`). The model alone is a server for any client:

    with ScriptedModel([[think("two facts"), call("hr_lookup", employee="ann")], say("9 days left")]) as model:
        client = AsyncAnthropic(base_url=model.anthropic_url, api_key="any")

`script.py` says what a script is made of, `prompter.py` which turn answers which request, and the three protocol files
what is refused. `python -m perdure.testing script.yaml` serves a script from a file; `cases.py` plays a run over again.
"""

from perdure.testing.cases import Case, load_case
from perdure.testing.play import Played, PlayError, RefusedRequestError, UnexpectedWaitError, play
from perdure.testing.script import (
    Reply,
    Script,
    ScriptError,
    Seen,
    SeenFile,
    Turn,
    blank,
    block,
    call,
    cut,
    delay,
    error,
    failed,
    pause,
    raw,
    refuse,
    say,
    stop,
    think,
    truncate,
    turn,
)
from perdure.testing.server import Recorded, ScriptedModel

__all__ = [
    "Case",
    "PlayError",
    "Played",
    "Recorded",
    "RefusedRequestError",
    "Reply",
    "Script",
    "ScriptError",
    "ScriptedModel",
    "Seen",
    "SeenFile",
    "Turn",
    "UnexpectedWaitError",
    "blank",
    "block",
    "call",
    "cut",
    "delay",
    "error",
    "failed",
    "load_case",
    "pause",
    "play",
    "raw",
    "refuse",
    "say",
    "stop",
    "think",
    "truncate",
    "turn",
]
