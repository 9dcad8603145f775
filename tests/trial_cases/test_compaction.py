"""C49: a transcript that grew too long is compacted, stays valid, and loses neither the task nor a decision."""

from itertools import pairwise
from typing import Any

import pytest

from perdure import tool
from perdure.core.contracts import Choice, RequestKind, RunState
from perdure.providers.registry import PROTOCOLS
from perdure.temporal.journal import Journal
from perdure.testing import call, error, say, think
from perdure.traces.turns import trace

TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
TASK = "find it, and keep MARKER-17 in mind"


@tool(effect="read")
async def look(at: int) -> str:
    """Look at something."""
    return f"seen {at}: " + "x" * 2_000


@tool(effect="once")
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


def after(looks: int, *last: Any) -> Any:
    """A script that looks so often, however little of that it is shown later, and then does the rest."""
    rest = iter(last)

    def reply(seen: Any) -> Any:
        if "You will not be shown" in str(seen.body):
            return say("SUMMARY-9 of what went")
        shown = [int(text.split()[1].rstrip(":")) for text in seen.observations if text.startswith("seen")]
        done = max(shown, default=-1) + 1
        return [think(f"{done}"), call("look", at=done)] if done < looks else next(rest)

    return reply


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_c49_a_transcript_too_long_for_the_model_is_compacted_and_asked_again(stage, protocol):
    too_long = {"openai-chat": "context_length_exceeded", "openai-responses": "context_length_exceeded"}
    refusal = error(400, too_long.get(protocol), TOO_LONG)
    looks = [call("look", at=number) for number in range(5)]
    async with stage([*looks, [refusal, say("found")]], [look], protocol=protocol) as desk:
        run_id = await desk.start(TASK)
        outcome = await desk.runs.result(run_id)

        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "found", 6)
        assert len(str(desk.model.requests[-1].body)) < len(str(desk.model.requests[-2].body)) * 0.7
        assert "MARKER-17" in desk.heard()
        assert desk.texts()[-1].startswith("seen 4") or "seen 4" in desk.texts()[-1]
        assert [len(turn.calls) for turn in trace(await desk.runs.events(run_id)).turns] == [1, 1, 1, 1, 1, 0]


async def test_c49_one_that_never_fits_makes_the_run_wait_after_a_few_times(stage):
    refusal = error(400, None, TOO_LONG, times=9)
    async with stage([call("look", at=0), [refusal, say("never")]], [look]) as desk:
        run_id = await desk.start(TASK)
        [request] = await desk.waiting(run_id)
        assert (request.kind, "too long" in request.reason) == (RequestKind.STUCK, True)
        assert len(desk.model.requests) == 5  # as it was, and three times compacted
        await desk.decide(run_id, request, Choice.STOP)
        assert (await desk.runs.result(run_id)).state is RunState.FAILED


async def test_c49_a_task_that_does_not_fit_alone_makes_the_run_wait_at_once(stage):
    async with stage([[error(400, None, TOO_LONG), say("never")]], [look]) as desk:
        run_id = await desk.start(TASK)
        [request] = await desk.waiting(run_id)
        assert len(desk.model.requests) == 1
        await desk.decide(run_id, request, Choice.STOP)
        await desk.runs.result(run_id)


@pytest.mark.parametrize("kept_bytes", [None, 0])
async def test_c49_at_a_threshold_old_observations_are_cleared_again_and_again(stage, kept_bytes):
    journal = Journal() if kept_bytes is None else Journal(kept_bytes=kept_bytes)
    script = after(30, [call("look", at=99), call("pay", to="ann")], say("paid"))
    async with stage(script, [look, pay], turns=100, journal=journal, compact_at=4_000) as desk:
        run_id = await desk.start(TASK)
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.REJECT, reason="account closed")
        outcome = await desk.runs.result(run_id)

        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "paid")
        sizes = [len(str(request.body)) for request in desk.model.requests]
        assert max(sizes) < 30_000  # 30 looks of 2,000 bytes would be 60,000
        assert sum(after < before for before, after in pairwise(sizes)) >= 3
        assert "MARKER-17" in desk.heard()
        assert "account closed" in desk.heard()
        seen = trace(await desk.runs.events(run_id))
        assert [turn.number for turn in seen.turns] == list(range(1, 33))
        assert all((call.observation or "").startswith("seen") for turn in seen.turns[:30] for call in turn.calls)


async def test_c49_turns_that_go_are_summarised_by_the_model_and_that_is_counted(stage):
    async with stage(after(30, say("found")), [look], turns=100, compact_at=1_200) as desk:
        run_id = await desk.start(TASK)
        outcome = await desk.runs.result(run_id)
        assert outcome.state is RunState.ANSWERED
        assert "SUMMARY-9 of what went" in desk.heard()
        assert "MARKER-17" in desk.heard()
        turns = trace(await desk.runs.events(run_id)).turns
        assert outcome.usage.input > sum(turn.usage.input for turn in turns)


async def test_c49_a_summary_that_fails_costs_the_summary_alone(stage):
    def reply(seen: Any) -> Any:
        return error(500) if "You will not be shown" in str(seen.body) else working(seen)

    working = after(30, say("found"))
    async with stage(reply, [look], turns=100, compact_at=1_200) as desk:
        assert (await desk.run(TASK)).state is RunState.ANSWERED
        assert "earlier turns are not shown any more" in desk.heard()
