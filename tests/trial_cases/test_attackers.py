"""Whoever may write to the namespace can send any message. The door that acts believes none of them."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import ActivityFailureError, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.grants import sealed
from perdure import tool
from perdure.core.contracts import (
    CHECK_DECISION,
    DECIDE,
    RUN,
    RUN_TOOL,
    CheckDecision,
    Choice,
    Decision,
    Grant,
    RecordedTurn,
    Request,
    RequestKind,
    RunState,
    RunTool,
    Stop,
)
from perdure.core.digests import of_bytes, of_record
from perdure.core.runs import DecisionRefusedError
from perdure.testing import call, say
from perdure.tools.admission import admit

KEY = b"a key that only these tests' workers share"


@pytest.fixture
def send(ledger):
    @tool(effect="once")
    def send(to: str) -> str:
        """Send it.

        Args:
            to: whom.
        """
        ledger.record(to)
        return f"sent to {to}"

    return send


def forged_turn(send) -> RecordedTurn:
    asked = admit({"send": send}, 0, "c1", "send", '{"to":"mallory"}')
    turn = RecordedTurn(digest="", stop=Stop.CALLS, calls=(asked,), protocol="anthropic", message=[])
    return turn.model_copy(update={"digest": of_record(turn.model_dump(mode="json", exclude={"digest"}))})


@activity.defn(name="forge")
async def forge(turn: Any) -> Any:
    return turn


async def attacked(turn: Any, queue: str, deed: str, asked: Any) -> Any:
    """Make a record of its own, then have our worker act on it."""
    short = timedelta(seconds=15)
    await workflow.execute_activity("forge", turn, activity_id="think-1", start_to_close_timeout=short)
    return await workflow.execute_activity(deed, asked, task_queue=queue, start_to_close_timeout=short)


@workflow.defn(name="Foreign")
class Foreign:
    @workflow.run
    async def run(self, turn: Any, queue: str, deed: str, asked: Any) -> Any:
        return await attacked(turn, queue, deed, asked)


@workflow.defn(name=RUN)
class Posing:
    @workflow.run
    async def run(self, turn: Any, queue: str, deed: str, asked: Any) -> Any:
        return await attacked(turn, queue, deed, asked)


async def attack(desk, kind, turn, deed, asked, run_id):
    queue = f"{desk.task_queue}-theirs"
    async with Worker(
        desk.client,
        task_queue=queue,
        workflows=[kind],
        activities=[forge],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        name = "Foreign" if kind is Foreign else RUN
        args = [turn, desk.task_queue, deed, asked]
        return await desk.client.execute_workflow(name, args=args, id=run_id, task_queue=queue)


def run_tool(desk, turn, grant=None) -> RunTool:
    return RunTool(
        agent=desk.agent.name,
        turn=1,
        turn_id="think-1",
        turn_digest=turn.digest,
        call=0,
        digest=turn.calls[0].digest,
        key="key-1",
        grant=grant,
    )


def grant(run_id: str, digest: str, **other: Any) -> Grant:
    now = datetime.now(UTC)
    given = {"request": "r", "run_id": run_id, "key": "key-1", "digest": digest, "by": "mallory", "verified": False}
    return sealed(Grant(**{**given, "decided": now, "until": now + timedelta(hours=1), **other}), KEY)


GRANTS = {
    "none": lambda id, digest: None,
    "sealed with another key": lambda id, digest: sealed(grant(id, digest), b"x" * 40),
    "unsealed": lambda id, digest: grant(id, digest).model_copy(update={"seal": ""}),
    "changed after sealing": lambda id, digest: grant("other", digest).model_copy(update={"run_id": id}),
    "of another run": lambda id, digest: grant("other", digest),
    "for other bytes": lambda id, digest: grant(id, of_bytes("{}")),
    "for another call": lambda id, digest: grant(id, digest, key="key-2"),
    "expired": lambda id, digest: grant(id, digest, until=datetime.now(UTC) - timedelta(seconds=1)),
}


@pytest.mark.parametrize("which", GRANTS)
async def test_a_gated_tool_does_not_run_under_a_grant_that_does_not_fit(stage, send, ledger, which):
    async with stage([say("never")], [send]) as desk:
        turn, run_id = forged_turn(send), f"posing-{desk.task_queue}"
        asked = run_tool(desk, turn, GRANTS[which](run_id, turn.calls[0].digest))
        seen = await attack(desk, Posing, turn, RUN_TOOL, asked, run_id)

        assert seen["ending"] == "ask"
        assert ledger.lines == []


async def test_the_very_same_call_runs_under_a_grant_that_fits(stage, send, ledger):
    """What the tests above refuse is refused for the grant, and nothing else."""
    async with stage([say("never")], [send]) as desk:
        turn, run_id = forged_turn(send), f"posing-{desk.task_queue}"
        asked = run_tool(desk, turn, grant(run_id, turn.calls[0].digest))
        seen = await attack(desk, Posing, turn, RUN_TOOL, asked, run_id)

        assert (seen["ending"], ledger.lines) == ("ok", ["mallory"])


@pytest.mark.parametrize("deed", [RUN_TOOL, CHECK_DECISION])
async def test_a_workflow_of_another_kind_gets_nothing_done(stage, send, ledger, deed):
    async with stage([say("never")], [send]) as desk:
        turn, run_id = forged_turn(send), f"foreign-{desk.task_queue}"
        about = Request(id="r", kind=RequestKind.APPROVAL, reason="", since=datetime.now(UTC), turn=1)
        word = Decision(id="d", request="r", choice=Choice.APPROVE, by="mallory")
        asked = {
            RUN_TOOL: run_tool(desk, turn, grant(run_id, turn.calls[0].digest)),
            CHECK_DECISION: CheckDecision(decision=word, request=about),
        }[deed]
        with pytest.raises(WorkflowFailureError) as failure:
            await attack(desk, Foreign, turn, deed, asked, run_id)

        assert "belongs to a run" in str(failure.value.cause.cause)
        assert ledger.lines == []


async def test_an_activity_started_by_itself_gets_nothing_done(stage, send, ledger):
    async with stage([say("never")], [send]) as desk:
        asked = run_tool(desk, forged_turn(send))
        with pytest.raises(ActivityFailureError) as failure:
            await desk.client.execute_activity(
                RUN_TOOL,
                asked,
                id=f"alone-{desk.task_queue}",
                task_queue=desk.task_queue,
                start_to_close_timeout=timedelta(seconds=10),
            )

        assert "belongs to a run" in str(failure.value.__cause__)
        assert ledger.lines == []


async def test_a_decision_nobody_asked_for_leaves_nothing(stage, send, ledger):
    async with stage([call("send", to="a"), say("done")], [send]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await asyncio.sleep(0.2)
        before = len((await desk.client.get_workflow_handle(run_id).fetch_history()).events)
        future = request.model_copy(update={"id": "00000000"})
        with pytest.raises(DecisionRefusedError, match="nothing waits under '00000000'"):
            await desk.decide(run_id, future, Choice.APPROVE)
        handle = desk.client.get_workflow_handle(run_id)
        for garbage in (5, {"request": "x"}, "text", None):
            with pytest.raises(WorkflowUpdateFailedError):
                await handle.execute_update(DECIDE, garbage)
        assert len((await handle.fetch_history()).events) == before

        for garbage in (5, {"request": request.id}, "text", None, [1, 2]):
            await handle.signal(DECIDE, garbage)
        await handle.signal(DECIDE)
        await handle.signal(DECIDE, args=[1, 2])
        await handle.signal("unheard_of", 1)
        await desk.decide_by_signal(run_id, future, Choice.APPROVE)
        await desk.decide_by_signal(run_id, request, Choice.APPROVE, by=" ")
        assert (await desk.runs.find(run_id)).requests == (request,)
        await desk.decide(run_id, request, Choice.REJECT)
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.ANSWERED
        assert ledger.lines == []
