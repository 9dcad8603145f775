"""What the trial cases need besides the stage: a ledger outside of everything, and a worker in a process of its own.

A case is a fault that users of other agent runtimes reported. The number in a test's module or name (C37) says which.
"""

import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Runs
from perdure.core.contracts import TASK_QUEUE
from perdure.temporal.children import spawn
from perdure.temporal.connect import connect
from perdure.testing import ScriptedModel
from tests.servers import Place

AGENTS = Path(__file__).parent / "agents"
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["anthropic", "openai-responses", "openai-chat"])
def protocol(request: pytest.FixtureRequest) -> str:
    """For cases about grammar: each protocol in turn."""
    return str(request.param)


@dataclass(frozen=True)
class Ledger:
    """Effects, one line each, counted independently of any trace."""

    path: Path

    def record(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(line + "\n")

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("LEDGER", str(tmp_path / "ledger"))
    return Ledger(tmp_path / "ledger")


@dataclass
class WorkerProcess:
    """`python worker.py FILE`, in a process of its own."""

    file: Path
    log: Path
    child: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        self.child = spawn([sys.executable, str(ROOT / "worker.py"), str(self.file)], log=self.log)

    def kill(self) -> None:
        """SIGKILL: no goodbye, no last heartbeat."""
        if self.child:
            self.child.kill()
            self.child.wait()
            self.child = None


Housed = Callable[..., AbstractAsyncContextManager[tuple[Any, WorkerProcess]]]


@pytest.fixture
def housed(place: Place, stage_type: Any, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Housed:
    """A stage whose worker is a process, serving agents/desk.py."""
    place.enter(monkeypatch)
    monkeypatch.setenv("PERDURE_GRANT_KEY", "0123456789abcdef" * 4)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(AGENTS)]))

    @asynccontextmanager
    async def on_stage(script: Any, *, protocol: str = "anthropic") -> AsyncIterator[tuple[Any, WorkerProcess]]:
        agent = Agent(f"desk-{uuid.uuid4().hex[:8]}", model="anthropic:in-the-file", instructions="in the file")
        monkeypatch.setenv("DESK_NAME", agent.name)
        monkeypatch.setenv("DESK_PROTOCOL", protocol)
        process = WorkerProcess(AGENTS / "desk.py", tmp_path / "worker.log")
        with ScriptedModel(script) as model:
            for name, value in model.env().items():
                monkeypatch.setenv(name, value)
            client = await connect()
            played = stage_type(client, Runs(client), agent, model, TASK_QUEUE)
            process.start()
            try:
                yield played, process
                assert [refused.refusal for refused in model.violations] == []
                await played.replay()
                log = process.log.read_text()
                assert model.env()["ANTHROPIC_API_KEY"] not in log
                assert os.environ["PERDURE_GRANT_KEY"] not in log
            finally:
                process.kill()
                for run_id in played.started:
                    if (await played.runs.find(run_id)).ended is None:
                        await client.get_workflow_handle(run_id).terminate()

    return on_stage
