"""C17, C19, C21: tools that raise, block, or return what no transcript can hold."""

import asyncio
import time
from typing import Any

import pytest

from perdure import ToolContext, tool
from perdure.core.contracts import Choice, RunState
from perdure.testing import call, say


async def test_c17_whatever_a_tool_raises_ends_the_call_and_not_the_run(stage, protocol, monkeypatch):
    monkeypatch.setenv("BANK_TOKEN", "s3cret-token")

    @tool(effect="read")
    def boom() -> str:
        """Fail."""
        raise ValueError("no luck in /home/someone/app/bank.py with s3cret-token")

    @tool(effect="read", timeout=0.3, attempts=1)
    async def slow() -> str:
        """Take too long."""
        await asyncio.sleep(60)
        return "late"

    @tool(effect="read")
    async def exiter() -> str:
        """Leave."""
        raise SystemExit(3)

    @tool(effect="read")
    def interrupted() -> str:
        """Be interrupted."""
        raise KeyboardInterrupt

    @tool(effect="read")
    async def cancelled() -> str:
        """Cancel itself."""
        raise asyncio.CancelledError

    @tool(effect="read")
    def ok() -> str:
        """Work."""
        return "fine"

    tools = [boom, slow, exiter, interrupted, cancelled, ok]
    script = [[call(each.name) for each in tools], say("done")]
    async with stage(script, tools, protocol=protocol) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "done")
        texts = desk.texts()
        assert len(texts) == 6
        assert texts[-1] == "fine"
        assert "ValueError: no luck" in texts[0]
        assert "s3cret" not in texts[0]
        assert "/home/" not in texts[0]
        assert "SystemExit" in texts[2]
        assert "KeyboardInterrupt" in texts[3]
        assert (await desk.run("again")).state is RunState.ANSWERED  # the worker lives


@pytest.mark.parametrize("cached", [1000, 0], ids=["warm", "cold"])
async def test_parallel_calls_run_once_each_in_whatever_order_they_end(stage, protocol, ledger, cached):
    @tool(effect="idempotent", ask=False)
    async def act(ctx: ToolContext, n: int) -> str:
        """Act.

        Args:
            n: its number.
        """
        await asyncio.sleep(0.1 * (n % 3))
        ledger.record(f"{n} {ctx.idempotency_key}")
        return f"acted {n}"

    script = [[call("act", n=n) for n in range(6)], [call("act", n=n) for n in range(6, 9)], say("done")]
    async with stage(script, [act], protocol=protocol, cached=cached) as desk:
        assert (await desk.run()).state is RunState.ANSWERED

        assert sorted(line.split()[0] for line in ledger.lines) == [str(n) for n in range(9)]
        assert len({line.split()[1] for line in ledger.lines}) == 9
        assert desk.texts() == [f"acted {n}" for n in range(9)]


async def test_c19_a_blocking_tool_blocks_nothing_else_and_keeps_its_own_limit(stage, ledger):
    @tool(effect="read", timeout=3, attempts=1)
    def sync_wait() -> str:
        """Block a thread."""
        ledger.record("waits")
        time.sleep(6)
        return "never heard"

    @tool(effect="once")
    def send() -> str:
        """Send it."""
        ledger.record("sent")
        return "sent"

    def reply(seen: Any) -> Any:
        if seen.observations:
            return say("done")
        return call("sync_wait") if seen.task == "wait" else call("send")

    async with stage(reply, [sync_wait, send]) as desk:
        blocked = await desk.start("wait")
        while not ledger.lines:
            await asyncio.sleep(0.02)
        other = await desk.start("send")
        [request] = await desk.waiting(other)
        await desk.decide(other, request, Choice.APPROVE)
        assert (await desk.runs.result(other)).state is RunState.ANSWERED
        assert (await desk.runs.find(blocked)).state is RunState.ACTING
        ledger.record("other run ended")
        assert (await desk.runs.result(blocked)).state is RunState.ANSWERED

        assert ledger.lines == ["waits", "sent", "other run ended"]
        assert "no answer within 3 s" in desk.texts()[0]


RETURNED = ["\x00abc", float("nan"), {"x": float("inf")}, None, "", [], "     "]


async def test_c21_a_result_that_json_or_a_vendor_cannot_hold_becomes_one_that_they_can(stage, protocol):
    @tool(effect="read")
    def give(which: int) -> Any:
        """Give what there is.

        Args:
            which: its number.
        """
        return RETURNED[which]

    script = [*(call("give", which=n) for n in range(len(RETURNED))), say("done")]
    async with stage(script, [give], protocol=protocol) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.ANSWERED
        texts = desk.texts()
        assert all(text.strip() for text in texts)
        assert "abc" in texts[0]
        assert "NaN" in texts[1]
        assert "Infinity" in texts[2]
        assert texts[5] == "[]"
        assert await desk.observations(run_id) == texts
        assert "\\u0000" not in await desk.runs.history_json(run_id)


async def test_an_observation_of_five_megabytes_is_cut_and_the_run_goes_on(stage):
    @tool(effect="read")
    def dump() -> str:
        """Everything."""
        return "first " + "x" * 5_000_000 + " last"

    async with stage([call("dump"), say("done")], [dump]) as desk:
        outcome = await desk.run()

        assert outcome.state is RunState.ANSWERED
        [text] = desk.texts()
        assert len(text) < 65_000
        assert text.startswith("first")
        assert text.endswith("last")
        assert "left out" in text
