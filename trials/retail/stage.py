"""The processes of a trial: Temporal, the shop, the model, and a worker that never lives long.

All are children that end with this process, however it ends (perdure.temporal.children); leaving the stage ends them by
their own ids, in the reverse order.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from perdure import Runs
from perdure.temporal.children import end, free_ports, spawn
from perdure.temporal.embedded import DevServer
from perdure.testing import Script, ScriptedModel

_DESK = Path(__file__).with_name("desk.py")
_WORKER = Path(__file__).parents[2] / "worker.py"
_GRACE = 5.0  # seconds between asking a child to end and insisting
_SHOP_UP_WITHIN = 30.0  # seconds
_IDLE = 60.0  # seconds that a worker may do nothing at the shop


class StageError(Exception):
    """A process of the trial did not come up, or died by itself; the text says which, and where its log is."""


@dataclass
class DoomedWorker:
    """A worker process that is SIGKILLed `lives` seconds after its first deed at the shop, and replaced. Zero: never.

    Its life is counted from there and not from its start, so that a busy machine, on which it takes seconds to import
    anything, makes the trial slower and not hopeless. `journal` is the shop's.
    """

    lives: float
    journal: Path
    log: Path
    sigkills: int = 0

    async def serve(self) -> None:
        """Until cancelled. The last one is killed as well: nothing may depend on a worker that ends in good order.

        Raises:
            StageError: the worker ended by itself.
        """
        while True:
            worker = spawn([sys.executable, str(_WORKER), str(_DESK)], log=self.log)
            try:
                await self._live(worker)
            finally:
                worker.kill()
                worker.wait()
            self.sigkills += 1

    async def _live(self, worker: "subprocess.Popen[bytes]") -> None:
        loop = asyncio.get_running_loop()
        until, before, idle = loop.time() + _IDLE, self._deeds(), True
        while not self.lives or loop.time() < until:
            await asyncio.sleep(0.05)
            if worker.poll() is not None:
                raise StageError(f"the worker ended by itself with code {worker.returncode}; see {self.log}")
            if idle and self._deeds() > before:
                until, idle = loop.time() + self.lives, False

    def _deeds(self) -> int:
        return self.journal.read_bytes().count(b'"key": ')


@dataclass(frozen=True)
class Stage:
    """Where everything is. `journal` is the shop's."""

    runs: Runs
    shop: httpx2.AsyncClient
    journal: Path
    model: ScriptedModel
    worker: DoomedWorker


@asynccontextmanager
async def staged(folder: Path, script: Script, *, lives: float, linger: float) -> AsyncIterator[Stage]:
    """Everything up but the worker, which the caller serves when it wants one.

    Points this process's environment, and so every child's, at what was started.
    """
    journal = folder / "journal.jsonl"
    os.environ["PERDURE_STATE"] = str(folder)
    async with DevServer(folder, fast=True, ui=False) as server, _shop(folder, journal, linger) as shop:
        with ScriptedModel(script) as model:
            os.environ.update(model.env())
            os.environ["TEMPORAL_ADDRESS"] = server.address
            os.environ["RETAIL_SHOP"] = str(shop.base_url)
            runs = await Runs.connect()
            yield Stage(runs, shop, journal, model, DoomedWorker(lives, journal, folder / "worker.log"))


@asynccontextmanager
async def _shop(folder: Path, journal: Path, linger: float) -> AsyncIterator[httpx2.AsyncClient]:
    [port] = free_ports([0])
    log = folder / "shop.log"
    options = ["--port", str(port), "--journal", str(journal), "--linger", str(linger)]
    journal.touch()
    child = spawn([sys.executable, "-m", "trials.retail.shop", *options], log=log)
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as shop:
            await _answering(shop, child, log)
            yield shop
    finally:
        end(child, grace=_GRACE)


async def _answering(shop: httpx2.AsyncClient, child: "subprocess.Popen[bytes]", log: Path) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SHOP_UP_WITHIN
    while loop.time() < deadline and child.poll() is None:
        try:
            (await shop.get("/stats")).raise_for_status()
            return
        except httpx2.TransportError:
            await asyncio.sleep(0.05)
    raise StageError(f"the shop did not come up; see {log}")
