"""Where agents are played: a Temporal server for the whole process, and an environment that leads nowhere else.

The server is started by the first play, in a temporary folder, and used by all later ones; no event loop owns it, since
most test runners give every test a loop of its own. It ends with the process. Tests that run in several processes
(pytest-xdist) have one server each.
"""

import asyncio
import atexit
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perdure import _home
from perdure.providers.registry import provider, warm
from perdure.temporal.connect import connect
from perdure.temporal.embedded import NAMESPACE, DevServer, Running, running
from perdure.temporal.runs import Runs
from perdure.temporal.workers import identity
from perdure.tools.agents import Agent
from perdure.tools.delegating import with_delegates

_ELSEWHERE: Final = ("TEMPORAL_", "ANTHROPIC_", "OPENAI_")  # where a developer's shell may lead, and with what keys
_LOOK_AGAIN: Final = 0.02  # seconds


@dataclass(frozen=True)
class _Kept:
    server: DevServer
    found: Running

    @property
    def up(self) -> bool:
        return self.found.owner == os.getpid() and running(self.found.folder) is not None


_kept: _Kept | None = None
_playing = threading.Lock()


@asynccontextmanager
async def ground(agent: Agent, vendors: Mapping[str, str]) -> AsyncIterator[Runs]:
    """The process's server with a worker for `agent` and those it hands work to, and nobody else on their task queue.

    `vendors`: the variables that say where models are. They are set, and all others that lead to a Temporal or a model
    are hidden, until the block ends. The environment belongs to the process: a second play waits for the first.

    Raises DevServerError when the server does not come up, RuntimeError outside the main thread.
    """
    protocols = {each for served in with_delegates([agent]).values() for each in served.protocols}
    await asyncio.to_thread(warm, protocols)
    worker = _home.load("worker")
    async with _alone():
        address = await _address()
        with environment({**vendors, **_temporal(address), **_direct()}):
            client = await connect(identity=identity([agent.name]))
            queue = f"play-{secrets.token_hex(6)}"
            try:
                async with worker.build(
                    client, {agent.name: agent}, task_queue=queue, key=secrets.token_hex(32).encode()
                ):
                    yield Runs(client, task_queue=queue)
            finally:
                for protocol in protocols:
                    await provider(protocol).close()


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """These variables, and none else that lead to a Temporal or a model. Afterwards they are as before."""
    hidden = [name for name in os.environ if name.startswith(_ELSEWHERE)]
    before = {name: os.environ.get(name) for name in (*hidden, *values)}
    for name in hidden:
        del os.environ[name]
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


async def end_server() -> None:
    """End this process's server, if it has one. The next play starts another."""
    global _kept
    kept, _kept = _kept, None
    if kept:
        await kept.server.stop()
        shutil.rmtree(kept.found.folder, ignore_errors=True)


async def _address() -> str:
    global _kept
    if not (_kept and _kept.up):
        await end_server()
        _kept = await _started()
    return _kept.found.address


async def _started() -> _Kept:
    folder = Path(tempfile.mkdtemp(prefix="perdure-play-"))
    server = DevServer(folder, fast=True, ui=False)
    try:
        return _Kept(server, await server.start())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@atexit.register
def _end_at_exit() -> None:
    """`stop` needs a thread, and none starts any more: a blunt end, for a database that nobody reads again."""
    if _kept and _kept.found.owner == os.getpid():
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(_kept.found.pid, signal.SIGKILL)  # a child that nobody has waited for: the id is still its own
            os.waitpid(_kept.found.pid, 0)
        shutil.rmtree(_kept.found.folder, ignore_errors=True)


@asynccontextmanager
async def _alone() -> AsyncIterator[None]:
    """A lock for tasks of any event loop, which asyncio's own locks are not."""
    while not _playing.acquire(blocking=False):
        await asyncio.sleep(_LOOK_AGAIN)
    try:
        yield
    finally:
        _playing.release()


def _temporal(address: str) -> dict[str, str]:
    return {"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": NAMESPACE, "TEMPORAL_CONFIG_FILE": os.devnull}


def _direct() -> dict[str, str]:
    """A proxy must not be asked for what listens on this machine."""
    given = {name: os.environ.get(name, "") for name in ("NO_PROXY", "no_proxy")}
    return {name: ",".join(filter(None, (hosts, "127.0.0.1"))) for name, hosts in given.items()}
