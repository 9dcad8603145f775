"""Work that is handed on outlives workers, and a reset of the run that handed it on repeats no effect."""

import asyncio
from typing import Any

import pytest

from perdure import ToolContext, tool
from perdure.core.contracts import Choice, RunState
from perdure.core.runs import SteeringRefusedError
from perdure.temporal.journal import Journal
from perdure.testing import call, error, say
from tests.conftest import Stage, StageOf
from tests.trial_cases.conftest import Housed, Ledger
from tests.trial_cases.team import ASK, cast, children, payroll, raise_pay, reset, stood, traced

pytestmark = pytest.mark.slow


async def test_a_worker_that_is_killed_in_the_others_tool_loses_nothing(housed: Housed, ledger: Ledger) -> None:
    def script(seen: Any) -> Any:
        if seen.task != "do it":
            return [call("pay", amount=3), lambda seen: say(seen.observations[-1])][seen.turn]
        return ASK if seen.turn == 0 else say(f"done: {seen.observations[-1]}")

    def played(seen: Any) -> Any:
        reply = script(seen)
        return reply(seen) if callable(reply) else reply

    async with housed(played) as (desk, process):
        run_id = await desk.start()
        while not ledger.lines:
            await asyncio.sleep(0.05)
        process.kill()
        process.start()
        assert (await desk.runs.result(run_id)).answer == "done: paid 3"
        [child] = await children(desk, run_id)
        assert (await desk.runs.find(child)).state is RunState.ANSWERED
        keys = {line.split()[-1] for line in ledger.lines}
        assert (len(ledger.lines), len(keys)) == (2, 1)


async def test_a_cold_worker_takes_both_runs_on(stage: StageOf) -> None:
    script = cast([ASK, say("fine")], [call("raise_pay", to=1), say("raised")])
    tools = [payroll([raise_pay]).as_tool("Raises pay.")]
    async with stage(script, tools, cached=0, journal=Journal(kept_bytes=0)) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        [request] = await desk.waiting(child)
        await desk.serve()
        await desk.decide(child, request, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).answer == "fine"
        assert desk.texts() == ["raised"]


async def _paying(stage: StageOf, keys: list[str], *, ask: bool) -> Any:
    @tool(effect="idempotent", ask=ask)
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        return "paid"

    return stage(cast([ASK, say("fine")], [call("pay"), say("4,000")]), [payroll([pay]).as_tool("Pays.")])


async def _ended(desk: Stage, run_id: str) -> None:
    assert (await desk.runs.result(run_id)).answer == "fine"


async def test_a_run_set_back_to_before_the_work_has_it_done_under_the_same_keys(stage: StageOf) -> None:
    keys: list[str] = []
    async with await _paying(stage, keys, ask=False) as desk:
        run_id = await desk.start()
        await _ended(desk, run_id)
        [child] = await children(desk, run_id)
        first = await desk.runs.find(child)
        await reset(desk, run_id, 1)
        await _ended(desk, run_id)
        assert (await desk.runs.find(child)).segment_id != first.segment_id
        assert (len(keys), len(set(keys))) == (2, 1)


async def test_work_that_is_still_going_on_when_the_run_is_set_back_is_ended_first(stage: StageOf) -> None:
    keys: list[str] = []
    async with await _paying(stage, keys, ask=True) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        [old] = await desk.waiting(child)
        first = (await desk.runs.find(child)).segment_id
        await reset(desk, run_id, 1)
        while (row := await desk.runs.find(child)).segment_id == first or not row.requests:
            await asyncio.sleep(0.05)
        before = desk.client.get_workflow_handle(child, run_id=first)
        assert (await before.describe()).status.name == "CANCELED"
        assert row.requests[0].id != old.id
        await desk.decide(child, row.requests[0], Choice.APPROVE)
        await _ended(desk, run_id)
        assert len(keys) == 1


async def test_a_run_set_back_to_while_the_other_worked_waits_for_that_very_run(stage: StageOf) -> None:
    keys: list[str] = []
    async with await _paying(stage, keys, ask=True) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        [request] = await desk.waiting(child)
        await stood(desk, run_id, RunState.ACTING)
        while (await traced(desk, run_id)).turns[0].calls[0].state != "running":
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # for the task that took in that it has begun
        await reset(desk, run_id, 2)
        await desk.decide(child, request, Choice.APPROVE)
        await _ended(desk, run_id)
        assert len(keys) == 1


async def test_a_run_set_back_to_before_it_heard_of_the_end_hears_of_it_again(stage: StageOf) -> None:
    keys: list[str] = []
    async with await _paying(stage, keys, ask=False) as desk:
        run_id = await desk.start()
        await _ended(desk, run_id)
        await children(desk, run_id)
        await reset(desk, run_id, 2)
        await _ended(desk, run_id)
        assert len(keys) == 1
        assert desk.texts() == ["4,000"]


async def test_a_run_that_was_terminated_while_another_worked_for_it_is_not_taken_on(stage: StageOf) -> None:
    script = cast([ASK, say("fine")], [call("raise_pay", to=1), say("raised")])
    async with stage(script, [payroll([raise_pay]).as_tool("Raises pay.")]) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        await desk.waiting(child)
        await desk.client.get_workflow_handle(run_id).terminate(reason="away with it")
        await stood(desk, child, RunState.CANCELLED)
        with pytest.raises(SteeringRefusedError, match=f"run {child} was working for this one"):
            await desk.runs.retry(run_id, by="ann")


async def test_a_run_that_is_taken_on_keeps_what_came_of_the_work(stage: StageOf) -> None:
    script = cast([ASK, [error(401), say("fine")]], [say("4,000")])
    async with stage(script, [payroll().as_tool("Knows.")]) as desk:
        run_id = await desk.start()
        [stuck] = await desk.waiting(run_id)
        [child] = await children(desk, run_id)
        first = (await desk.runs.find(child)).segment_id
        await desk.decide(run_id, stuck, Choice.STOP)
        assert (await desk.runs.result(run_id)).state is RunState.FAILED
        await desk.runs.retry(run_id, by="ann")
        while not (waits := (await desk.runs.find(run_id)).requests) or waits == (stuck,):
            await asyncio.sleep(0.05)
        await desk.decide(run_id, waits[0], Choice.RETRY)
        await _ended(desk, run_id)
        assert desk.texts() == ["4,000"]
        assert (await desk.runs.find(child)).segment_id == first
