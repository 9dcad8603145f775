"""What a person can mend makes a run wait and never die; what nobody can mend ends it, soon and with words."""

import asyncio

import pytest

from perdure import Agent, ToolContext, tool
from perdure.core.contracts import RUN, Choice, RequestKind, RunState, Start
from perdure.testing import call, error, say


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


@tool(effect="once")
def send(to: str) -> str:
    """Send it.

    Args:
        to: whom.
    """
    return "sent"


async def test_a_refused_key_makes_the_run_wait_until_it_is_mended(stage, protocol):
    script = [call("look"), [error(401, times=2), say("done")]]
    async with stage(script, [look], protocol=protocol) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.STUCK
        assert "_API_KEY" in request.reason
        await desk.decide(run_id, request, Choice.RETRY)
        while (again := await desk.waiting(run_id))[0].id == request.id:
            await asyncio.sleep(0.05)
        await desk.decide(run_id, again[0], Choice.RETRY)
        outcome = await desk.runs.result(run_id)

        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "done")
        assert desk.texts() == ["seen"]


async def test_a_stuck_run_can_be_stopped(stage):
    async with stage([error(401)], [look]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.STOP)
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.FAILED
        assert "stopped by 'ann'" in outcome.reason
        assert (await desk.runs.find(run_id)).state is RunState.FAILED


async def test_trouble_that_passes_is_sat_out(stage, protocol):
    script = [[error(529, retry_after=0.2), call("look")], [error(500), error(429, retry_after=0.1), say("done")]]
    async with stage(script, [look], protocol=protocol) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.turns) == (RunState.ANSWERED, 2)
        assert [each.status for each in desk.model.requests] == [529, 200, 500, 429, 200]


@pytest.mark.slow  # waits for many seconds
async def test_a_call_whose_tool_is_gone_waits_for_a_worker_that_has_it(stage):
    async with stage([call("send", to="a"), say("done")], [send]) as desk:
        whole, poorer = desk.agent, Agent(desk.agent.name, model=desk.agent.model, instructions="", tools=[look])
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.serve(poorer)
        await desk.decide(run_id, request, Choice.APPROVE)
        while not (stuck := [r for r in await desk.waiting(run_id) if r.kind is RequestKind.STUCK]):
            await asyncio.sleep(0.05)
        assert "has no tool 'send' any more" in stuck[0].reason
        await desk.serve(whole)
        await desk.decide(run_id, stuck[0], Choice.RETRY)
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.ANSWERED
        assert desk.texts() == ["sent"]


@pytest.mark.slow  # waits for many seconds
async def test_of_parallel_calls_one_stop_ends_all_and_runs_none(stage, ledger):
    @tool(effect="once")
    def act(to: str) -> str:
        """Act.

        Args:
            to: on what.
        """
        ledger.record(to)
        return "acted"

    script = [[call("act", to="a"), call("act", to="b"), call("look")], say("done")]
    async with stage(script, [act, look], cached=0) as desk:
        run_id = await desk.start()
        a, _ = await desk.waiting(run_id, 2)
        await desk.serve(Agent(desk.agent.name, model=desk.agent.model, instructions="", tools=[look]))
        await desk.decide(run_id, a, Choice.APPROVE)
        while not (stuck := [r for r in await desk.waiting(run_id) if r.kind is RequestKind.STUCK]):
            await asyncio.sleep(0.05)
        await desk.decide(run_id, stuck[0], Choice.STOP)
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.FAILED
        assert "stopped by 'ann'" in outcome.reason
        assert ledger.lines == []
        assert (await desk.runs.find(run_id)).requests == ()


@pytest.mark.slow  # waits for many seconds
async def test_a_stop_tells_running_siblings_waits_for_them_and_reports_what_they_did(stage, ledger):
    @tool(effect="once")
    def gone() -> str:
        """Do what the next version cannot."""
        return "done"

    @tool(effect="once")
    def slow(ctx: ToolContext) -> str:
        """Act, and wait."""
        ledger.record("begun")
        ctx.wait_cancelled(20)
        ledger.record("told" if ctx.cancelled else "not told")
        return "half done"

    async with stage([[call("slow"), call("gone")], say("never")], [gone, slow]) as desk:
        run_id = await desk.start()
        waits = {each.tool: each for each in await desk.waiting(run_id, 2)}
        await desk.serve(Agent(desk.agent.name, model=desk.agent.model, instructions="", tools=[slow]))
        await desk.decide(run_id, waits["slow"], Choice.APPROVE)
        await desk.decide(run_id, waits["gone"], Choice.APPROVE)
        [stuck] = await desk.waiting(run_id)
        while not ledger.lines:
            await asyncio.sleep(0.02)
        await desk.decide(run_id, stuck, Choice.STOP)
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.FAILED
        assert ledger.lines == ["begun", "told"]
        assert outcome.report == ("slow(): ran", "gone(): not run")


async def started(desk, start):
    """A run begun with `start`, past all that Runs.start would do."""
    queue = desk.task_queue
    args = list(start) if isinstance(start, tuple) else [start]
    handle = await desk.client.start_workflow(RUN, args=args, id=f"odd-{queue}", task_queue=queue)
    desk.started.append(handle.id)
    return handle


GARBAGE = [
    (),
    ({"agent": "x", "task": "y"}, 2),
    None,
    5,
    "text",
    b"bytes",
    {},
    {"agent": "x"},
    {"agent": "x", "task": "y", "state": 5},
    {"agent": "x", "task": "y", "state": {"turn": "many"}},
]


@pytest.mark.parametrize("start", GARBAGE, ids=[str(each)[:40] for each in GARBAGE])
async def test_c39_a_start_that_nobody_can_read_fails_and_says_so(stage, start):
    async with stage([say("never")], [look]) as desk:
        handle = await started(desk, start)
        async with asyncio.timeout(20):
            outcome = await desk.runs.result(handle.id)

        assert outcome.state is RunState.FAILED
        assert "ValidationError" in outcome.reason


async def test_c39_a_bug_in_workflow_code_fails_the_run_with_its_type_and_words(stage):
    """A state that no step of ours makes: calls to settle, and no turn they came from."""
    async with stage([say("never")], [look]) as desk:
        state = {
            "opened": {"digest": "d", "turns": 3},
            "calls": [{"index": 0, "id": "c", "name": "look", "verdict": "run"}],
        }
        start = Start.model_validate({"agent": desk.agent.name, "task": "t", "state": state})
        handle = await started(desk, start)
        async with asyncio.timeout(20):
            outcome = await desk.runs.result(handle.id)

        assert outcome.state is RunState.FAILED
        assert "IndexError" in outcome.reason


async def test_c39_a_transcript_that_the_history_does_not_hold_makes_the_run_wait(stage):
    async with stage([say("never")], [look]) as desk:
        state = {
            "opened": {"digest": "d", "turns": 3},
            "turn": 1,
            "turn_id": "think-1",
            "since": [{"kind": "turn", "id": "think-1", "digest": "d"}],
        }
        start = Start.model_validate({"agent": desk.agent.name, "task": "t", "state": state})
        handle = await started(desk, start)
        [request] = await desk.waiting(handle.id)
        assert request.kind is RequestKind.STUCK
        await desk.decide(handle.id, request, Choice.STOP)

        assert (await desk.runs.result(handle.id)).state is RunState.FAILED
