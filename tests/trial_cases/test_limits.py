"""What a model, an operator or a deploy may overdo: bounded, told, and never the end of a run."""

import asyncio
import contextlib

import pytest
from temporalio.client import WorkflowUpdateFailedError

from perdure import NOT_DONE, Agent, ToolContext, tool
from perdure.core.contracts import DECIDE, Choice, RequestKind, RunState
from perdure.testing import call, say


@pytest.fixture
def send(ledger):
    @tool(effect="idempotent")
    async def send(to: str) -> str:
        """Send it."""
        ledger.record(to)
        return f"sent to {to}"

    return send


async def test_a_probe_that_says_not_done_has_it_done_again_once_and_no_more(stage, ledger):
    @tool(effect="once", ask=False, probe=lambda key: NOT_DONE)
    async def pay() -> str:
        """Pay."""
        ledger.record("tried")
        raise ConnectionRefusedError("the bank is closed")

    async with stage([call("pay"), say("not paid")], [pay]) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert ledger.lines == ["tried", "tried"]
        assert "surely did not happen" in desk.texts()[0]


@pytest.mark.parametrize("field", ["by", "digest", "id", "reason", "result"])
async def test_a_decision_of_megabytes_is_no_decision(stage, send, ledger, field):
    async with stage([call("send", to="a"), say("done")], [send]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        said = {"id": "d", "request": request.id, "choice": "reject", "by": "mallory", field: "x" * 1_900_000}
        handle = desk.client.get_workflow_handle(run_id)
        await handle.signal(DECIDE, said)
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update(DECIDE, said)
        await desk.decide(run_id, request, Choice.APPROVE)

        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert ledger.lines == ["a"]


async def test_of_very_many_calls_in_one_turn_some_run_and_the_rest_are_told_to_wait(stage, protocol):
    @tool(effect="read")
    async def look(n: int) -> int:
        """Look."""
        return n

    async with stage([[call("look", n=n) for n in range(90)], say("done")], [look], protocol=protocol) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        texts = desk.texts()
        assert texts[:64] == [str(n) for n in range(64)]
        assert all("more than 64 calls" in text for text in texts[64:])
        assert len(texts) == 90


async def test_what_waits_costs_the_history_the_same_for_each_decision(stage, send):
    async with stage([[call("send", to=str(n)) for n in range(30)], say("done")], [send]) as desk:
        run_id = await desk.start()
        requests = await desk.waiting(run_id, 30)
        assert [request.call for request in requests] == list(range(30))
        for request in requests:
            await desk.decide(run_id, request, Choice.REJECT)
        await desk.runs.result(run_id)

        history = await desk.client.get_workflow_handle(run_id).fetch_history()
        memos = [
            e.workflow_properties_modified_event_attributes.ByteSize()
            for e in history.events
            if e.HasField("workflow_properties_modified_event_attributes")
        ]
        assert len(memos) >= 30
        assert sum(memos) < 80_000
        assert (await desk.runs.find(run_id)).requests == ()


async def test_a_tool_that_no_longer_may_be_repeated_is_not(stage, ledger):
    def pay(effect):
        @tool(effect=effect, ask=False)
        async def pay(ctx: ToolContext) -> str:
            """Pay."""
            ledger.record("tried")
            raise ConnectionResetError("no answer")

        return pay

    async with stage([call("pay"), say("done")], [pay("idempotent")]) as desk:
        run_id = await desk.start()
        while not ledger.lines:
            await asyncio.sleep(0.02)
        await desk.serve(Agent(desk.agent.name, model=desk.agent.model, instructions="", tools=[pay("once")]))
        [request] = await desk.waiting(run_id)

        assert request.kind is RequestKind.UNKNOWN
        tried = len(ledger.lines)
        await desk.decide(run_id, request, Choice.GIVE_UP)
        await desk.runs.result(run_id)
        assert len(ledger.lines) == tried


async def test_a_call_of_a_tool_that_a_deploy_took_away_waits_for_the_tool(stage, send, ledger):
    """The run was opened with it: the model is not told that there is none."""
    script = [call("look"), call("send", to="a"), say("done")]
    looking = asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        looking.set()
        await asyncio.sleep(0.5)
        return "seen"

    async with stage(script, [look, send]) as desk:
        whole, run_id = desk.agent, await desk.start()
        await looking.wait()
        await desk.serve(Agent(whole.name, model=whole.model, instructions="", tools=[look]))
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.STUCK
        assert "'send'" in request.reason
        await desk.serve(whole)
        await desk.decide(run_id, request, Choice.RETRY)
        while True:
            with contextlib.suppress(ValueError):
                [approval] = [each for each in await desk.waiting(run_id) if each.kind is RequestKind.APPROVAL]
                break
            await asyncio.sleep(0.05)
        await desk.decide(run_id, approval, Choice.APPROVE)

        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert ledger.lines == ["a"]


async def test_an_id_that_we_make_is_one_that_nobody_else_took(stage):
    @tool(effect="read")
    async def look(n: int) -> int:
        """Look."""
        return n

    script = [[call("look", n=0, id="call_1_1"), call("look", n=1, id="no legal id!")], say("done")]
    async with stage(script, [look], protocol="openai-chat") as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        ids = [call_id for call_id, _ in desk.results()]
        assert len(set(ids)) == 2
        assert desk.texts() == ["0", "1"]
