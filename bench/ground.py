"""What every measurement stands on: a server of its own, a model that answers at once, the worker and the floor's.

Each is a process of its own, so that a worker's CPU time and memory are its own; all end with the measurement.
"""

import argparse
import asyncio
import compileall
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from perdure import Runs
from perdure.temporal.connect import connect
from perdure.temporal.embedded import DevServer

HERE = Path(__file__).parent
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ground:
    client: Client
    runs: Runs
    worker: int  # pids
    floor: int


def cpu_ms(pid: int) -> float:
    """User and system CPU time of a process so far, all threads, in ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / _TICKS


def peak_mb(pid: int) -> float:
    """Peak resident memory of a process so far, in MB."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


@contextmanager
def process(*command: str, log: Path, stdout: int | None = None) -> Iterator["subprocess.Popen[str]"]:
    with log.open("w") as file:
        child = subprocess.Popen(command, stdout=stdout or file, stderr=file, text=True, env=os.environ)
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


@asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    compileall.compile_dir(HERE, quiet=2)  # as the worker does for ours
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PERDURE_STATE"] = folder
        async with DevServer(Path(folder), fast=True, ui=False) as server:
            os.environ["TEMPORAL_ADDRESS"] = server.address
            logs = Path(folder)
            with process(
                sys.executable, str(HERE / "model.py"), log=logs / "model.log", stdout=subprocess.PIPE
            ) as model:
                os.environ.update(_variables(model))
                worker = process(
                    sys.executable, str(HERE.parent / "worker.py"), str(HERE / "agent.py"), log=logs / "worker.log"
                )
                floor = process(sys.executable, str(HERE / "floor.py"), server.address, log=logs / "floor.log")
                with worker as ours, floor as theirs:
                    client = await connect()
                    yield Ground(client, Runs(client), ours.pid, theirs.pid)


def _variables(model: "subprocess.Popen[str]") -> dict[str, str]:
    assert model.stdout is not None
    found = {}
    while line := model.stdout.readline().strip():
        name, _, value = line.partition("=")
        found[name] = value
    if not found:
        raise RuntimeError("the scripted model did not start: run bench/model.py by itself to see why")
    return found


def measure(main: Callable[..., Awaitable[object]], doc: str | None, **options: float) -> None:
    """What `main` finds, as one JSON line. It takes the options in their order, each of its default's type."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in options.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{default} unless said")
    given = vars(parser.parse_args()).values()

    async def found() -> object:
        return await main(*given)

    print(json.dumps(asyncio.run(found())), flush=True)


def task(steps: int, size: int) -> str:
    return f"{steps} steps of {size} bytes"


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
