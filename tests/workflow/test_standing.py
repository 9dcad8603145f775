"""What is seen of a run without asking a worker, and in Temporal's own UI."""

import asyncio

from temporalio.api.sdk.v1 import WorkflowMetadata

import worker
from perdure import Runs, tool
from perdure.core.contracts import Choice, RunState
from perdure.temporal.connect import connect
from perdure.temporal.workers import identity
from perdure.testing import call, say
from perdure.traces.events import ActivityScheduled


@tool(effect="idempotent")
async def pay(to: str) -> str:
    """Pay somebody.

    Args:
        to: whom.
    """
    return f"paid {to}"


SCRIPT = [call("pay", to="ann `*_<b>"), say("done")]


async def test_what_waits_is_listed_with_no_worker_up(stage):
    async with stage(SCRIPT, [pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.rest()

        [row] = [row for row in await desk.runs.list(state=RunState.WAITING) if row.run_id == run_id]
        assert [waiting.id for waiting in row.requests] == [request.id]
        found, same = await desk.runs.find_request(request.id[:5])
        assert (found.run_id, same) == (run_id, request)

        await desk.serve()
        await desk.decide(run_id, request, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert (await desk.runs.find(run_id)).outcome.answer == ""  # the answer stands in the result, once


async def test_each_activity_says_what_it_does_and_markdown_in_arguments_stays_text(stage):
    async with stage(SCRIPT, [pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        details = await desk.client.get_workflow_handle(run_id).query(
            "__temporal_workflow_metadata", result_type=WorkflowMetadata
        )
        assert f"request {request.id}: approval `pay(" in details.current_details
        assert details.current_details.count("`") == 2

        await desk.decide(run_id, request, Choice.APPROVE)
        await desk.runs.result(run_id)
        summaries = [e.summary for e in await desk.runs.events(run_id) if isinstance(e, ActivityScheduled)]
        assert summaries[0] == "turn 1: think"
        assert [summary for summary in summaries if summary.startswith("turn 1: `pay(to=")]


async def test_a_second_start_with_the_same_business_id_is_the_first_run(stage):
    async with stage(SCRIPT, [pay]) as desk:
        first = await desk.runs.start(desk.agent.name, "pay ann", run_id=f"invoice-{desk.task_queue}")
        again = await desk.runs.start(desk.agent.name, "pay ann", run_id=first.run_id)
        assert (first.new, again.new, again.run_id) == (True, False, first.run_id)
        await desk.runs.cancel(first.run_id, reason="tested")
        assert (await desk.runs.result(first.run_id)).state is RunState.CANCELLED
        after = await desk.runs.start(desk.agent.name, "pay ann", run_id=first.run_id)
        assert not after.new


async def test_workers_say_which_agents_they_serve(stage):
    async with stage(SCRIPT, [pay]) as desk:
        assert await Runs(desk.client, task_queue="nobody-serves-this").served() is None
        async with worker.build(
            await connect(identity=identity(["b", "a"])), {}, task_queue=f"two-{desk.task_queue}", key=b"k" * 32
        ):
            known = Runs(desk.client, task_queue=f"two-{desk.task_queue}")
            for _ in range(100):
                if served := await known.served():
                    break
                await asyncio.sleep(0.05)
            assert served == {"a", "b"}
