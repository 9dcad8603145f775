"""C33, C35, C45: long runs, long calls, and runs that are started twice."""

import asyncio
import time
from itertools import pairwise

import pytest

from perdure import tool
from perdure.core.contracts import Choice, RunState
from perdure.testing import call, error, say
from workflows.calls import LOST_WORKER

STEPS = 100
LONGER = LOST_WORKER.total_seconds() + 2


async def test_c33_a_hundred_steps_of_five_kilobytes_cost_the_same_each(stage):
    """Begun with a task of half a megabyte, which every request holds and the history once."""
    task = "the contract, clause by clause: " + "lorem ipsum " * 40_000

    @tool(effect="read")
    def page(n: int) -> str:
        """One page.

        Args:
            n: its number.
        """
        return f"page {n} " + "x" * 5_000

    def reply(seen):
        return call("page", n=seen.turn) if seen.turn < STEPS else say("read")

    async with stage(reply, [page], turns=STEPS + 1) as desk:
        run_id = await desk.start(task)
        outcome = await desk.runs.result(run_id)
        events = (await desk.client.get_workflow_handle(run_id).fetch_history()).events

        assert (outcome.state, outcome.turns) == (RunState.ANSWERED, STEPS + 1)
        ends = [i for i, e in enumerate(events) if _scheduled(e).startswith("think-")]
        sizes = [sum(e.ByteSize() for e in events[a:b]) for a, b in pairwise(ends)]
        assert len(sizes) == STEPS
        assert max(sizes[5:]) < min(sizes[5:]) * 1.2
        assert sum(sizes) < STEPS * 9_000
        assert len(desk.texts()) == STEPS
        assert len(await desk.observations(run_id)) == STEPS


def _scheduled(event):
    return event.activity_task_scheduled_event_attributes.activity_id


@pytest.mark.slow  # waits for many seconds
async def test_c35_calls_longer_than_a_heartbeat_have_one_attempt_and_one_effect(stage, ledger):
    """The framework heartbeats for tools that never do, also for those that block."""

    @tool(effect="once", ask=False)
    def blocking() -> str:
        """Block a thread."""
        ledger.record("blocking")
        time.sleep(LONGER)
        return "woke"

    @tool(effect="idempotent", ask=False)
    async def waiting() -> str:
        """Wait."""
        ledger.record("waiting")
        await asyncio.sleep(LONGER)
        return "waited"

    async with stage([[call("blocking"), call("waiting")], say("done")], [blocking, waiting]) as desk:
        outcome = await desk.run()

        assert outcome.state is RunState.ANSWERED
        assert sorted(ledger.lines) == ["blocking", "waiting"]
        assert desk.texts() == ["woke", "waited"]


async def test_c45_one_business_key_is_one_run(stage, ledger):
    @tool(effect="once", ask=False)
    def act() -> str:
        """Act."""
        ledger.record("acted")
        return "acted"

    async with stage([call("act"), say("done")], [act]) as desk:
        key = f"invoice-{desk.task_queue}"
        starts = [desk.runs.start(desk.agent.name, "pay it", run_id=key) for _ in range(5)]
        started = await asyncio.gather(*starts)
        desk.started.append(key)

        assert sum(each.new for each in started) == 1
        assert {each.run_id for each in started} == {key}
        await desk.runs.result(key)
        again = await desk.runs.start(desk.agent.name, "pay it", run_id=key)
        assert not again.new
        assert (await desk.runs.result(again.run_id)).state is RunState.ANSWERED
        assert ledger.lines == ["acted"]


async def test_c45_a_failed_run_keeps_its_key(stage):
    async with stage([error(401)]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.STOP)
        assert (await desk.runs.result(run_id)).state is RunState.FAILED

        assert not (await desk.runs.start(desk.agent.name, "again", run_id=run_id)).new
        assert (await desk.runs.result(run_id)).state is RunState.FAILED
