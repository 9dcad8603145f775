"""Operators speak to a run that did not ask: it hears them between turns, and stands still while it is paused."""

import asyncio

import pytest

from perdure import ToolContext, tool
from perdure.core.contracts import CHECK_STEERING, STEER, Choice, RunState, Steer
from perdure.core.runs import RunNotFoundError, SteeringRefusedError
from perdure.testing import call, say
from perdure.traces.events import ActivityScheduled
from perdure.traces.turns import trace
from tests.conftest import Stage, StageOf, asked


class Gateway:
    """Something that a tool waits for, in the middle of a call."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    async def pass_through(self) -> None:
        self.reached.set()
        await self.open.wait()


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
def looks(gateway: Gateway) -> object:
    @tool(effect="read")
    async def look() -> str:
        """Look at something, which takes a while."""
        await gateway.pass_through()
        return "seen"

    return look


@tool(effect="once")
async def pay(ctx: ToolContext, to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


async def _checks(desk: Stage, run_id: str) -> int:
    return len([e for e in await desk.runs.events(run_id) if getattr(e, "activity", "") == CHECK_STEERING])


async def test_what_is_said_is_heard_before_the_next_turn(
    stage: StageOf, protocol: str, looks: object, gateway: Gateway
) -> None:
    async with stage([call("look"), say("the blue one")], [looks], protocol=protocol) as desk:
        run_id = await desk.start()
        await gateway.reached.wait()
        steered = await desk.steer(run_id, Steer.SAY, "Take the blue one.")
        assert (steered.by, steered.verified, steered.again) == ("ann", False, False)
        gateway.open.set()
        assert (await desk.runs.result(run_id)).answer == "the blue one"
        assert "An operator (ann) says: Take the blue one." in desk.heard()
        seen = trace(await desk.runs.events(run_id))
        [word] = seen.turns[1].said
        assert (word.by, word.text, word.turn, word.accepted, word.verified) == (
            "ann",
            "Take the blue one.",
            2,
            True,
            False,
        )
        assert seen.turns[1].heard == ()


async def test_what_is_said_before_the_first_turn_is_heard_in_it(stage: StageOf, protocol: str) -> None:
    async with stage([say("in English")], protocol=protocol) as desk:
        await desk.rest()
        run_id = await desk.start()
        await desk.steer_by_signal(run_id, Steer.SAY, "In English, please.")
        await desk.serve()
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert "In English, please." in desk.heard(0)


async def test_what_is_said_before_the_answer_is_heard_and_the_answer_is_not_the_end(
    stage: StageOf, protocol: str
) -> None:
    thinking, told = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def first(seen: object) -> object:
        loop.call_soon_threadsafe(thinking.set)
        asyncio.run_coroutine_threadsafe(told.wait(), loop).result(30)
        return say("The red one.")

    async with stage([first, say("Then the blue one.")], protocol=protocol) as desk:
        run_id = await desk.start()
        await thinking.wait()
        await desk.steer(run_id, Steer.SAY, "Not the red one.")
        told.set()
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "Then the blue one.", 2)
        assert "Not the red one." in desk.heard()
        assert "The red one." in desk.heard()


async def test_on_the_last_turn_the_run_ends_and_the_trace_says_what_was_not_heard(stage: StageOf) -> None:
    thinking, told = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool(effect="read")
    async def glance() -> str:
        """Glance at something."""
        return "seen"

    def last(seen: object) -> object:
        loop.call_soon_threadsafe(thinking.set)
        asyncio.run_coroutine_threadsafe(told.wait(), loop).result(30)
        return say("What I have.")

    async with stage([call("glance"), last], [glance], turns=1) as desk:
        run_id = await desk.start()
        await thinking.wait()
        await desk.steer(run_id, Steer.SAY, "More, please.")
        told.set()
        assert (await desk.runs.result(run_id)).state is RunState.LIMITED
        [word] = trace(await desk.runs.events(run_id)).spoken
        assert (word.turn, word.accepted) == (None, True)


async def test_the_same_word_twice_is_heard_once(stage: StageOf, looks: object, gateway: Gateway) -> None:
    async with stage([call("look"), say("done")], [looks]) as desk:
        run_id = await desk.start()
        await gateway.reached.wait()
        await desk.steer(run_id, Steer.SAY, "Hurry.", id="word-1")
        await desk.steer_by_signal(run_id, Steer.SAY, "Hurry.", id="word-1")
        assert (await desk.steer(run_id, Steer.SAY, "Hurry.", id="word-1")).id == "word-1"
        gateway.open.set()
        await desk.runs.result(run_id)
        assert desk.heard().count("Hurry.") == 1
        assert await _checks(desk, run_id) == 1


async def test_a_flood_of_words_leaves_only_the_first_few(stage: StageOf, looks: object, gateway: Gateway) -> None:
    async with stage([call("look"), say("done")], [looks]) as desk:
        run_id = await desk.start()
        await gateway.reached.wait()
        for number in range(40):
            await desk.steer_by_signal(run_id, Steer.SAY, f"<word {number}>")
        while await _checks(desk, run_id) < 10:
            await asyncio.sleep(0.05)
        with pytest.raises(SteeringRefusedError, match=r"not heard yet|being checked"):
            await desk.steer(run_id, Steer.SAY, "one more")
        assert await _checks(desk, run_id) == 10
        gateway.open.set()
        await desk.runs.result(run_id)
        assert [n for n in range(40) if f"<word {n}>" in desk.heard()] == list(range(10))


@pytest.mark.slow  # a flood of words
async def test_who_pauses_without_end_cannot_keep_a_run_from_being_resumed(
    stage: StageOf, looks: object, gateway: Gateway
) -> None:
    async with stage([call("look"), say("done")], [looks]) as desk:
        run_id = await desk.start()
        await gateway.reached.wait()
        for _ in range(49):
            await desk.steer(run_id, Steer.PAUSE, by="eve")
            await desk.steer(run_id, Steer.RESUME, by="eve")
        await desk.steer(run_id, Steer.PAUSE, by="eve")
        await desk.steer(run_id, Steer.SAY, "Stay so.", by="eve")
        with pytest.raises(SteeringRefusedError, match="since the latest turn"):
            await desk.steer(run_id, Steer.SAY, "Stay so.", by="eve")
        await desk.steer(run_id, Steer.RESUME)
        with pytest.raises(SteeringRefusedError, match="since the latest turn"):
            await desk.steer(run_id, Steer.PAUSE, by="eve")
        assert await _checks(desk, run_id) == 101
        gateway.open.set()
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED


@pytest.mark.parametrize("junk", [None, 7, {"id": "x"}, {"id": "x", "steer": "sell", "by": "eve"}, "say"])
async def test_a_signal_that_is_no_word_changes_nothing(
    stage: StageOf, looks: object, gateway: Gateway, junk: object
) -> None:
    async with stage([call("look"), say("done")], [looks]) as desk:
        run_id = await desk.start()
        await gateway.reached.wait()
        await desk.client.get_workflow_handle(run_id).signal(STEER, junk)
        gateway.open.set()
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert await _checks(desk, run_id) == 0


async def test_who_speaks_must_say_who_it_is(stage: StageOf, looks: object, gateway: Gateway) -> None:
    async with stage([call("look"), say("done")], [looks]) as desk:
        run_id = await desk.start()
        await gateway.reached.wait()
        with pytest.raises(SteeringRefusedError, match="must say who"):
            await desk.steer(run_id, Steer.SAY, "Hurry.", by=" ")
        with pytest.raises(SteeringRefusedError, match="no words"):
            await desk.steer(run_id, Steer.SAY, " ")
        gateway.open.set()
        await desk.runs.result(run_id)
        assert "Hurry." not in desk.heard()
        [word] = trace(await desk.runs.events(run_id)).spoken
        assert (word.accepted, word.turn) == (False, None)


async def test_nothing_can_be_said_to_a_run_that_has_ended(stage: StageOf) -> None:
    async with stage([say("done")]) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        with pytest.raises(RunNotFoundError):
            await desk.steer(run_id, Steer.SAY, "Wait.")


# --- pausing ----------------------------------------------------------------------------------------------------------


async def test_a_paused_run_ends_what_is_under_way_and_asks_the_model_nothing(
    stage: StageOf, looks: object, gateway: Gateway
) -> None:
    async with stage([call("look"), say("done")], [looks]) as desk:
        run_id = await desk.start()
        await gateway.reached.wait()
        await desk.steer(run_id, Steer.PAUSE, "the shop is closed")
        gateway.open.set()
        while not await desk.observations(run_id):
            await asyncio.sleep(0.05)
        row = await desk.runs.find(run_id)
        assert (row.state, row.paused.by, row.paused.text) == (RunState.PAUSED, "ann", "the shop is closed")
        assert [r.run_id for r in await desk.runs.list(state=RunState.PAUSED, agent=desk.agent.name)] == [run_id]
        seen = trace(await desk.runs.events(run_id))
        assert (seen.state, seen.paused.by) == (RunState.PAUSED, "ann")

        again = await desk.steer(run_id, Steer.PAUSE, "again", by="bob")
        assert (again.by, again.again) == ("ann", True)
        await desk.steer(run_id, Steer.SAY, "Be brief.")
        assert len(asked(await desk.runs.events(run_id))) == 1

        await desk.steer(run_id, Steer.RESUME)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert "Be brief." in desk.heard()
        assert (await desk.runs.find(run_id)).paused is None
        words = [word.steer for word in trace(await desk.runs.events(run_id)).spoken if word.accepted]
        assert words == [Steer.PAUSE, Steer.SAY, Steer.RESUME]


async def test_a_pause_outlives_the_worker(stage: StageOf, looks: object, gateway: Gateway) -> None:
    gateway.open.set()
    async with stage([call("look"), say("done")], [looks], cached=0) as desk:
        await desk.rest()
        run_id = await desk.start()
        await desk.steer_by_signal(run_id, Steer.PAUSE)
        await desk.serve()
        while (await desk.runs.find(run_id)).state is not RunState.PAUSED:
            await asyncio.sleep(0.05)
        await desk.rest()
        await desk.serve()
        await desk.steer_by_signal(run_id, Steer.RESUME)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED


async def test_what_is_approved_while_a_run_is_paused_runs_after_it(stage: StageOf) -> None:
    async with stage([call("pay", to="ann"), say("paid")], [pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.steer(run_id, Steer.PAUSE)
        _, found = await desk.listed(request, RunState.PAUSED)
        assert found == request
        await desk.decide(run_id, request, Choice.APPROVE)
        assert await desk.observations(run_id) == []
        assert not [e for e in await desk.runs.events(run_id) if getattr(e, "activity", "") == "run_tool"]
        await desk.steer(run_id, Steer.RESUME)
        await desk.runs.result(run_id)
        assert desk.texts() == ["paid ann"]


async def test_a_paused_run_can_be_cancelled(stage: StageOf) -> None:
    async with stage([call("pay", to="ann")], [pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.steer(run_id, Steer.PAUSE)
        await desk.decide(run_id, request, Choice.APPROVE)
        await desk.runs.cancel(run_id, reason="enough")
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.reason) == (RunState.CANCELLED, "enough")
        assert "not run: the run was cancelled first" in outcome.report[0]


async def test_to_resume_what_is_not_paused_changes_nothing(stage: StageOf, looks: object, gateway: Gateway) -> None:
    async with stage([call("look"), say("done")], [looks]) as desk:
        run_id = await desk.start()
        await gateway.reached.wait()
        assert (await desk.steer(run_id, Steer.RESUME)).again
        gateway.open.set()
        await desk.runs.result(run_id)
        assert not [
            e for e in await desk.runs.events(run_id) if isinstance(e, ActivityScheduled) and "steer" in e.activity_id
        ]
