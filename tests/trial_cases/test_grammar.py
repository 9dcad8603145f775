"""C01, C03, C05, C07, C09: whatever a model says, the next request is one that its vendor takes."""

import asyncio
import json

import pytest

from perdure import ToolContext, tool
from perdure.core.contracts import Choice, RunState
from perdure.testing import blank, call, pause, say, think


@tool(effect="read")
def number(n: int) -> int:
    """Ten times a number.

    Args:
        n: the number.
    """
    return n * 10


@tool(effect="read", timeout=0.5, attempts=1)
async def sleeper() -> str:
    """Sleep for longer than it may."""
    await asyncio.sleep(30)
    return "slept"


async def test_c01_a_call_that_runs_out_of_time_is_answered_beside_its_finished_sibling(stage, protocol):
    script = [[call("number", n=1), call("sleeper")], call("number", n=2), say("done")]
    async with stage(script, [number, sleeper], protocol=protocol) as desk:
        outcome = await desk.run()

        assert outcome.state is RunState.ANSWERED
        first, second = desk.texts(1)
        assert first == "10"
        assert "no answer within 0.5 s" in second
        assert desk.texts() == [first, second, "20"]


@pytest.mark.parametrize("given", ["call_1", "call_0123456789abcdef0123456789"])  # however long it is
async def test_c03_two_calls_of_one_id_are_two_calls(stage, protocol, given):
    script = [
        [call("number", n=1, id=given), call("number", n=2, id=given)],
        call("number", n=3, id=given),
        call("number", n=4, id=""),
        say("done"),
    ]
    async with stage(script, [number], protocol=protocol) as desk:
        outcome = await desk.run()

        assert outcome.state is RunState.ANSWERED
        assert desk.texts() == ["10", "20", "30", "40"]
        ids = [id for id, _ in desk.results()]
        assert len(set(ids)) == 4
        assert all(ids)


async def test_c03_calls_of_one_id_get_approvals_and_keys_of_their_own(stage, ledger):
    @tool(effect="idempotent")
    def send(ctx: ToolContext, to: str) -> str:
        """Send it.

        Args:
            to: whom.
        """
        ledger.record(f"{to} {ctx.idempotency_key}")
        return f"sent to {to}"

    script = [[call("send", to="a", id="x"), call("send", to="a", id="x")], say("done")]
    async with stage(script, [send]) as desk:
        run_id = await desk.start()
        one, other = await desk.waiting(run_id, 2)
        await desk.decide(run_id, one, Choice.REJECT)
        await desk.decide(run_id, other, Choice.APPROVE)
        await desk.runs.result(run_id)

        assert len(ledger.lines) == 1
        rejected, sent = desk.texts()
        assert "rejected" in rejected
        assert sent == "sent to a"


@pytest.mark.parametrize("spoken", ["anthropic", "openai-responses"])
async def test_c05_thoughts_go_back_as_they_came_also_from_a_cold_worker(stage, spoken):
    interleaved = [think("first a"), call("number", n=1), think("then b"), call("number", n=2)]
    if spoken == "anthropic":
        interleaved.insert(3, think("hidden", redacted=True))
    script = [interleaved, [think("almost"), call("number", n=3)], say("done")]
    async with stage(script, [number], protocol=spoken, cached=0) as desk:
        run_id = await desk.start()
        while len(desk.model.requests) < 1:
            await asyncio.sleep(0.01)
        await desk.serve()
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.ANSWERED
        [recorded] = [e.result["message"] for e in await desk.runs.events(run_id) if _is_turn(e, "think-1")]
        body = desk.model.requests[-1].body
        sent = body["messages"][1]["content"] if spoken == "anthropic" else body["input"][1 : 1 + len(recorded)]
        assert _plain(sent) == _plain(recorded)
        assert json.dumps(recorded).count("first a" if spoken == "anthropic" else "encrypted_content") >= 1


def _is_turn(event, activity_id):
    return getattr(event, "activity_id", "") == activity_id and hasattr(event, "result")


def _plain(blocks):
    """Without the nulls that only answers hold."""
    return [{key: value for key, value in block.items() if value is not None} for block in blocks]


async def test_c07_a_paused_turn_goes_back_unchanged_and_the_run_goes_on(stage):
    async with stage([[say("Looking."), pause("web_search", query="x")], say("found")], [number]) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "found", 2)
        assert desk.model.requests[-1].body["messages"][-1]["content"][-1]["type"] == "server_tool_use"


async def test_c07_pauses_without_end_use_up_the_budget(stage):
    def reply(seen):
        return pause("web_search", query="x") if seen.tools else say("as far as I got")

    async with stage(reply, [number], turns=4) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.LIMITED, "as far as I got", 5)


FORMS = [blank(), blank("null"), blank("text"), think("and nothing else")]


@pytest.mark.parametrize("empty", FORMS, ids=["empty", "null", "text", "reasoning"])
async def test_c09_an_empty_turn_is_not_sent_back_and_the_model_is_asked_again(stage, protocol, empty):
    async with stage([call("number", n=1), empty, say("done")], [number], protocol=protocol) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "done")
        assert "Your last message was empty" in desk.heard()
        assert desk.texts() == ["10"]


async def test_c09_an_empty_turn_three_times_over_is_no_answer(stage, protocol):
    async with stage([call("number", n=1), blank(), blank(), blank()], [number], protocol=protocol) as desk:
        outcome = await desk.run()

        assert (outcome.state, outcome.answer) == (RunState.LIMITED, "")
        assert "no answer" in outcome.reason
