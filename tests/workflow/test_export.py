"""Ended segments are kept in the store, so that a trace outlives what the server keeps."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError

from perdure import Runs
from perdure.core.contracts import EXPORT_SEGMENT, Choice, RunState
from perdure.core.runs import RunNotFoundError
from perdure.store import Store
from perdure.temporal import kept
from perdure.temporal.history import decoded
from perdure.testing import call, error, say
from perdure.traces.events import ActivityFailed, ActivityScheduled, RunStarted
from perdure.traces.turns import trace
from tests.conftest import Stage, StageOf
from tests.trial_cases.test_retrying import asked_anew
from tests.workflow.test_roll_over import look, looks, pay


async def _taken_by_retention(desk: Stage, run_id: str, *segment_ids: str) -> None:
    for segment_id in segment_ids:
        execution = WorkflowExecution(workflow_id=run_id, run_id=segment_id)
        await desk.client.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(namespace=desk.client.namespace, workflow_execution=execution)
        )
        handle = desk.client.get_workflow_handle(run_id, run_id=segment_id)
        while True:
            try:
                await handle.fetch_history()
                await asyncio.sleep(0.05)
            except RPCError:
                break
        listed = f"WorkflowId = '{run_id}' AND RunId = '{segment_id}'"
        while [each async for each in desk.client.list_workflows(listed)]:
            await asyncio.sleep(0.05)


def _segments(events: Any) -> list[str]:
    return [event.segment_id for event in events if isinstance(event, RunStarted)]


def _whole(seen: Any) -> list[Any]:
    return [(turn.number, [call.observation for call in turn.calls], turn.usage) for turn in seen.turns]


@pytest.mark.slow  # the server takes its time to forget
async def test_a_trace_is_whole_after_retention_took_segments_of_a_running_run(brief: StageOf, tmp_path: Path) -> None:
    store = Store(str(tmp_path))

    def script(seen: Any) -> Any:
        return call("look", at=seen.turn) if seen.turn < 14 else [call("pay", to="ann"), say("paid")][seen.turn - 14]

    async with brief(script, [look, pay], turns=100, store=store) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        before = trace(await desk.runs.events(run_id))
        *ended, _ = _segments(await desk.runs.events(run_id))
        assert len(ended) >= 2
        await _taken_by_retention(desk, run_id, *ended)

        reading = Runs(desk.client, store=store)
        assert _whole(trace(await reading.events(run_id))) == _whole(before)
        alone = trace(await Runs(desk.client).events(run_id))
        assert alone.turns_gone + len(alone.turns) == len(before.turns)
        assert (alone.usage, alone.started, alone.model) == (before.usage, before.started, before.model)

        await desk.decide(run_id, request, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        desk.started.remove(run_id)  # its first segments cannot be replayed any more


@pytest.mark.slow  # the server takes its time to forget
async def test_a_run_that_the_server_forgot_is_read_from_the_store(brief: StageOf, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    async with brief(looks(14), [look], turns=100, store=store) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        before = trace(await desk.runs.events(run_id))
        await desk.replay()
        await _taken_by_retention(desk, run_id, *_segments(await desk.runs.events(run_id)))
        desk.started.remove(run_id)

        with pytest.raises(RunNotFoundError):
            await Runs(desk.client).find(run_id)
        reading = Runs(desk.client, store=store)
        row = await reading.find(run_id)
        assert (row.state, row.started, row.agent) == (RunState.ANSWERED, before.started, desk.agent.name)
        after = trace(await reading.events(run_id))
        assert _whole(after) == _whole(before)
        assert (after.outcome, after.state, after.turns_gone) == (outcome, RunState.ANSWERED, 0)


@pytest.mark.slow  # the server takes its time to forget
async def test_a_cancelled_run_is_kept_as_cancelled(brief: StageOf, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    async with brief([call("pay", to="ann")], [pay], store=store) as desk:
        run_id = await desk.start()
        await desk.waiting(run_id)
        await desk.runs.cancel(run_id, reason="enough")
        await desk.runs.result(run_id)
        await desk.replay()
        await _taken_by_retention(desk, run_id, *_segments(await desk.runs.events(run_id)))
        desk.started.remove(run_id)
        seen = trace(await Runs(desk.client, store=store).events(run_id))
        assert (seen.state, seen.outcome.reason if seen.outcome else "") == (RunState.CANCELLED, "enough")


async def test_a_store_that_fails_costs_the_trace_and_not_the_run(brief: StageOf, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    async with brief([call("look", at=1), say("done")], [look], store=Store(str(blocked))) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        kept = [e for e in await desk.runs.events(run_id) if isinstance(e, ActivityFailed)]
        assert [(e.activity_id, e.kind) for e in kept] == [("keep-1", "StoreTrouble")]


async def test_without_a_store_nothing_is_exported(brief: StageOf) -> None:
    async with brief(looks(14), [look], turns=100) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        done = [e.activity for e in await desk.runs.events(run_id) if isinstance(e, ActivityScheduled)]
        assert EXPORT_SEGMENT not in done


async def test_of_a_run_that_was_retried_the_store_tells_how_it_ended_at_last(brief: StageOf, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    script = [[call("look", at=at)] for at in range(12)]
    async with brief([*script, [error(401), say("done")]], [look], turns=100, store=store) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.STOP)
        assert (await desk.runs.result(run_id)).state is RunState.FAILED
        failed = _segments(await desk.runs.events(run_id))
        await desk.runs.retry(run_id, by="bob")
        again = await asked_anew(desk, run_id, request)
        await desk.decide(run_id, again, Choice.RETRY)
        assert (await desk.runs.result(run_id)).answer == "done"
        last = (await desk.runs.find(run_id)).segment_id
        assert last not in failed
        assert len(failed) >= 2
        found, events = await kept.latest(store, run_id)
        assert {last, failed[-1]} <= {kept.segment_of(key) for key in await kept.segments(store, run_id)}
        assert found == last
        told = trace(kept.with_end(await decoded(desk.client.data_converter, run_id, events)))
        assert (told.state, told.outcome and told.outcome.answer) == (RunState.ANSWERED, "done")
