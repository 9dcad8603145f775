"""The history holds each thing once, and a run goes on from it alone."""

import pytest

import worker
from perdure import tool
from perdure.core.contracts import CALL_MODEL, RunState
from perdure.core.digests import of_bytes
from perdure.temporal.connect import connect
from perdure.temporal.journal import Journal
from perdure.testing import call, say
from perdure.traces.events import ActivityScheduled

SIZE = 5_000


@tool(effect="read")
async def fetch(step: int) -> str:
    """A page of text, another for each step.

    Args:
        step: which page.
    """
    return f"page {step} " + "x" * SIZE


def steps(count):
    return lambda seen: call("fetch", step=seen.turn) if seen.turn < count else say("done")


async def history_bytes(desk, run_id):
    described = await desk.client.get_workflow_handle(run_id).describe()
    return described.raw_description.workflow_execution_info.history_size_bytes


async def test_a_step_costs_the_same_however_many_went_before(stage):
    async with stage(steps(30), [fetch], turns=100) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        asked = [e for e in await desk.runs.events(run_id) if isinstance(e, ActivityScheduled)]
        sizes = [len(str(e.input)) for e in asked if e.activity == CALL_MODEL]

        assert await history_bytes(desk, run_id) < 30 * (SIZE + 4_000)
        assert max(sizes[2:]) - min(sizes[2:]) < 20  # references only: a digit more in a number


async def test_the_conversation_is_in_no_activitys_input_but_a_short_task_in_the_first(stage):
    async with stage(steps(3), [fetch]) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        first, *inputs = [str(e.input) for e in await desk.runs.events(run_id) if isinstance(e, ActivityScheduled)]

        assert "do it" in first
        assert not any("page" in text or "do it" in text for text in inputs)


@pytest.mark.parametrize("protocol", ["anthropic", "openai-responses", "openai-chat"])
async def test_a_worker_that_keeps_nothing_sends_the_model_the_very_same_bytes(stage, protocol):
    sent = []
    for journal in (Journal(), Journal(kept_bytes=0)):
        async with stage(steps(4), [fetch], protocol=protocol, journal=journal) as desk:
            run_id = await desk.start()
            assert (await desk.runs.result(run_id)).answer == "done"
            key = of_bytes(run_id)[:32].encode()  # one of the vendors is told which run it is
            sent.append([request.raw.replace(key, b"this run") for request in desk.model.requests])
    warm, cold = sent

    assert cold == warm


@pytest.mark.parametrize(("task", "reads"), [("do it", 0), ("do it " * 1_000, 1)])
async def test_a_run_on_one_worker_reads_its_history_once_at_most(stage, task, reads):
    journal = Journal()
    async with stage(steps(6), [fetch], journal=journal) as desk:
        outcome = await desk.runs.result(await desk.start(task))
        assert (outcome.state, journal.reads) == (RunState.ANSWERED, reads)


async def test_two_workers_that_share_a_run_read_it_little_by_little(stage):
    mine, other = Journal(), Journal()
    async with stage(steps(12), [fetch], journal=mine, turns=50) as desk:
        async with worker.build(
            await connect(), {desk.agent.name: desk.agent}, task_queue=desk.task_queue, key=b"k" * 32, journal=other
        ):
            assert (await desk.run()).answer == "done"
        assert [text.split()[1] for text in desk.texts()] == [str(n) for n in range(12)]
        assert mine.reads + other.reads <= 2 * 13  # a page for each thing that the other one did


@pytest.mark.parametrize("cached", [0, 1000])
async def test_a_run_goes_on_when_its_worker_is_replaced_after_every_turn(stage, cached):
    async with stage(steps(3), [fetch], cached=cached) as desk:
        run_id = await desk.start()
        for _ in range(3):
            await desk.serve()
        assert (await desk.runs.result(run_id)).answer == "done"
        assert [text.split()[1] for text in desk.texts()] == ["0", "1", "2"]
