"""C43 without a killed worker: the deed is done, and its answer lost. The ledger is asked, not the trace."""

import sqlite3
from contextlib import closing

import pytest

from perdure import ToolContext, ToolError, tool
from perdure.core.contracts import Choice, RequestKind, RunState
from perdure.testing import call, say
from perdure.tools.declare import NOT_DONE, UNSURE


async def test_c43_a_tool_with_a_key_is_tried_again_under_the_same_key(stage, protocol, tmp_path):
    with closing(sqlite3.connect(tmp_path / "bank", isolation_level=None)) as bank:
        bank.execute("CREATE TABLE attempts (key, attempt)")
        await _pay(stage, protocol, bank)
        assert [attempt for (attempt,) in bank.execute("SELECT attempt FROM attempts")] == [1, 2, 3]
        assert len(set(bank.execute("SELECT key FROM attempts"))) == 1


async def _pay(stage, protocol, bank):

    @tool(effect="idempotent", ask=False)
    async def pay(ctx: ToolContext, amount: int) -> str:
        """Pay.

        Args:
            amount: how much.
        """
        bank.execute("INSERT INTO attempts VALUES (?, ?)", (ctx.idempotency_key, ctx.attempt))
        if ctx.attempt < 3:
            raise TimeoutError("the bank did not answer")
        return f"paid {amount}"

    async with stage([call("pay", amount=5), say("done")], [pay], protocol=protocol) as desk:
        outcome = await desk.run()

        assert outcome.state is RunState.ANSWERED
        assert desk.texts() == ["paid 5"]


@pytest.fixture
def pay(ledger):
    """Pays, and then loses the answer."""

    @tool(effect="once", ask=False)
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        ledger.record(ctx.idempotency_key)
        if len(ledger.lines) == 1:
            raise TimeoutError("the bank did not answer")
        return "paid"

    return pay


async def test_c43_a_tool_without_a_key_is_not_tried_again_and_a_person_is_asked(stage, protocol, pay, ledger):
    async with stage([call("pay"), say("done")], [pay], protocol=protocol) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.UNKNOWN
        assert "the bank did not answer" in request.reason
        await desk.decide(run_id, request, Choice.HAPPENED, result="receipt 7")
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.ANSWERED
        assert len(ledger.lines) == 1
        [text] = desk.texts()
        assert "done" in text
        assert "receipt 7" in text


async def test_a_call_that_did_not_happen_is_run_again_under_its_key(stage, pay, ledger):
    async with stage([call("pay"), say("done")], [pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.RERUN)
        await desk.runs.result(run_id)

        assert len(ledger.lines) == 2
        assert len(set(ledger.lines)) == 1
        assert desk.texts() == ["paid"]


async def test_given_up_the_model_is_told_neither_done_nor_failed(stage, pay, ledger):
    async with stage([call("pay"), say("done")], [pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.GIVE_UP, reason="the bank is closed")
        await desk.runs.result(run_id)

        assert len(ledger.lines) == 1
        [text] = desk.texts()
        assert "outcome unknown" in text
        assert "the bank is closed" in text


@pytest.mark.parametrize("word", ["happened", "not done", "unsure"])
async def test_a_probe_is_believed_before_a_person_is_asked(stage, ledger, word):
    answers = {"happened": "receipt 9", "not done": NOT_DONE, "unsure": UNSURE}

    @tool(effect="once", ask=False, probe=lambda key: answers[word])
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        ledger.record(ctx.idempotency_key)
        if len(ledger.lines) == 1:
            raise TimeoutError("no answer")
        return "paid at last"

    async with stage([call("pay"), say("done")], [pay]) as desk:
        run_id = await desk.start()
        if word == "unsure":
            [request] = await desk.waiting(run_id)
            assert "its probe cannot tell" in request.reason
            await desk.decide(run_id, request, Choice.HAPPENED, result="found by hand")
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.ANSWERED
        [text] = desk.texts()
        assert {"happened": "receipt 9", "not done": "paid at last", "unsure": "found by hand"}[word] in text
        assert len(ledger.lines) == (2 if word == "not done" else 1)
        assert len(set(ledger.lines)) == 1


async def test_a_tool_that_says_no_is_not_in_doubt(stage, ledger):
    @tool(effect="once", ask=False)
    def pay() -> str:
        """Pay."""
        raise ToolError("no such account: ask for its number")

    async with stage([call("pay"), say("done")], [pay]) as desk:
        outcome = await desk.run()

        assert outcome.state is RunState.ANSWERED
        assert desk.texts() == ["no such account: ask for its number"]
