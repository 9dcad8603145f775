"""Runs that work for others, and those that wait for them, when the history grows long."""

import asyncio
from typing import Any

import pytest

from perdure import Budget, ToolContext, tool
from perdure.core.contracts import Choice, RunState, Steer
from perdure.core.digests import idempotency_key
from perdure.testing import call, say
from tests.conftest import Stage, StageOf
from tests.trial_cases.team import ASK, cast, children, endless, look, payroll, raise_pay, traced
from tests.workflow.test_roll_over import _segments

pytestmark = pytest.mark.slow


async def _grown(desk: Stage, run_id: str) -> None:
    """Words of operators, until the history is longer than a segment is meant to be."""
    for _ in range(9):
        await desk.steer(run_id, Steer.SAY, "hurry")
    for _ in range(12):
        await desk.steer(run_id, Steer.PAUSE)
        await desk.steer(run_id, Steer.RESUME)


async def test_a_run_stays_in_its_segment_while_another_works_for_it(brief: StageOf) -> None:
    def planner(seen: Any) -> Any:
        return ASK if seen.turn == 0 else call("look", at=seen.turn) if seen.turn == 1 else say("fine")

    script = cast(planner, [call("raise_pay", to=1), say("raised")])
    async with brief(script, [payroll([raise_pay]).as_tool("Raises pay."), look]) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        [request] = await desk.waiting(child)
        await _grown(desk, run_id)
        await asyncio.sleep(0.5)
        assert await _segments(desk, run_id) == 1
        await desk.decide(child, request, Choice.APPROVE)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "fine")
        assert await _segments(desk, run_id) == 2
        ours, theirs = await traced(desk, run_id), await traced(desk, child)
        assert [each.observation for each in ours.turns[0].calls] == ["raised"]
        assert outcome.usage == ours.usage + theirs.usage


async def test_keys_and_share_of_a_run_that_works_for_another_cross_its_segments(brief: StageOf) -> None:
    keys = []

    @tool(effect="idempotent", ask=False)
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        return "paid"

    def child_of(seen: Any) -> Any:
        return call("pay") if seen.turn == 14 else endless(seen)

    tools = [payroll([look, pay], budget=Budget(turns=100)).as_tool("Pays.")]
    async with brief(cast([ASK, say("fine")], child_of), tools, budget=Budget(tokens=40_000)) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        [child] = await children(desk, run_id)
        assert await _segments(desk, child) >= 2
        theirs = await traced(desk, child)
        paid = theirs.turns[14].calls[0]
        root = (await traced(desk, run_id)).turns[0].calls[0].key
        assert keys == [paid.key] == [idempotency_key(root, 15, 0, "pay", paid.digest)]
        assert theirs.outcome
        assert "its share of its parent's, is spent" in theirs.outcome.reason
        assert (await desk.runs.find(child)).parent == theirs.parent == run_id


async def test_what_came_of_the_work_is_read_in_the_next_segment_where_it_could_not_be_before(brief: StageOf) -> None:
    """The run is paused when the other ends, rolls over, and looks at it after that."""
    script = cast([ASK, say("fine")], [call("raise_pay", to=1), say("raised")])
    async with brief(script, [payroll([raise_pay]).as_tool("Raises pay.")]) as desk:
        run_id = await desk.start()
        [child] = await children(desk, run_id)
        [request] = await desk.waiting(child)
        await _grown(desk, run_id)
        await desk.steer(run_id, Steer.PAUSE)
        await desk.decide(child, request, Choice.APPROVE)
        while await _segments(desk, run_id) < 2:
            await asyncio.sleep(0.05)
        await desk.steer(run_id, Steer.RESUME)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "fine")
        [seen] = (await traced(desk, run_id)).turns[0].calls
        assert (seen.observation, seen.by) == ("raised", child)
        assert [each.run_id for each in await desk.runs.list() if each.parent == run_id] == [child]
