"""Payloads that the server cannot read, and runs that are set back: the record holds, and no effect is doubled."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from perdure import ToolContext, tool
from perdure.core.contracts import Choice, RequestKind, RunState
from perdure.testing import call, say, think


async def test_a_run_works_cold_when_every_payload_is_sealed(stage, protocol, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "agents"))
    monkeypatch.setenv("PERDURE_DATA_CONVERTER", "sealing:converter")

    @tool(effect="once")
    def send(to: str) -> str:
        """Send it.

        Args:
            to: whom.
        """
        return f"sent to {to}"

    script = [[think("hm"), call("send", to="ann")], call("send", to="ben"), say("all sent")]
    async with stage(script, [send], protocol=protocol, cached=0) as desk:
        run_id = await desk.start("tell them of the merger")
        for name in ("ann", "ben"):
            [request] = await desk.waiting(run_id)
            while name not in request.title:
                await asyncio.sleep(0.05)
                [request] = await desk.waiting(run_id)
            await desk.serve()
            await desk.decide(run_id, request, Choice.APPROVE)
        outcome = await desk.runs.result(run_id)

        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "all sent")
        assert desk.texts() == ["sent to ann", "sent to ben"]
        raw = b"".join(
            e.SerializeToString() for e in (await desk.client.get_workflow_handle(run_id).fetch_history()).events
        )
        for word in (b"merger", b"ann", b"all sent"):
            assert word not in raw
        assert "merger" in repr(await desk.runs.events(run_id))


async def reset(desk, run_id, before, tasks_before=0):
    """Set the run back to before the first activity whose id begins with `before`, or some workflow tasks earlier."""
    events = (await desk.client.get_workflow_handle(run_id).fetch_history()).events
    scheduled = next(e for e in events if e.activity_task_scheduled_event_attributes.activity_id.startswith(before))
    done = [e for e in events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    point = sorted(e.event_id for e in done if e.event_id < scheduled.event_id)[-1 - tasks_before]
    await desk.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=desk.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run_id),
            reason="tested",
            workflow_task_finish_event_id=point,
            request_id=f"reset-{run_id}",
        )
    )


async def test_a_run_set_back_asks_again_and_repeats_no_effect(stage, protocol, tmp_path):
    with closing(sqlite3.connect(tmp_path / "bank", isolation_level=None, check_same_thread=False)) as bank:
        bank.execute("CREATE TABLE paid (key PRIMARY KEY)")
        keys = []

        @tool(effect="idempotent")
        async def pay(ctx: ToolContext) -> str:
            """Pay."""
            keys.append(ctx.idempotency_key)
            bank.execute("INSERT OR IGNORE INTO paid VALUES (?)", (ctx.idempotency_key,))
            return "paid"

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            return "seen"

        script = [call("look"), call("pay"), say("done")]
        async with stage(script, [pay, look], protocol=protocol) as desk:
            run_id = await desk.start()
            [first] = await desk.waiting(run_id)
            await desk.decide(run_id, first, Choice.APPROVE)
            assert (await desk.runs.result(run_id)).state is RunState.ANSWERED

            await reset(desk, run_id, "think-2")
            while not (waits := (await desk.runs.find(run_id)).requests):
                await asyncio.sleep(0.05)
            assert waits[0].id != first.id
            await desk.decide(run_id, waits[0], Choice.APPROVE)
            outcome = await desk.runs.result(run_id)

            assert outcome.state is RunState.ANSWERED
            assert len(keys) == 2
            assert bank.execute("SELECT count(*) FROM paid").fetchone() == (1,)


async def test_a_run_set_back_to_an_open_gate_does_not_take_the_old_decision_for_a_new_one(stage, ledger):
    """The server hands old decisions to the run that was set back, before anyone looked at it again."""

    @tool(effect="once")
    def send() -> str:
        """Send it."""
        ledger.record("sent")
        return "sent"

    async with stage([call("send"), say("done")], [send]) as desk:
        run_id = await desk.start()
        [first] = await desk.waiting(run_id)
        await desk.decide(run_id, first, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED

        await reset(desk, run_id, "check-1")
        await asyncio.sleep(2)
        assert ledger.lines == ["sent"]
        [again] = await desk.waiting(run_id)
        await desk.decide(run_id, again, Choice.REJECT)
        await desk.runs.result(run_id)


async def test_what_may_be_done_once_is_in_doubt_when_a_reset_hands_it_on(stage, ledger):
    """The call had been sent when the history was cut: it stays sent, and the server hands it out again."""

    @tool(effect="once", ask=False)
    async def send() -> str:
        """Send it."""
        await asyncio.sleep(0.7)
        ledger.record("sent")
        return "sent"

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    async with stage([[call("look"), call("send")], say("done")], [send, look]) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED

        await reset(desk, run_id, "think-2", tasks_before=1)  # the look was back, the send was on its way
        [again] = await desk.waiting(run_id)
        assert again.kind is RequestKind.UNKNOWN
        assert "reset" in again.reason
        await desk.decide(run_id, again, Choice.HAPPENED, result="sent")
        outcome = await desk.runs.result(run_id)

        assert (outcome.state, ledger.lines) == (RunState.ANSWERED, ["sent"])
