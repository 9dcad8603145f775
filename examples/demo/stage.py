"""Setting the stage: which model, which server, and a worker as a process of its own.

Everything is handed to the worker through its environment, as any worker gets it. The demo never leaves the machine
but for a real model: whatever Temporal this environment points at, it talks to its own.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Self

from examples.demo.kept import Folder
from examples.leave_desk_model import SCRIPT
from perdure import _home, store
from perdure.temporal.children import command_line, end, spawn
from perdure.temporal.embedded import STORE_FOLDER, Running
from perdure.testing import ScriptedModel

SCRIPTED: Final = "scripted"
_VARIABLE: Final = "LEAVE_DESK_MODEL"
_SCRIPTED_AS: Final = "anthropic:claude-opus-5-5"  # the protocol that the script is reached by
_REAL: Final = {  # a key's variable -> the model it is for
    "ANTHROPIC_API_KEY": "anthropic:claude-opus-5-5",
    "OPENAI_API_KEY": "openai:gpt-6.1-sol",
}
OFFER: Final = "With ANTHROPIC_API_KEY or OPENAI_API_KEY set, a real model is asked."
_GRACE: Final = 7.0  # seconds for a call that runs to be finished: the slowest takes five


class ModelGoneError(Exception):
    """An interrupted play can't go on: the model it began with is not to be had."""


def chosen_model(environ: Mapping[str, str], *, scripted: bool) -> str:
    """The real model if there is a key for one, LEAVE_DESK_MODEL first; else the scripted one."""
    if scripted:
        return SCRIPTED
    wished = environ.get(_VARIABLE, "")
    offered = [model for key, model in _REAL.items() if environ.get(key)]
    if wished:
        return wished if environ.get(_key_of(wished)) else SCRIPTED
    return offered[0] if offered else SCRIPTED


def _key_of(model: str) -> str:
    return "ANTHROPIC_API_KEY" if model.startswith("anthropic:") else "OPENAI_API_KEY"


@contextmanager
def model_at_hand(model: str) -> Iterator[str]:
    """Point workers at the model. Yields what to tell people about it.

    Raises:
        ModelGoneError: its key is not set any more.
    """
    if model != SCRIPTED:
        if not os.environ.get(_key_of(model)):
            raise ModelGoneError(
                f"the interrupted demo began with {model}, and {_key_of(model)} is not set. Set it, or begin anew: "
                "perdure demo --anew"
            )
        os.environ[_VARIABLE] = model
        yield f"{model}, the real one: its key is set"
        return
    with ScriptedModel(SCRIPT, record_bytes=0) as server:
        direct = ",".join(filter(None, (os.environ.get("NO_PROXY"), "127.0.0.1")))
        os.environ.update(server.env() | {_VARIABLE: _SCRIPTED_AS, "NO_PROXY": direct, "no_proxy": direct})
        os.environ.pop("ANTHROPIC_AUTH_TOKEN", None)
        yield f"a script, served at {server.url} and reached through Anthropic's SDK. ({OFFER})"


def to_own_server(server: Running) -> None:
    """Workers and `Runs` meet this server and its store, whatever the environment, or a profile, speaks of."""
    for name in [name for name in os.environ if name.startswith("TEMPORAL_")]:
        del os.environ[name]
    os.environ.pop("PERDURE_DATA_CONVERTER", None)
    os.environ.update(TEMPORAL_ADDRESS=server.address, TEMPORAL_CONFIG_FILE=os.devnull)
    os.environ[store.VARIABLE] = str(server.folder / STORE_FOLDER)


class Worker:
    """`perdure worker leave_desk.py`, as a process of its own. It ends with the demo, however that ends.

    Needs the environment that `model_at_hand` and `to_own_server` leave.
    """

    def __init__(self, folder: Folder) -> None:
        self.log = folder.worker_log
        os.environ["LEAVE_DESK_DB"] = str(folder.database)
        self._child = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        return spawn(_home.command("worker", str(_home.script("examples.leave_desk"))), log=self.log)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def gone(self) -> bool:
        return self._child.poll() is not None

    def kill(self) -> None:
        """SIGKILL: no goodbye to anyone."""
        self._child.kill()
        self._child.wait()

    def start_another(self) -> None:
        """After the death of the first, whoever caused it."""
        self._child = self._started()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Let it finish the call it is at."""
        await asyncio.to_thread(end, self._child, grace=_GRACE)


def end_leftover(pid: int) -> None:
    """A worker that outlived a killed demo, which Linux does not let happen."""
    if pid and "leave_desk" in (command_line(pid) or ""):
        os.kill(pid, 9)
