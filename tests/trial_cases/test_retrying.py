"""A run that failed is taken on from where it failed: what was done stays done, what nobody knows is not repeated."""

import asyncio

import pytest

from perdure import ToolContext, tool
from perdure.core.contracts import Choice, Request, RequestKind, RunState
from perdure.core.runs import SteeringRefusedError
from perdure.testing import call, error, say
from perdure.traces.turns import trace
from tests.conftest import Stage, StageOf
from tests.trial_cases.conftest import Ledger


async def asked_anew(desk: Stage, run_id: str, before: Request) -> Request:
    """What waits since the run was set back, which has an id of its own."""
    while True:
        [request] = await desk.waiting(run_id)
        if request.id != before.id:
            return request
        await asyncio.sleep(0.05)


async def test_a_run_that_was_stopped_waits_again_for_what_it_was_stuck_on(stage: StageOf, ledger: Ledger) -> None:
    @tool(effect="once", ask=False)
    async def send() -> str:
        """Send it."""
        ledger.record("sent")
        return "sent"

    async with stage([call("send"), [error(401), say("all sent")]], [send]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.STOP)
        assert (await desk.runs.result(run_id)).state is RunState.FAILED

        await desk.runs.retry(run_id, by="bob", reason="the key is new")
        again = await asked_anew(desk, run_id, request)
        assert again.kind is RequestKind.STUCK
        await desk.decide(run_id, again, Choice.RETRY)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "all sent")
        assert ledger.lines == ["sent"]
        assert desk.texts() == ["sent"]
        [retried] = trace(await desk.runs.events(run_id)).retried
        assert (retried.by, retried.reason) == ("bob", "the key is new")
        rows = [row for row in await desk.runs.list(agent=desk.agent.name) if row.run_id == run_id]
        assert [row.state for row in rows] == [RunState.ANSWERED]
        assert await desk.runs.list(state=RunState.FAILED, agent=desk.agent.name) == []


async def test_a_terminated_run_that_may_do_something_twice_is_not_taken_on(stage: StageOf) -> None:
    begun, tried = asyncio.Event(), []

    @tool(effect="once", ask=False)
    async def slow(ctx: ToolContext) -> str:
        """Take a while."""
        tried.append(ctx.attempt)
        begun.set()
        await asyncio.sleep(1)
        return "slowly done"

    async with stage([call("slow"), say("done")], [slow]) as desk:
        run_id = await desk.start()
        await begun.wait()
        await desk.client.get_workflow_handle(run_id).terminate("by mistake")
        assert (await desk.runs.find(run_id)).state is RunState.FAILED
        with pytest.raises(SteeringRefusedError, match="slow"):
            await desk.runs.retry(run_id, by="bob")
        assert len(tried) == 1


async def test_a_terminated_run_goes_on_from_its_last_step(stage: StageOf) -> None:
    looked: list[int] = []

    @tool(effect="read")
    async def look(at: int) -> str:
        """Look at something."""
        looked.append(at)
        return f"seen {at}"

    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        return "paid"

    async with stage([call("look", at=1), call("pay"), say("done")], [look, pay]) as desk:
        run_id = await desk.start()
        [first] = await desk.waiting(run_id)
        await desk.client.get_workflow_handle(run_id).terminate("by mistake")
        await desk.runs.retry(run_id, by="bob")
        again = await asked_anew(desk, run_id, first)
        await desk.decide(run_id, again, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert looked == [1]
        assert desk.texts() == ["seen 1", "paid"]


@pytest.mark.parametrize("ends", ["answered", "cancelled", "not at all"])
async def test_only_what_failed_is_retried(stage: StageOf, ends: str) -> None:
    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        return "paid"

    async with stage([say("done") if ends == "answered" else call("pay")], [pay]) as desk:
        run_id = await desk.start()
        if ends != "answered":
            await desk.waiting(run_id)
        if ends == "cancelled":
            await desk.runs.cancel(run_id)
        if ends != "not at all":
            await desk.runs.result(run_id)
        with pytest.raises(SteeringRefusedError, match="has not failed"):
            await desk.runs.retry(run_id, by="bob")
        if ends == "not at all":
            await desk.runs.cancel(run_id)
            await desk.runs.result(run_id)
