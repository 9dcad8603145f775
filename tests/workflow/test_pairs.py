"""What two features do together, each pair found to be wrong once: by reading, or by the runs of test_together.py."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure import Budget, Critic, tool
from perdure.core.contracts import Choice, RequestKind, RunState, Steer
from perdure.core.transcript import Record
from perdure.temporal.journal import Journal, Segment
from perdure.testing import Script, blank, call, delay, error, say, think
from perdure.traces import cases
from perdure.traces.events import ActivityScheduled
from perdure.traces.turns import trace
from tests.conftest import StageOf, asked
from tests.trial_cases.test_compaction import after
from tests.trial_cases.test_compaction import look as long_look
from tests.workflow.test_roll_over import _grown_at_the_gate, keys, look, looks, pay
from tests.workflow.test_steering_over_segments import _grown

pytestmark = pytest.mark.slow


PATIENCE = 20  # seconds for what would otherwise never end


# --- a roll-over and what goes on meanwhile ---------------------------------------------------------------------------


async def test_a_run_that_went_on_before_its_first_turn_keeps_what_it_was_opened_with(brief: StageOf) -> None:
    script = [call("look", at=1), call("look", at=2), say("done")]
    async with brief(script, [look, pay], cached=0, journal=Journal(kept_bytes=0)) as desk:
        await desk.rest()
        run_id = await desk.start(tools=["look"])
        await desk.steer_by_signal(run_id, Steer.PAUSE)
        await desk.serve()
        await _grown(desk, run_id)
        await desk.steer(run_id, Steer.RESUME)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        offered = [[each["name"] for each in request.body["tools"]] for request in desk.model.requests]
        assert offered == [["look"]] * 3
        events = await desk.runs.events(run_id)
        assert trace(events).model == "claude-opus-5-5"
        assert len(cases.conversation(events)["messages"]) == 7


class Slow(Journal):
    """Reads a whole history only when told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def whole(self, client: Any, segment: Segment) -> Record:
        record = await super().whole(client, segment)
        self.begun.set()
        await self.go.wait()
        return record


async def test_what_is_observed_while_the_run_goes_on_in_a_new_segment_goes_along(brief: StageOf) -> None:
    keys.clear()
    journal = Slow()
    async with brief([[call("pay", to="ann"), call("pay", to="bob")], say("paid")], [pay], journal=journal) as desk:
        run_id = await desk.start()
        ann, bob = await desk.waiting(run_id, 2)
        growing = asyncio.create_task(_grown_at_the_gate(desk, run_id, bob))
        await journal.begun.wait()
        await desk.decide(run_id, ann, Choice.APPROVE)
        while not await desk.observations(run_id):
            await asyncio.sleep(0.05)
        journal.go.set()
        await growing
        await desk.decide(run_id, bob, Choice.REJECT)
        async with asyncio.timeout(PATIENCE):
            assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert desk.texts()[0] == "paid ann"
        assert len(keys) == 1


async def test_a_blank_turn_before_the_seam_lets_no_vendor_miss_the_thinking_of_the_one_before(brief: StageOf) -> None:
    """The latest turn that the model is shown is then an older one, retold: without its thinking, under other ids."""
    loop = asyncio.get_running_loop()
    replies = iter([[think("a"), call("look", at=1)], [think("b"), call("look", at=2)], blank(), say("done")])

    def script(seen: Any) -> Any:
        reply = next(replies)
        if reply == blank():
            asyncio.run_coroutine_threadsafe(desk.steer(run_id, Steer.PAUSE), loop).result(PATIENCE)
        return reply

    async with brief(script, [look]) as desk:
        run_id = await desk.start()
        while (await desk.runs.find(run_id)).state is not RunState.PAUSED:
            await asyncio.sleep(0.05)
        await _grown(desk, run_id)
        await desk.steer(run_id, Steer.RESUME)
        assert (await desk.runs.result(run_id)).answer == "done"


async def test_the_time_of_a_step_that_waits_goes_along(brief: StageOf) -> None:
    replies = iter([[delay(2.2), error(401)], call("look", at=1), say("so far")])
    async with brief(lambda seen: next(replies), [look], budget=Budget(time=timedelta(seconds=2))) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await _grown_at_the_gate(desk, run_id, request, Choice.RETRY)
        await desk.decide(run_id, request, Choice.RETRY)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.LIMITED, "so far")


# --- a pause and what waits -------------------------------------------------------------------------------------------


async def test_more_is_given_to_a_paused_run_in_its_next_segment(brief: StageOf) -> None:
    async with brief(looks(9), [look], budget=Budget(turns=2, ask=True)) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.steer(run_id, Steer.PAUSE)
        await _grown(desk, run_id)
        async with asyncio.timeout(PATIENCE):
            assert (await desk.decide(run_id, request, Choice.EXTEND)).choice is Choice.EXTEND
        assert (await desk.runs.find(run_id)).state is RunState.PAUSED
        await desk.steer(run_id, Steer.RESUME)
        [again] = await desk.waiting(run_id)
        assert (again.kind, again.turn) == (RequestKind.LIMIT, 5)
        await desk.decide(run_id, again, Choice.FINISH)
        assert (await desk.runs.result(run_id)).turns == 5


async def test_a_stuck_run_that_is_paused_takes_a_retry_in_its_next_segment_and_waits_to_be_resumed(
    brief: StageOf,
) -> None:
    async with brief([[error(401), say("done")]]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.steer(run_id, Steer.PAUSE)
        await _grown(desk, run_id)
        async with asyncio.timeout(PATIENCE):
            await desk.decide(run_id, request, Choice.RETRY)
        await _grown(desk, run_id)
        assert len(desk.model.requests) == 1
        await desk.steer(run_id, Steer.RESUME)
        assert (await desk.runs.result(run_id)).answer == "done"


async def test_a_critic_is_not_asked_again_while_the_run_is_paused(stage: StageOf) -> None:
    def reply(seen: Any) -> Any:
        if "You are the critic" in str(seen.body["system"]):
            return [error(401), say("APPROVED")]
        return say("done")

    async with stage(reply, critic=Critic("answer")) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.steer(run_id, Steer.PAUSE)
        await desk.decide(run_id, request, Choice.RETRY)
        await desk.steer(run_id, Steer.PAUSE)  # by now the run has taken the step after
        scheduled = [each.activity_id for each in await desk.runs.events(run_id) if isinstance(each, ActivityScheduled)]
        assert [each for each in scheduled if each.startswith("critic")] == ["critic-1"]
        await desk.steer(run_id, Steer.RESUME)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED


# --- models that take over --------------------------------------------------------------------------------------------


SPARE = "openai:gpt-5.5"


async def test_the_model_that_took_over_writes_the_summaries_too(stage: StageOf) -> None:
    scripts = (
        Script(lambda seen: error(401), model="claude-opus-5-5"),
        Script(after(30, say("done")), model="gpt-5.5"),
    )
    async with stage(scripts, [long_look], turns=100, compact_at=1_200, fallbacks=[SPARE]) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert "SUMMARY-9 of what went" in desk.heard()
        assert [request.body["model"] for request in desk.model.requests].count("claude-opus-5-5") == 1


async def test_a_critic_without_a_model_of_its_own_is_asked_of_the_one_that_took_over(stage: StageOf) -> None:
    def spare(seen: Any) -> Any:
        return say("APPROVED" if "You are the critic" in str(seen.body["instructions"]) else "done")

    scripts = (Script(lambda seen: error(401), model="claude-opus-5-5"), Script(spare, model="gpt-5.5"))
    async with stage(scripts, critic=Critic("answer"), fallbacks=[SPARE]) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        [turn] = trace(await desk.runs.events(run_id)).turns
        assert turn.critique
        assert (turn.critique.approved, turn.critique.model) == (True, "gpt-5.5")
        assert [request.body["model"] for request in desk.model.requests].count("claude-opus-5-5") == 1


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_one_who_speaks_to_a_run_that_goes_in_circles_is_asked_for_more_at_a_limit(stage: StageOf) -> None:
    """Told what to do, it may leave its circle: so its budget is what ends it, and may be raised."""

    async def told(at: int) -> str:
        """Look at something."""
        if len(desk.model.requests) == 4:
            await desk.steer(run_id, Steer.SAY, "Try the other one.")
        return "nothing"

    def script(seen: Any) -> Any:
        if "can be called any more. Answer" in str(seen.body):
            return say("nothing new")
        return call("told", at=1) if seen.turn < 5 else say("done")

    async with stage(script, [tool(effect="read")(told)], budget=Budget(turns=4, ask=True)) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.LIMIT
        await desk.decide(run_id, request, Choice.EXTEND)
        assert (await desk.runs.result(run_id)).answer == "done"


async def test_a_threshold_that_no_transcript_can_be_made_smaller_than_costs_no_compaction_at_each_turn(
    stage: StageOf,
) -> None:
    made = iter([*(call("look", at=at) for at in range(20)), say("done")])

    def script(seen: Any) -> Any:
        return say("so far") if "You will not be shown" in str(seen.body) else next(made)

    async with stage(script, [look], turns=100, compact_at=100) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        events = await desk.runs.events(run_id)
        scheduled = [each.activity_id for each in events if isinstance(each, ActivityScheduled)]
        assert 1 <= len([each for each in scheduled if each.startswith("compact-")]) < len(asked(events)) - 3


async def test_a_trace_counts_the_summaries_as_the_outcome_does(stage: StageOf) -> None:
    async with stage(after(30, say("done")), [long_look], turns=100, compact_at=1_200) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        seen = trace(await desk.runs.events(run_id))
        assert len(seen.compactions) >= 1
        assert (seen.usage, seen.cost) == (outcome.usage, outcome.cost)
        costs = [each.cost or 0 for each in (*seen.turns, *seen.compactions)]
        assert sum(costs) == outcome.cost
