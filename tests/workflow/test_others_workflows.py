"""Runs share a namespace with workflows of others, and with whoever writes what no perdure would."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure import Runs, tool
from perdure.core.contracts import RUN, STANDING, Choice, Decision, RunState, Start
from perdure.core.runs import RunNotFoundError
from perdure.temporal.connect import connect
from perdure.testing import call, say
from perdure.traces.events import RunStarted
from tests.conftest import Stage, StageOf
from tests.servers import Place


@tool(effect="idempotent")
async def pay(to: str) -> str:
    """Pay somebody.

    Args:
        to: whom.
    """
    return f"paid {to}"


@workflow.defn(name="Payroll")
class Payroll:
    """Somebody else's; it has a `decide` of its own."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: bool(self.told))

    @workflow.signal
    def decide(self, told: Any) -> None:
        self.told.append(told)


@pytest.fixture
async def payroll(place: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    place.enter(monkeypatch)
    client, queue = await connect(), f"payroll-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Payroll], workflow_runner=UnsandboxedWorkflowRunner()):
        yield await client.start_workflow(Payroll.run, id=f"payroll-{uuid.uuid4().hex[:8]}", task_queue=queue)


async def _watched(runs: Runs, run_id: str) -> None:
    async for _ in runs.watch(run_id):
        pass


def _decided(runs: Runs, run_id: str) -> Awaitable[Any]:
    return runs.decide(run_id, Decision(id="d", request="r", choice=Choice.APPROVE, by="ann"))


@pytest.mark.parametrize(
    "asked", [Runs.find, Runs.cancel, Runs.result, Runs.events, Runs.history_json, _watched, _decided]
)
async def test_a_workflow_that_is_no_run_is_neither_read_nor_touched(
    payroll: WorkflowHandle[Any, Any], asked: Callable[[Runs, str], Awaitable[Any]]
) -> None:
    runs = Runs(await connect())
    with pytest.raises(RunNotFoundError, match="a workflow of type 'Payroll', no perdure run"):
        await asked(runs, payroll.id)
    assert (await payroll.describe()).status is WorkflowExecutionStatus.RUNNING
    assert not [e async for e in payroll.fetch_history_events() if "SIGNALED" in str(e) or "CANCEL" in str(e)]


async def _strange(desk: Stage, memo: Any, start: Any) -> str:
    """A workflow of our type that no perdure started, and nobody serves."""
    run_id = f"strange-{uuid.uuid4().hex[:8]}"
    await desk.client.start_workflow(RUN, start, id=run_id, task_queue=f"none-{run_id}", memo={STANDING: memo})
    return run_id


@pytest.mark.parametrize("memo", ["garbage", {"requests": 7}, {"outcome": {"state": "rich"}}])
async def test_a_memo_that_nobody_can_read_hides_no_other_run(stage: StageOf, memo: Any) -> None:
    async with stage([call("pay", to="ann"), say("done")], [pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        strange = await _strange(desk, memo, Start(agent=desk.agent.name, task="x"))

        while strange not in (rows := {row.run_id: row for row in await desk.runs.list(limit=1000)}):
            await asyncio.sleep(0.05)  # lists are a moment behind
        assert rows[run_id].requests == (request,)
        assert (rows[strange].requests, rows[strange].outcome) == ((), None)
        assert (await desk.runs.find(strange)).state is RunState.THINKING
        with pytest.raises(RunNotFoundError, match="nothing waits"):
            await desk.runs.find_request("nosuch")
        await desk.client.get_workflow_handle(strange).terminate()
        await desk.runs.cancel(run_id)
        await desk.runs.result(run_id)


@pytest.mark.parametrize("start", ["garbage", {"agent": 5, "task": []}, None])
async def test_a_run_started_with_something_else_can_still_be_looked_at(stage: StageOf, start: Any) -> None:
    async with stage([]) as desk:
        strange = await _strange(desk, {}, start)
        [started] = await desk.runs.events(strange)
        assert isinstance(started, RunStarted)
        assert started.start.agent == "?"
        await desk.client.get_workflow_handle(strange).terminate()
