"""C05, C23, C35, C43: workers are processes here, and they are killed: SIGKILL, no goodbye."""

import asyncio
import sqlite3
import time
from contextlib import closing

import pytest

from perdure.core.contracts import Choice, RequestKind, RunState
from perdure.testing import call, say, think
from perdure.traces.events import ActivityFailed

pytestmark = pytest.mark.slow


async def until_recorded(ledger, line, count=1):
    async with asyncio.timeout(40):
        while sum(each.startswith(line) for each in ledger.lines) < count:
            await asyncio.sleep(0.05)


async def ended(desk, run_id):
    async with asyncio.timeout(60):
        return await desk.runs.result(run_id)


@pytest.mark.parametrize("spoken", ["anthropic", "openai-responses"])
async def test_c23_what_was_approved_runs_once_though_the_worker_died_and_the_model_is_not_asked_again(
    housed, ledger, spoken
):
    """And C05, C27: thoughts between the calls, a free sibling, and all of it read back from the history."""
    first = [think("look first"), call("diag"), think("then tell"), call("send", to="ann")]
    async with housed([first, say("done")], protocol=spoken) as (desk, process):
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await until_recorded(ledger, "diag")
        while not await desk.observations(run_id):
            await asyncio.sleep(0.05)
        process.kill()
        await desk.decide_by_signal(run_id, request, Choice.APPROVE)
        process.start()
        outcome = await ended(desk, run_id)

        assert outcome.state is RunState.ANSWERED
        assert ledger.lines == ["diag", "send ann"]
        assert len(desk.model.requests) == 2
        assert desk.texts() == ["disk is full", "sent to ann"]


async def test_c35_a_read_whose_worker_dies_is_read_again_by_the_next(housed, ledger):
    async with housed([call("slow_read"), say("done")]) as (desk, process):
        run_id = await desk.start()
        await until_recorded(ledger, "read")
        process.kill()
        process.start()
        outcome = await ended(desk, run_id)

        assert outcome.state is RunState.ANSWERED
        assert ledger.lines == ["read attempt 1", "read attempt 1"]  # one lost with its worker does not count
        assert desk.texts() == ["read"]


async def test_c43_of_three_payments_whose_worker_died_none_is_made_twice(housed, ledger):
    """One with a key, one that cannot be repeated, one whose bank can be asked: all in one turn."""
    async with housed([[call("pay", amount=7), call("pay_once", amount=8), call("transfer")], say("done")]) as (
        desk,
        process,
    ):
        run_id = await desk.start()
        for line in ("attempt 1", "paid 8", "transfer"):
            await until_recorded(ledger, line)
        process.kill()
        process.start()
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.UNKNOWN
        assert request.tool == "pay_once"
        await desk.decide(run_id, request, Choice.HAPPENED, result="receipt 8")
        outcome = await ended(desk, run_id)

        assert outcome.state is RunState.ANSWERED
        with closing(sqlite3.connect(f"{ledger.path}.db")) as bank:
            assert bank.execute("SELECT amount FROM paid").fetchall() == [(7,)]
        assert ledger.lines.count("paid 8") == 1
        assert sum(line.startswith("transfer") for line in ledger.lines) == 1
        paid, receipt, transferred = desk.texts()
        assert paid == "paid 7"
        assert "receipt 8" in receipt
        assert "transferred under" in transferred


@pytest.mark.slow
async def test_c43_a_starved_heartbeat_leads_to_a_second_attempt_under_the_same_key(housed, ledger):
    async with housed([call("starve"), say("done")]) as (desk, _):
        outcome = await ended(desk, await desk.start())

        assert outcome.state is RunState.ANSWERED
        assert [line.split()[1] for line in ledger.lines] == ["1", "1"]  # the lost one does not count
        assert len({line.split()[-1] for line in ledger.lines}) == 1


async def test_a_run_that_is_held_to_a_rate_goes_on_when_its_worker_was_killed(housed, ledger, monkeypatch):
    """Killed while a turn is being thought; the model is asked on at the rate."""
    monkeypatch.setenv("PERDURE_RATES", "anthropic=500")
    asked = asyncio.Event()

    def reply(seen):
        if seen.turn == 1 and not asked.is_set():
            loop.call_soon_threadsafe(asked.set)
            time.sleep(1)  # the answer finds nobody
        return [call("diag"), call("diag"), say("done")][seen.turn]

    loop = asyncio.get_running_loop()
    async with housed(reply) as (desk, process):
        run_id = await desk.start()
        async with asyncio.timeout(40):
            await asked.wait()
        process.kill()
        process.start()
        assert (await ended(desk, run_id)).answer == "done"
        failed = [e.activity_id for e in await desk.runs.events(run_id) if isinstance(e, ActivityFailed)]
        assert failed == ["think-1"]  # sent to its vendor's queue, once
