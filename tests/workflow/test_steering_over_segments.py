"""What operators said, a pause, and what is held by it cross the seam between two segments."""

import asyncio

import pytest

from perdure import tool
from perdure.core.contracts import Choice, Request, RunState, Steer
from perdure.core.runs import DecisionRefusedError, SteeringRefusedError
from perdure.testing import call, say
from perdure.tools.builtin import ask_operator
from perdure.traces.turns import trace
from tests.conftest import Stage, StageOf
from tests.workflow.test_roll_over import _segments, keys, pay


async def _grown(desk: Stage, run_id: str) -> None:
    """Words that say not whose they are, until the history is long and the run has gone on in a new segment."""
    before = await _segments(desk, run_id)
    for _ in range(60):
        with pytest.raises(SteeringRefusedError, match="must say who"):
            await desk.steer(run_id, Steer.SAY, "x", by=" ")
        if await _segments(desk, run_id) > before:
            return
    raise AssertionError("the run never went on in a new segment")


async def test_a_paused_run_goes_on_in_a_new_segment_and_hears_there_what_was_said_before(brief: StageOf) -> None:
    async with brief([say("done")]) as desk:
        await desk.rest()
        run_id = await desk.start()
        await desk.steer_by_signal(run_id, Steer.PAUSE, "closed", id="pause-1")
        await desk.serve()
        while (await desk.runs.find(run_id)).state is not RunState.PAUSED:
            await asyncio.sleep(0.05)
        await desk.steer(run_id, Steer.SAY, "Be brief.", id="say-1")
        await _grown(desk, run_id)

        row = await desk.runs.find(run_id)
        assert (row.state, row.paused and row.paused.text) == (RunState.PAUSED, "closed")
        assert (await desk.steer(run_id, Steer.SAY, "Be brief.", id="say-1")).again
        assert trace(await desk.runs.events(run_id)).state is RunState.PAUSED
        assert desk.model.requests == []
        await desk.steer(run_id, Steer.RESUME)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert desk.heard().count("Be brief.") == 1
        [first] = trace(await desk.runs.events(run_id)).turns
        assert [word.id for word in first.said] == ["say-1"]


async def test_what_was_approved_before_the_seam_runs_once_after_the_pause(brief: StageOf) -> None:
    keys.clear()
    async with brief([[call("pay", to="ann"), call("pay", to="bob")], say("paid")], [pay]) as desk:
        run_id = await desk.start()
        waiting = await desk.waiting(run_id, 2)
        await desk.steer(run_id, Steer.PAUSE)
        await desk.decide(run_id, waiting[0], Choice.APPROVE)
        await _grown(desk, run_id)
        assert keys == []
        assert (await desk.runs.find(run_id)).requests == (waiting[1],)

        await desk.steer(run_id, Steer.RESUME)
        await desk.decide(run_id, waiting[1], Choice.REJECT)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert len(keys) == 1
        assert desk.texts()[0] == "paid ann"
        [turn, _] = trace(await desk.runs.events(run_id)).turns
        assert [len(call.asked) for call in turn.calls] == [1, 1]


async def test_a_run_cancelled_while_paused_in_its_next_segment_says_what_was_not_done(brief: StageOf) -> None:
    async with brief([call("pay", to="ann")], [pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.steer(run_id, Steer.PAUSE)
        await desk.decide(run_id, request, Choice.APPROVE)
        await _grown(desk, run_id)
        await desk.runs.cancel(run_id, reason="enough")
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.reason) == (RunState.CANCELLED, "enough")
        assert "not run" in outcome.report[0]


async def test_a_question_waits_on_in_the_next_segment_with_its_choices(brief: StageOf) -> None:
    async with brief([call("ask_operator", question="Which?", choices=["a", "b"]), say("a")], [ask_operator]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await _grown(desk, run_id)
        assert (await desk.runs.find(run_id)).requests == (request,)
        await _refused(desk, run_id, request, "c")
        await desk.decide(run_id, request, Choice.ANSWER, result="a")
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert desk.texts() == ["an operator (ann) answers: a"]


async def _refused(desk: Stage, run_id: str, request: Request, answer: str) -> None:
    with pytest.raises(DecisionRefusedError, match="'a', 'b'"):
        await desk.decide(run_id, request, Choice.ANSWER, result=answer)


async def test_what_was_said_in_a_segment_stays_in_the_transcript_of_the_next(brief: StageOf) -> None:
    @tool(effect="read")
    async def look(at: int) -> str:
        """Look at something."""
        return f"seen {at}"

    def script(seen: object) -> object:
        turn: int = seen.turn  # type: ignore[attr-defined]
        return call("look", at=turn) if turn < 16 else say("done")

    async with brief(script, [look], turns=100) as desk:
        await desk.rest()
        run_id = await desk.start()
        await desk.steer_by_signal(run_id, Steer.SAY, "Mind the gap.")
        await desk.serve()
        await desk.runs.result(run_id)
        assert await _segments(desk, run_id) >= 2
        assert desk.heard().count("Mind the gap.") == 1
