"""A real server for the session, and a stage on it for each test: an agent, a worker, and a model that plays a script.

Used by tests/workflow and tests/trial_cases.

Every stage checks, as it ends, what must hold of every run: the strict model refused no request, no key stands in the
history, and the history replays on a cold process with the sandbox in force.
"""

import asyncio
import gc
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer

import worker
from activities.lanes import PATIENCE
from perdure import Agent, Budget, Runs
from perdure.core.contracts import (
    CALL_MODEL,
    DECIDE,
    STEER,
    Choice,
    Decision,
    Outcome,
    Request,
    RunState,
    Steer,
    Steering,
)
from perdure.core.marking import unmarked
from perdure.core.runs import RunNotFoundError, RunRow
from perdure.store import Store
from perdure.temporal.connect import connect
from perdure.temporal.journal import Journal
from perdure.testing import Script, ScriptedModel
from perdure.traces.events import ActivityCompleted, ActivityScheduled, Event
from tests.servers import Place, end_servers, shared, suggesting
from workflows import WORKFLOWS


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """As `worker.run` does. A full collection counts as the workflow's time, and the SDK gives that two seconds."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(trylast=True)  # after what still holds a server has let it go
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    end_servers()
    session.config.stash[_EXIT] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """An interpreter that used Temporal may abort while it exits; then a green run would end in red."""
    if not hasattr(config, "workerinput"):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash.get(_EXIT, 1))


_EXIT = pytest.StashKey[int]()
GRANT_KEY = b"a key that only these tests' workers share"
MODELS = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai-responses": "openai:gpt-6.2-sol",
    "openai-chat": "openai-chat:gpt-6-luna",
}
MODELS |= {f"text+{protocol}": f"text+{model}" for protocol, model in MODELS.items()}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    for vendor in ("anthropic", "openai"):
        import_module(vendor)  # else at a worker's first call: slow on a busy machine
    async with shared(tmp_path_factory, "usual") as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def short(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """Where a new segment is suggested after a few turns."""
    async with shared(tmp_path_factory, "short", **suggesting(60)) as found:
        yield found


@dataclass
class Stage:
    """One agent on one worker. `run` plays a task to its end; the rest is for those who look on and decide."""

    client: Client
    runs: Runs
    agent: Agent
    model: ScriptedModel
    task_queue: str
    cached: int = 1000
    journal: Journal | None = None
    store: Store | None = None
    rates: dict[str, float] = field(default_factory=dict)
    patience: timedelta = PATIENCE
    started: list[str] = field(default_factory=list)
    _serving: AbstractAsyncContextManager[Any] | None = None

    async def serve(self, agent: Agent | None = None) -> None:
        """Start a worker, in this process, that knows nothing of what was before; first stop the one that is there."""
        await self.rest()
        self.agent = agent or self.agent
        self._serving = worker.build(
            self.client,
            {self.agent.name: self.agent},
            task_queue=self.task_queue,
            key=GRANT_KEY,
            max_cached_workflows=self.cached,
            journal=self.journal,
            store=self.store,
            rates=self.rates,
            patience=self.patience,
        )
        await self._serving.__aenter__()

    async def rest(self) -> None:
        """Stop the worker as a deploy does."""
        serving, self._serving = self._serving, None
        if serving:
            await serving.__aexit__(None, None, None)

    async def start(
        self,
        task: str = "do it",
        run_id: str | None = None,
        files: Sequence[Any] = (),
        tools: Sequence[str] | None = None,
    ) -> str:
        run_id = run_id or f"run-{uuid.uuid4().hex[:12]}"
        started = await self.runs.start(self.agent.name, task, run_id=run_id, files=files, tools=tools)
        self.started.append(started.run_id)
        return started.run_id

    async def run(self, task: str = "do it") -> Outcome:
        return await self.runs.result(await self.start(task))

    async def waiting(self, run_id: str, count: int = 1) -> Sequence[Request]:
        """The requests that wait, as soon as there are `count`."""
        for _ in range(400):
            row = await self.runs.find(run_id)
            if len(row.requests) >= count:
                return row.requests
            assert row.ended is None, f"the run ended ({row.outcome}) before {count} requests waited"
            await asyncio.sleep(0.05)
        raise AssertionError(f"{count} requests never waited: {await self.runs.find(run_id)}")

    async def listed(self, request: Request, state: RunState = RunState.WAITING) -> tuple[RunRow, Request]:
        """What the server's list finds of a request, as soon as it has caught up with the run."""
        for _ in range(400):
            with suppress(RunNotFoundError):
                row, found = await self.runs.find_request(request.id)
                if row.state is state:
                    return row, found
            await asyncio.sleep(0.05)
        raise AssertionError(f"{request.id} was never listed as {state}")

    async def decide(self, run_id: str, request: Request, choice: Choice, **more: Any) -> Any:
        digest = more.pop("digest", request.digest)
        decision = Decision(
            id=str(uuid.uuid4()), request=request.id, choice=choice, digest=digest, **{"by": "ann", **more}
        )
        return await self.runs.decide(run_id, decision)

    async def decide_by_signal(self, run_id: str, request: Request, choice: Choice, **more: Any) -> None:
        """Decide without waiting for an answer: works with no worker up."""
        said = {"id": str(uuid.uuid4()), "by": "ann", "digest": request.digest, **more}
        decision = Decision(request=request.id, choice=choice, **said)
        await self.client.get_workflow_handle(run_id).signal(DECIDE, decision)

    async def steer(self, run_id: str, steer: Steer, text: str = "", **more: Any) -> Any:
        word = {"id": str(uuid.uuid4()), "by": "ann", **more}
        return await self.runs.steer(run_id, Steering(steer=steer, text=text, **word))

    async def steer_by_signal(self, run_id: str, steer: Steer, text: str = "", **more: Any) -> None:
        word = {"id": str(uuid.uuid4()), "by": "ann", **more}
        await self.client.get_workflow_handle(run_id).signal(STEER, Steering(steer=steer, text=text, **word))

    async def observations(self, run_id: str) -> list[str]:
        """What run_tool recorded, in the order of the history."""
        done = [e for e in await self.runs.events(run_id) if isinstance(e, ActivityCompleted)]
        return [e.result["text"] for e in done if e.activity_id.startswith("act-")]

    def heard(self, request: int = -1) -> str:
        """The whole body of one request to the model, as text."""
        return str(self.model.requests[request].body)

    def results(self, request: int = -1) -> list[tuple[str, str]]:
        """(call id, text) of every tool result in one request to the model, in order, whatever the protocol.

        The text is that between the marks.
        """
        return [
            (call_id, unmarked(text if isinstance(text, str) else text[0]["text"]))
            for call_id, text in self.sent_results(request)
        ]

    def sent_results(self, request: int = -1) -> list[tuple[str, str]]:
        """The same, with the marks."""
        body = self.model.requests[request].body
        if "input" in body:
            return [(i["call_id"], i["output"]) for i in body["input"] if i.get("type") == "function_call_output"]
        found = []
        for message in body["messages"]:
            if message["role"] == "tool":
                found.append((message["tool_call_id"], message["content"]))
            elif isinstance(message["content"], list):
                blocks = [b for b in message["content"] if b["type"] == "tool_result"]
                found += [(b["tool_use_id"], b["content"]) for b in blocks]
        return found

    def texts(self, request: int = -1) -> list[str]:
        """The tool results of one request to the model, in order."""
        return [text for _, text in self.results(request)]

    async def replay(self) -> None:
        replayer = Replayer(
            workflows=WORKFLOWS, workflow_runner=worker.sandbox(whole=True), data_converter=self.client.data_converter
        )
        for run_id in self.started:
            for history in await self.segments(run_id):
                recorded = b"".join(event.SerializeToString() for event in history.events)
                assert not [key for key in (*self.model.env().values(), GRANT_KEY.decode()) if key.encode() in recorded]
                await replayer.replay_workflow(history)

    async def segments(self, run_id: str) -> list[WorkflowHistory]:
        """The histories of a run's segments, newest first."""
        found, segment_id = [], None
        while segment_id != "":
            found.append(await self.client.get_workflow_handle(run_id, run_id=segment_id).fetch_history())
            segment_id = found[-1].events[0].workflow_execution_started_event_attributes.continued_execution_run_id
        return found


StageOf = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture
def stage(place: Place, monkeypatch: pytest.MonkeyPatch) -> StageOf:
    place.enter(monkeypatch)

    @asynccontextmanager
    async def on_stage(
        script: Any,
        tools: Sequence[Any] = (),
        *,
        protocol: str = "anthropic",
        turns: int = 12,
        strictly: bool = True,
        cached: int = 1000,
        journal: Journal | None = None,
        store: Store | None = None,
        budget: Budget | None = None,
        rates: dict[str, float] | None = None,
        patience: timedelta = PATIENCE,
        **settings: Any,
    ) -> AsyncIterator[Stage]:
        agent = Agent(
            f"desk-{uuid.uuid4().hex[:8]}",
            model=MODELS[protocol],
            instructions="You are tested.",
            tools=list(tools),
            budget=budget or Budget(turns=turns),
            **settings,
        )
        async with AsyncExitStack() as stack:
            scripts = script if isinstance(script, tuple) else (script,)  # a tuple is one for each model
            made = [each if isinstance(each, Script) else Script(each) for each in scripts]
            model = stack.enter_context(ScriptedModel(*made))
            for name, value in model.env().items():
                monkeypatch.setenv(name, value)
            client = await connect()
            queue = f"queue-{uuid.uuid4().hex[:8]}"
            played = Stage(
                client,
                Runs(client, task_queue=queue, store=store),
                agent,
                model,
                queue,
                cached,
                journal,
                store,
                rates or {},
                patience,
            )
            stack.push_async_callback(played.rest)
            await played.serve()
            yield played
            if strictly:
                assert [refused.refusal for refused in model.violations] == []
            await played.replay()

    return on_stage


@pytest.fixture
def brief(stage: StageOf, short: Place, monkeypatch: pytest.MonkeyPatch) -> StageOf:
    """A stage on the server of few events."""
    short.enter(monkeypatch)
    return stage


def asked(events: Sequence[Event]) -> list[ActivityScheduled]:
    return [e for e in events if isinstance(e, ActivityScheduled) and e.activity == CALL_MODEL]


@pytest.fixture
def stage_type() -> type[Stage]:
    """For folders that build stages of their own kind."""
    return Stage
