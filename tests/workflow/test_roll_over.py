"""A long run goes on in new segments, and stays one run for everybody who looks at it or decides in it."""

import asyncio
from typing import Any

import pytest

from perdure import Budget, Critic, ToolContext, tool
from perdure.core.contracts import Choice, Request, RequestKind, RunState
from perdure.core.runs import DecisionRefusedError
from perdure.providers.registry import PROTOCOLS
from perdure.temporal.journal import Journal
from perdure.testing import Script, call, error, say, think
from perdure.traces.events import ActivityFailed, RunStarted
from perdure.traces.turns import trace
from tests.conftest import Stage, StageOf, asked

pytestmark = pytest.mark.slow


@tool(effect="read")
async def look(at: int) -> str:
    """Look at something."""
    return f"seen {at}"


keys: list[str] = []


@tool(effect="idempotent")
async def pay(ctx: ToolContext, to: str) -> str:
    """Pay somebody."""
    keys.append(ctx.idempotency_key)
    return f"paid {to}"


def looks(count: int) -> Any:
    return lambda seen: [think(f"turn {seen.turn}"), call("look", at=seen.turn)] if seen.turn < count else say("done")


def written(count: int) -> Any:
    """The same in text mode."""
    action = 'Thought: turn {0}\nAction: look\nAction Input: {{"at": {0}}}'
    return lambda seen: say(action.format(seen.turn) if seen.turn < count else "Final Answer: done")


async def _segments(desk: Stage, run_id: str) -> int:
    return len([e for e in await desk.runs.events(run_id) if isinstance(e, RunStarted)])


@pytest.mark.parametrize("protocol", [*PROTOCOLS, "text+openai-chat"])
async def test_a_run_of_many_turns_crosses_several_segments_and_stays_one(brief: StageOf, protocol: str) -> None:
    script = written if protocol.startswith("text") else looks
    async with brief(script(25), [look], protocol=protocol, turns=100) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer, outcome.turns) == (RunState.ANSWERED, "done", 26)
        assert await _segments(desk, run_id) >= 3

        assert all(f"seen {number}" in desk.heard() for number in range(25))
        seen = trace(await desk.runs.events(run_id))
        assert [turn.number for turn in seen.turns] == list(range(1, 27))
        assert [call.observation for turn in seen.turns for call in turn.calls] == [f"seen {n}" for n in range(25)]
        assert (seen.model, seen.budget, seen.state) == (desk.agent.model.partition(":")[2], 100, RunState.ANSWERED)
        assert seen.usage == outcome.usage
        rows = [row for row in await desk.runs.list(limit=100) if row.run_id == run_id]
        assert [(row.state, row.started) for row in rows] == [(RunState.ANSWERED, seen.started)]


async def test_a_worker_that_keeps_nothing_says_the_same_after_a_roll_over(brief: StageOf) -> None:
    sent = []
    for journal in (Journal(), Journal(kept_bytes=0)):
        async with brief(looks(14), [look], turns=100, journal=journal) as desk:
            await desk.run()
            sent.append([request.body["messages"] for request in desk.model.requests])
    assert sent[0] == sent[1]


async def test_the_thinking_of_the_latest_turn_goes_along_and_older_thinking_does_not(brief: StageOf) -> None:
    async with brief(looks(14), [look], turns=100) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        assert await _segments(desk, run_id) >= 2
        for before, after in zip(desk.model.requests, desk.model.requests[1:], strict=False):
            assert len(after.body["messages"]) == len(before.body["messages"]) + 2
            assert [block["type"] for block in after.body["messages"][-2]["content"]] == ["thinking", "tool_use"]
        assert "'turn 1'" not in desk.heard()


async def test_watching_goes_on_over_the_seam(brief: StageOf) -> None:
    async with brief(looks(14), [look], turns=100) as desk:
        run_id = await desk.start()
        watched = [event async for event in desk.runs.watch(run_id)]
        told = trace(watched)
        assert told.state is RunState.ANSWERED
        assert len([e for e in watched if isinstance(e, RunStarted)]) == await _segments(desk, run_id) >= 2


async def _grown_at_the_gate(desk: Stage, run_id: str, request: Request, choice: Choice = Choice.APPROVE) -> None:
    """Decisions that say not whose they are, until the history is long and the run has gone on in a new segment."""
    number = 0
    while await _segments(desk, run_id) < 2:
        with pytest.raises(DecisionRefusedError, match="must say who"):
            await desk.decide(run_id, request, choice, by=" ")
        number += 1
        assert number < 40


async def test_what_waits_goes_along_and_is_decided_once(brief: StageOf) -> None:
    keys.clear()
    script = [[call("look", at=1), call("pay", to="ann"), call("pay", to="bob")], say("paid")]
    async with brief(script, [look, pay]) as desk:
        run_id = await desk.start()
        waiting = await desk.waiting(run_id, 2)
        assert await _segments(desk, run_id) == 1
        await _grown_at_the_gate(desk, run_id, waiting[0])

        row = await desk.runs.find(run_id)
        assert (row.state, row.requests) == (RunState.WAITING, tuple(waiting))
        assert [(r.run_id, q.id) for r, q in [await desk.listed(waiting[0])]] == [(run_id, waiting[0].id)]
        settled = await desk.decide(run_id, waiting[1], Choice.REJECT, reason="not bob")
        assert settled.choice is Choice.REJECT
        await desk.decide(run_id, waiting[0], Choice.APPROVE)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED

        assert desk.texts()[:2] == ["seen 1", "paid ann"]
        assert "not bob" in desk.texts()[2]
        assert len(keys) == 1
        [turn, _] = trace(await desk.runs.events(run_id)).turns
        assert [call.state for call in turn.calls] == ["ok", "ok", "rejected"]
        assert [len(call.asked) for call in turn.calls] == [0, 1, 1]


async def test_who_was_first_is_still_known_in_the_next_segment(brief: StageOf) -> None:
    script = [[call("pay", to="ann"), call("pay", to="bob")], say("paid")]
    async with brief(script, [pay]) as desk:
        run_id = await desk.start()
        ann, bob = await desk.waiting(run_id, 2)
        await desk.decide(run_id, ann, Choice.REJECT, by="eve")
        await _grown_at_the_gate(desk, run_id, bob)
        with pytest.raises(DecisionRefusedError, match="reject by 'eve'"):
            await desk.decide(run_id, ann, Choice.APPROVE)
        await desk.decide(run_id, bob, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED


async def test_a_run_that_waits_can_be_cancelled_in_its_next_segment(brief: StageOf) -> None:
    async with brief([call("pay", to="ann")], [pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await _grown_at_the_gate(desk, run_id, request)
        await desk.runs.cancel(run_id, reason="enough")
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.reason) == (RunState.CANCELLED, "enough")
        assert [line for line in outcome.report if "not run" in line]


async def test_an_unknown_outcome_is_asked_about_on_and_runs_again_under_its_key(brief: StageOf) -> None:
    tried: list[str] = []

    @tool(effect="once", ask=False)
    async def post(ctx: ToolContext) -> str:
        """Post it."""
        tried.append(ctx.idempotency_key)
        if len(tried) == 1:
            raise ConnectionResetError("no answer")
        return "posted"

    async with brief([call("post"), say("done")], [post]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.UNKNOWN
        await _grown_at_the_gate(desk, run_id, request, Choice.RERUN)
        assert len(tried) == 1
        await desk.decide(run_id, request, Choice.RERUN)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert len(tried) == 2
        assert len(set(tried)) == 1


async def test_a_stuck_run_waits_on_for_the_same_person(brief: StageOf) -> None:
    async with brief([[error(401), say("here I am")]], [look]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await _grown_at_the_gate(desk, run_id, request, Choice.RETRY)
        assert (await desk.runs.find(run_id)).requests == (request,)
        assert len(desk.model.requests) == 1
        await desk.decide(run_id, request, Choice.RETRY)
        assert (await desk.runs.result(run_id)).answer == "here I am"
        assert [e.activity_id for e in asked(await desk.runs.events(run_id))] == ["think-1", "think-1r1"]


async def test_what_was_spent_goes_along_and_an_operator_gives_more(brief: StageOf) -> None:
    async with brief(looks(40), [look], budget=Budget(turns=14, ask=True)) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert (request.kind, request.turn) == (RequestKind.LIMIT, 15)
        crossed = await _segments(desk, run_id)
        assert crossed >= 2
        for _ in range(40):
            with pytest.raises(DecisionRefusedError, match="must say who"):
                await desk.decide(run_id, request, Choice.EXTEND, by=" ")
            if await _segments(desk, run_id) > crossed:
                break
        assert (await desk.runs.find(run_id)).requests == (request,)
        await desk.decide(run_id, request, Choice.EXTEND)
        while (await desk.runs.find(run_id)).requests == (request,):
            await asyncio.sleep(0.05)
        [again] = await desk.waiting(run_id)
        assert (again.turn, again.reason) == (29, "the budget of 28 turns is spent")
        await desk.decide(run_id, again, Choice.FINISH)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.turns) == (RunState.LIMITED, 29)
        told = trace(await desk.runs.events(run_id))
        assert (told.cost, told.usage) == (outcome.cost, outcome.usage)
        assert told.cost


async def test_a_rejected_call_is_not_asked_about_again_in_a_later_segment(brief: StageOf) -> None:
    def script(seen: Any) -> Any:
        if seen.turn in (0, 13):
            return call("pay", to="ann")
        return call("look", at=seen.turn) if seen.turn < 13 else say("not paid")

    async with brief(script, [look, pay], turns=100) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        await desk.decide(run_id, request, Choice.REJECT)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert await _segments(desk, run_id) >= 2
        told = trace(await desk.runs.events(run_id))
        assert [turn.calls[0].state for turn in told.turns if turn.calls and turn.calls[0].tool == "pay"] == [
            "rejected",
            "rejected",
        ]
        assert len(told.all_asked) == 1


async def test_a_circle_is_noticed_over_the_seam(brief: StageOf) -> None:
    """Eight calls a turn, so that four turns do not fit into one segment."""

    def script(seen: Any) -> Any:
        if "can be called any more. Answer" in str(seen.body):
            return say("nothing new")
        return [call("look", at=at) for at in range(8)] if seen.turn < 9 else say("nobody noticed")

    async with brief(script, [look], turns=100) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        assert await _segments(desk, run_id) >= 2
        assert (outcome.state, outcome.turns) == (RunState.LIMITED, 5)


@pytest.mark.parametrize("every", [1, 2])  # so that a segment ends before a note is heard, and after
async def test_a_critic_goes_along_into_new_segments(brief: StageOf, every: int) -> None:
    """It is shown what was before, is heard in them, and its notes are counted over all of them."""

    def reply(seen: Any) -> Any:
        if "You are the critic" in str(seen.body["system"]):
            return say("APPROVED" if "final answer" in seen.task else f"Note after {seen.task.count('calls look')}.")
        return looks(14)(seen)

    critic = Critic("answer", every=every, notes=6)
    async with brief(reply, [look], turns=100, critic=critic, cached=0, journal=Journal(kept_bytes=0)) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "done")
        assert await _segments(desk, run_id) >= 3

        found = trace(await desk.runs.events(run_id))
        told = {turn.number: turn.critique.text for turn in found.turns if turn.critique and turn.critique.told}
        assert told == {number: f"Note after {number}." for number in range(every, 7 * every, every)}
        heard = [desk.heard(place) for place in range(len(desk.model.requests))]
        own = [text for text in heard if "You are the critic" not in text]
        assert all(f"Note after {number}." in own[-1] for number in told)
        assert found.usage == outcome.usage


async def test_the_model_that_took_over_is_asked_on_in_the_next_segment(brief: StageOf) -> None:
    first = Script(lambda seen: error(401), model="claude-opus-5-5")
    spare = Script(looks(25), model="gpt-5.5")
    async with brief((first, spare), [look], turns=100, fallbacks=["openai:gpt-5.5"]) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "done"
        assert await _segments(desk, run_id) >= 3
        assert [request.body["model"] for request in desk.model.requests] == ["claude-opus-5-5"] + ["gpt-5.5"] * 26


async def test_the_tools_that_a_run_was_given_are_its_tools_in_every_segment(brief: StageOf) -> None:
    async with brief(looks(14), [look, pay], turns=100) as desk:
        run_id = await desk.start(tools=["look"])
        assert (await desk.runs.result(run_id)).answer == "done"
        assert await _segments(desk, run_id) >= 2
        offered = [[each["name"] for each in request.body["tools"]] for request in desk.model.requests]
        assert offered == [["look"]] * 15


async def test_a_run_is_sent_to_its_vendors_queue_once_over_all_segments(brief: StageOf) -> None:
    async with brief(looks(14), [look], turns=100, rates={"anthropic": 500.0}) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "done"
        assert await _segments(desk, run_id) >= 2
        events = await desk.runs.events(run_id)
        assert [e.activity_id for e in events if isinstance(e, ActivityFailed)] == ["think-1"]
