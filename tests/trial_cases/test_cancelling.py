"""C37: a cancel, at any instant, tells the tools, waits for them, and reports what did and did not happen."""

import asyncio
import contextlib

import pytest

from perdure import ToolContext, tool
from perdure.core.contracts import Choice, RequestKind, RunState
from perdure.testing import call, delay, error, say
from perdure.tools.declare import UNSURE
from perdure.traces.events import ActivityCompleted, CancelRequested
from workflows.calls import LOST_WORKER


async def cancelled(desk, run_id, by=""):
    """How the run ended, once its cancel is through."""
    await desk.runs.cancel(run_id, reason="enough", by=by)
    return await ended(desk, run_id)


async def ended(desk, run_id):
    async with asyncio.timeout(60):
        outcome = await desk.runs.result(run_id)
    row = await desk.runs.find(run_id)
    assert row.requests == ()
    assert row.outcome is not None, "the clean-up did not run"
    return outcome


@pytest.mark.parametrize("cached", [1000, 0], ids=["warm", "cold"])
async def test_c37_a_cancel_at_any_instant_is_cleaned_up_after_and_reported_truly(stage, ledger, cached):
    @tool(effect="once", ask=False)
    async def fast(ctx: ToolContext) -> str:
        """Act, and be done."""
        ledger.record(f"fast {ctx.run_id}")
        return "acted"

    @tool(effect="once", ask=False)
    def slow(ctx: ToolContext) -> str:
        """Act in a while, unless told to stop."""
        if ctx.wait_cancelled(0.4):
            raise KeyboardInterrupt
        ledger.record(f"slow {ctx.run_id}")
        return "acted late"

    script = [[call("fast"), call("slow")], [call("fast"), call("slow")], say("done")]
    async with stage(script, [fast, slow], cached=cached) as desk:
        run_ids = [await desk.start() for _ in range(14)]
        for run_id in run_ids:
            await asyncio.sleep(0.08)
            await desk.runs.cancel(run_id, reason="enough")
        outcomes = [await ended(desk, run_id) for run_id in run_ids]

        assert {outcome.state for outcome in outcomes} <= {RunState.CANCELLED, RunState.ANSWERED}
        for run_id, outcome in zip(run_ids, outcomes, strict=True):
            assert outcome.state is RunState.ANSWERED or outcome.reason == "enough"
            assert await _told_truly(desk, run_id, outcome, ledger)


async def _told_truly(desk, run_id, outcome, ledger):
    """Nothing that was done in the turn cut short is reported as not run."""
    done = ledger.lines.count(f"fast {run_id}"), ledger.lines.count(f"slow {run_id}")
    turns = max(outcome.turns, 0)
    for name, count in zip(("fast", "slow"), done, strict=True):
        assert count <= 2
        told = [line for line in outcome.report if line.startswith(name)]
        if outcome.state is RunState.CANCELLED and turns and told and count == turns:
            assert "not run" not in told[0]
    return True


async def test_c37_a_cancel_that_comes_with_the_result_does_not_lose_the_result(stage, ledger):
    clients = []

    @tool(effect="once", ask=False)
    async def act(ctx: ToolContext) -> str:
        """Act, and have the run cancelled in the same breath."""
        await clients[0].get_workflow_handle(ctx.run_id).cancel()
        ledger.record(ctx.run_id)
        return "acted"

    async with stage([call("act"), say("done")], [act]) as desk:
        clients.append(desk.client)
        run_ids = [await desk.start() for _ in range(8)]
        outcomes = [await ended(desk, run_id) for run_id in run_ids]

        assert {outcome.state for outcome in outcomes} == {RunState.CANCELLED}
        assert sorted(ledger.lines) == sorted(run_ids)
        for outcome in outcomes:
            assert outcome.report == ("act(): ran",)


async def test_a_cancel_while_a_gate_waits_withdraws_the_request(stage, ledger):
    @tool(effect="once")
    def send() -> str:
        """Send it."""
        ledger.record("sent")
        return "sent"

    async with stage([[call("send"), call("send")], say("done")], [send]) as desk:
        run_id = await desk.start()
        await desk.waiting(run_id, 2)
        outcome = await cancelled(desk, run_id, by="ann")
        [asked] = [event for event in await desk.runs.events(run_id) if isinstance(event, CancelRequested)]

        assert (asked.by, asked.reason) == ("ann", "enough")
        assert outcome.state is RunState.CANCELLED
        assert outcome.report == ("send(): not run: the run was cancelled first",) * 2
        assert ledger.lines == []


async def test_a_cancel_while_a_decision_is_checked_lets_nothing_run(stage, ledger):
    @tool(effect="once")
    def send() -> str:
        """Send it."""
        ledger.record("sent")
        return "sent"

    async with stage([call("send"), say("done")], [send]) as desk:
        run_ids = [await desk.start() for _ in range(6)]
        for pause, run_id in enumerate(run_ids):
            [request] = await desk.waiting(run_id)
            await desk.decide_by_signal(run_id, request, Choice.APPROVE)
            await asyncio.sleep(pause * 0.01)
            await desk.runs.cancel(run_id)
        outcomes = [await ended(desk, run_id) for run_id in run_ids]

        assert {outcome.state for outcome in outcomes} <= {RunState.CANCELLED, RunState.ANSWERED}
        ran = [outcome for outcome in outcomes if outcome.report != ("send(): not run: the run was cancelled first",)]
        assert len(ledger.lines) == len(ran)


async def test_a_turn_that_comes_with_a_cancel_is_in_the_report(stage, ledger):
    @tool(effect="once", ask=False)
    async def act() -> str:
        """Act."""
        ledger.record("acted")
        return "acted"

    async with stage([[delay(0.3), call("act")], say("done")], [act]) as desk:
        run_ids = [await desk.start() for _ in range(8)]
        for pause, run_id in enumerate(run_ids):
            await asyncio.sleep(0.02 * (pause % 3))
            await desk.runs.cancel(run_id, reason="enough")
        for run_id in run_ids:
            outcome = await ended(desk, run_id)
            recorded = [e for e in await desk.runs.events(run_id) if isinstance(e, ActivityCompleted)]
            turns = [e for e in recorded if e.activity_id.startswith("think-")]
            assert outcome.turns == len(turns)
            assert len(outcome.report) == (len(turns) if outcome.state is RunState.CANCELLED else 0)


async def test_a_cancel_while_the_model_is_asked_ends_the_run_at_once(stage):
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    async with stage([call("look"), [delay(30), say("late")]], [look]) as desk:
        run_id = await desk.start()
        while (await desk.runs.find(run_id)).state is not RunState.THINKING or not await desk.observations(run_id):
            await asyncio.sleep(0.05)
        outcome = await cancelled(desk, run_id)

        assert (outcome.state, outcome.turns) == (RunState.CANCELLED, 1)
        assert outcome.report == ("look(): ran",)


async def test_a_tool_that_ignores_the_cancel_is_waited_for_to_its_own_limit(stage, ledger):
    @tool(effect="once", ask=False, timeout=4)
    async def deaf() -> str:
        """Act, whatever anyone says."""
        ledger.record("begun")
        for _ in range(20):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.1)
        ledger.record("acted")
        return "acted"

    async with stage([call("deaf"), say("done")], [deaf]) as desk:
        run_id = await desk.start()
        while not ledger.lines:
            await asyncio.sleep(0.02)
        await desk.runs.cancel(run_id)
        assert (await desk.runs.find(run_id)).state is RunState.CANCELLING
        outcome = await ended(desk, run_id)

        assert ledger.lines == ["begun", "acted"]
        assert outcome.report == ("deaf(): ran",)


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "blocking"])
async def test_c37_a_tool_learns_of_the_cancel_within_a_few_heartbeats(stage, ledger, blocking):
    @tool(effect="once", ask=False, timeout=6, name="act")
    async def waits() -> str:
        """Wait."""
        try:
            ledger.record("begun")
            await asyncio.sleep(6)
        except asyncio.CancelledError:
            ledger.record("told")
            return "stopped"
        return "acted"

    @tool(effect="once", ask=False, timeout=6, name="act")
    def blocks(ctx: ToolContext) -> str:
        """Block."""
        ledger.record("begun")
        if ctx.wait_cancelled(5.5):
            ledger.record("told")
        return "stopped"

    async with stage([call("act"), say("done")], [blocks if blocking else waits]) as desk:
        run_id = await desk.start()
        while not ledger.lines:
            await asyncio.sleep(0.02)
        await cancelled(desk, run_id)

        assert ledger.lines == ["begun", "told"]


@pytest.mark.slow  # waits for many seconds
async def test_c37_a_tool_learns_of_the_cancel_also_between_two_heartbeats(stage, ledger):
    """Those that the framework sends often are not all sent on: see the worker's own limit."""

    @tool(effect="once", ask=False)
    async def act() -> str:
        """Wait."""
        ledger.record("begun")
        try:
            await asyncio.sleep(LOST_WORKER.total_seconds() / 2)
        except asyncio.CancelledError:
            ledger.record("told")
        return "stopped"

    async with stage([call("act"), say("done")], [act]) as desk:
        run_id = await desk.start()
        while not ledger.lines:
            await asyncio.sleep(0.02)
        await asyncio.sleep(LOST_WORKER.total_seconds() / 6)  # the first has been sent
        await cancelled(desk, run_id)

        assert ledger.lines == ["begun", "told"]


async def test_a_cancel_while_nobody_knows_what_happened_keeps_the_doubt(stage):
    @tool(effect="once", ask=False)
    def pay() -> str:
        """Pay."""
        raise TimeoutError("the bank did not answer")

    async with stage([call("pay"), say("done")], [pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.UNKNOWN
        outcome = await cancelled(desk, run_id)

        [line] = outcome.report
        assert "outcome unknown: it may have taken effect" in line
        assert "the bank did not answer" in line


async def test_a_cancel_during_a_probe_keeps_the_doubt(stage, ledger):
    async def probe(key: str):
        ledger.record("probing")
        await asyncio.sleep(20)
        return UNSURE

    @tool(effect="once", ask=False, probe=probe)
    def pay() -> str:
        """Pay."""
        raise TimeoutError("the bank did not answer")

    async with stage([call("pay"), say("done")], [pay]) as desk:
        run_id = await desk.start()
        while not ledger.lines:
            await asyncio.sleep(0.02)
        outcome = await cancelled(desk, run_id)

        assert "outcome unknown: it may have taken effect" in outcome.report[0]


async def test_a_cancel_while_stuck_ends_the_run(stage):
    async with stage([error(401)]) as desk:
        run_id = await desk.start()
        await desk.waiting(run_id)

        assert (await cancelled(desk, run_id)).state is RunState.CANCELLED
