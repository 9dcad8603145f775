"""A vendor with a rate is asked on a task queue of its own, which the server hands out at that rate to all workers."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import worker
from activities import fallback
from perdure import Critic, tool
from perdure.core.contracts import ASK_CRITIC, CALL_MODEL, COMPACT_TRANSCRIPT, Choice, RequestKind, RunState
from perdure.temporal.connect import connect
from perdure.temporal.journal import Journal
from perdure.temporal.survey import survey
from perdure.testing import Script, call, error, say
from perdure.traces import lines as rows
from perdure.traces import text
from perdure.traces.events import ActivityFailed
from perdure.traces.narrate import Narration
from perdure.traces.turns import trace
from tests.conftest import GRANT_KEY, Stage, StageOf

pytestmark = pytest.mark.slow


FAST = 500.0  # calls a second: a rate that keeps nobody waiting
BOTH = {"anthropic": FAST, "openai": FAST}
OVERLOADED = error(529, retry_after=0.05)


@tool(effect="read")
async def look(at: int) -> str:
    """Look at something."""
    return f"seen {at}"


@tool(effect="once")
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


def looks(count: int, last: Any = None) -> Any:
    return lambda seen: call("look", at=seen.turn) if seen.turn < count else last or say("done")


async def sent(desk: Stage, run_id: str, *activities: str) -> list[tuple[str, str]]:
    """(activity id, vendor of the task queue or "") of what asked a model, in order."""
    found = []
    for history in reversed(await desk.segments(run_id)):
        for event in history.events:
            a = event.activity_task_scheduled_event_attributes
            if a.activity_type.name in (activities or (CALL_MODEL,)):
                found.append((a.activity_id, a.task_queue.name.removeprefix(desk.task_queue).removeprefix("/")))
    return found


async def moved(desk: Stage, run_id: str) -> list[str]:
    events = await desk.runs.events(run_id)
    return [e.activity_id for e in events if isinstance(e, ActivityFailed) and e.kind == "Elsewhere"]


def asked(desk: Stage) -> list[str]:
    return [request.body["model"] for request in desk.model.requests]


@pytest.mark.parametrize(
    ("protocol", "vendor"),
    [
        ("anthropic", "anthropic"),
        ("openai-responses", "openai"),
        ("openai-chat", "openai"),
        ("text+anthropic", "anthropic"),
    ],
)
async def test_a_run_is_sent_to_its_vendors_queue_once(stage: StageOf, protocol: str, vendor: str) -> None:
    script = looks(3)
    if protocol.startswith("text"):
        action = 'Thought: so\nAction: look\nAction Input: {{"at": {0}}}'
        script = lambda seen: say(action.format(seen.turn) if seen.turn < 3 else "Final Answer: done")  # noqa: E731
    async with stage(script, [look], protocol=protocol, rates=BOTH) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "done"
        assert await sent(desk, run_id) == [
            ("think-1", ""),
            *((activity_id, vendor) for activity_id in ("think-1r1", "think-2", "think-3", "think-4")),
        ]
        assert await moved(desk, run_id) == ["think-1"]
        assert len(desk.model.requests) == 4


async def test_who_sets_no_rate_has_not_an_event_more(stage: StageOf) -> None:
    for rates in ({}, {"openai": FAST}):
        async with stage(looks(1), [look], rates=rates) as desk:
            run_id = await desk.start()
            assert (await desk.runs.result(run_id)).answer == "done"
            assert await sent(desk, run_id) == [("think-1", ""), ("think-2", "")]
            assert await moved(desk, run_id) == []


async def test_two_workers_together_ask_no_more_often_than_the_rate(stage: StageOf) -> None:
    """Of 12 runs that wait when both begin, never more have been asked than the rate and its bursts allow."""
    arrived: list[float] = []

    def reply(seen: Any) -> Any:
        arrived.append(time.monotonic())
        return say("done")

    rates = {"anthropic": 3.0}
    async with stage(reply, rates=rates) as desk:
        await desk.rest()
        runs = [await desk.start() for _ in range(12)]
        agents, began = {desk.agent.name: desk.agent}, time.monotonic()
        await desk.serve()
        async with worker.build(
            await connect(), agents, task_queue=desk.task_queue, key=GRANT_KEY, rates=rates, journal=Journal()
        ):
            outcomes = await asyncio.gather(*map(desk.runs.result, runs))
        assert {outcome.answer for outcome in outcomes} == {"done"}
        assert len(arrived) == 12
        for count, at in enumerate(arrived, start=1):
            assert count <= 3 * (at - began) + 8  # the rate; a burst of one from each of four partitions, and four more


async def test_a_line_that_is_longer_than_a_runs_patience_is_waited_for(stage: StageOf) -> None:
    async with stage(say_done, rates={"anthropic": 3.0}, patience=timedelta(seconds=0.5)) as desk:
        await desk.rest()
        runs = [await desk.start() for _ in range(14)]
        await desk.serve()
        outcomes = await asyncio.gather(*map(desk.runs.result, runs))
        assert [outcome.answer for outcome in outcomes] == ["done"] * 14
        assert len(desk.model.requests) == 14
        lost = [e.kind for run in runs for e in await desk.runs.events(run) if isinstance(e, ActivityFailed)]
        assert "timeout:schedule_to_start" in lost


def say_done(seen: Any) -> Any:
    return say("done")


async def test_a_run_whose_rate_is_gone_goes_on(stage: StageOf) -> None:
    async with stage(
        [call("pay", to="ann"), *(call("look", at=at) for at in range(2)), say("done")],
        [look, pay],
        rates=BOTH,
        patience=timedelta(seconds=3),
    ) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        desk.rates = {}
        await desk.serve()
        await desk.decide(run_id, request, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).answer == "done"
        assert await sent(desk, run_id) == [
            ("think-1", ""),
            ("think-1r1", "anthropic"),
            ("think-2", "anthropic"),
            ("think-2r1", ""),
            ("think-3", ""),
            ("think-4", ""),
        ]


async def test_a_run_that_began_before_there_was_a_rate_is_held_to_it(stage: StageOf) -> None:
    async with stage([call("pay", to="ann"), call("look", at=1), say("done")], [look, pay]) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        desk.rates = BOTH
        await desk.serve()
        await desk.decide(run_id, request, Choice.APPROVE)
        assert (await desk.runs.result(run_id)).answer == "done"
        assert await sent(desk, run_id) == [
            ("think-1", ""),
            ("think-2", ""),
            ("think-2r1", "anthropic"),
            ("think-3", "anthropic"),
        ]


async def test_a_run_in_line_can_be_cancelled(stage: StageOf) -> None:
    async with stage([call("pay", to="ann"), say("never")], [pay], rates=BOTH) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        desk.rates = {}
        await desk.serve()  # nobody is there who holds to the rate, and the patience is long
        await desk.decide(run_id, request, Choice.APPROVE)
        while (await sent(desk, run_id))[-1] != ("think-2", "anthropic"):
            await asyncio.sleep(0.05)
        await desk.runs.cancel(run_id, reason="enough")
        assert (await desk.runs.result(run_id)).state is RunState.CANCELLED


# --- fallbacks --------------------------------------------------------------------------------------------------------


def first(reply: Any) -> Script:
    return Script(reply, model="claude-opus-5-5")


def spare(reply: Any, model: str = "gpt-5.5") -> Script:
    return Script(reply, model=model)


async def test_a_fallback_is_asked_on_its_own_vendors_queue_and_there_again(stage: StageOf) -> None:
    scripts = (first(lambda seen: error(401)), spare(looks(2)))
    async with stage(scripts, [look], fallbacks=["openai:gpt-5.5"], rates=BOTH) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "done"
        assert await sent(desk, run_id) == [
            ("think-1", ""),
            ("think-1r1", "anthropic"),
            *((activity_id, "openai") for activity_id in ("think-1r2", "think-2", "think-3")),
        ]
        assert asked(desk) == ["claude-opus-5-5", *["gpt-5.5"] * 3]
        [turn, *_] = trace(await desk.runs.events(run_id)).turns
        assert [said.partition(":")[0] for said in turn.passed] == ["anthropic claude-opus-5-5"]


async def test_an_overload_is_sat_out_as_long_as_without_a_rate(stage: StageOf) -> None:
    scripts = (first(lambda seen: OVERLOADED), spare(looks(0)))
    async with stage(scripts, fallbacks=["openai:gpt-5.5"], rates=BOTH) as desk:
        assert (await desk.run()).answer == "done"
        assert asked(desk) == ["claude-opus-5-5"] * 5 + ["gpt-5.5"]


async def test_a_fallback_without_a_rate_is_asked_on_the_runs_own_queue(stage: StageOf) -> None:
    scripts = (first(lambda seen: error(401)), spare(looks(1)))
    async with stage(scripts, [look], fallbacks=["openai:gpt-5.5"], rates={"anthropic": FAST}) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "done"
        assert await sent(desk, run_id) == [
            ("think-1", ""),
            ("think-1r1", "anthropic"),
            ("think-1r2", ""),
            ("think-2", ""),
        ]


async def test_when_the_first_model_is_back_so_is_the_run(stage: StageOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "_REST", timedelta(0))
    said = [error(401), call("look", at=1), say("done")]
    scripts = (first(lambda seen: said[seen.turn]), spare(looks(1)))
    async with stage(scripts, [look], fallbacks=["openai:gpt-5.5"], rates=BOTH) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "done"
        vendors = [vendor for _, vendor in await sent(desk, run_id)]
        assert vendors == ["", "anthropic", "openai", "openai", "anthropic", "anthropic"]
        assert asked(desk) == ["claude-opus-5-5", "gpt-5.5", "claude-opus-5-5", "claude-opus-5-5"]


async def test_each_request_of_one_vendors_models_has_its_own_place_in_the_line(stage: StageOf) -> None:
    scripts = (first(lambda seen: error(401)), spare(looks(1), "claude-haiku-5-5"))
    async with stage(scripts, [look], fallbacks=["anthropic:claude-haiku-5-5"], rates=BOTH) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "done"
        assert [vendor for _, vendor in await sent(desk, run_id)] == ["", *["anthropic"] * 3]
        assert len(desk.model.requests) == 3


@pytest.mark.parametrize("out", [OVERLOADED, error(401)])
async def test_when_all_are_out_a_person_is_asked_in_the_end_and_everything_begins_anew(
    stage: StageOf, out: Any
) -> None:
    mended: list[bool] = []
    scripts = (first(lambda seen: say("mended") if mended else out), spare(lambda seen: out))
    async with stage(scripts, fallbacks=["openai:gpt-5.5"], rates=BOTH) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.STUCK
        assert "Anthropic answered" in request.reason
        assert "OpenAI answered" in request.reason
        assert len(desk.model.requests) <= 15
        mended.append(True)
        await desk.decide(run_id, request, Choice.RETRY)
        assert (await desk.runs.result(run_id)).answer == "mended"


# --- what else asks a model -------------------------------------------------------------------------------------------


async def test_a_critic_of_another_vendor_has_its_own_queue_and_is_sent_there_once(stage: StageOf) -> None:
    critic = Critic("answer", every=1, model="openai:gpt-5.5")
    scripts = (first(looks(2)), spare(lambda seen: say("APPROVED")))
    async with stage(scripts, [look], critic=critic, rates=BOTH) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "done"
        vendors = [vendor for _, vendor in await sent(desk, run_id, ASK_CRITIC)]
        assert vendors == ["", *["openai"] * (len(vendors) - 1)]
        assert len(vendors) >= 3
        assert [vendor for _, vendor in await sent(desk, run_id)] == ["", *["anthropic"] * 3]


async def test_a_summary_is_asked_for_at_the_rate_and_what_needs_none_is_not_in_line(stage: StageOf) -> None:
    def reply(seen: Any) -> Any:
        if "You will not be shown" in str(seen.body):
            return say("a summary")
        shown = [int(told.split()[1]) for told in seen.observations if told.startswith("seen")]
        done = max(shown, default=-1) + 1
        return call("look", at=done) if done < 30 else say("done")

    @tool(effect="read", name="look")
    async def long_look(at: int) -> str:
        """Look at something."""
        return f"seen {at} " + "x" * 2_000

    async with stage(reply, [long_look], turns=100, compact_at=1_200, rates=BOTH) as desk:
        run_id = await desk.start()
        assert (await desk.runs.result(run_id)).answer == "done"
        compactions = [vendor for _, vendor in await sent(desk, run_id, COMPACT_TRANSCRIPT)]
        assert compactions.count("") > compactions.count("anthropic") > 0
        in_line = [each for each in await sent(desk, run_id, CALL_MODEL, COMPACT_TRANSCRIPT) if each[1]]
        assert len(in_line) == len(desk.model.requests)


# --- what operators see -----------------------------------------------------------------------------------------------


async def test_trace_and_watch_say_where_a_run_was_sent_and_that_nothing_was_lost(stage: StageOf) -> None:
    async with stage(looks(0), rates=BOTH) as desk:
        run_id = await desk.start()
        await desk.runs.result(run_id)
        events = await desk.runs.events(run_id)
        view = text.View(now=datetime.now(UTC), zone=UTC, limit=None)
        narration = Narration(zone=UTC)
        for told in (
            rows.text(text.traced(trace(events), view)),
            rows.text([line for event in events for line in narration.feed(event)]),
        ):
            assert f"moved asked on task queue '{desk.task_queue}/anthropic'" in " ".join(told.split())
            assert "lost" not in told


async def findings() -> str:
    return "".join([found.found async for found in survey() if found.check == "rates"])


async def test_doctor_tells_the_rates_that_workers_hold_to(stage: StageOf) -> None:
    async with stage(looks(0)) as desk:
        agents = {desk.agent.name: desk.agent}
        rates = {"openai": 0.5}
        async with worker.build(await connect(), agents, task_queue="perdure", key=GRANT_KEY, rates=rates):
            while "openai 0.5 calls a second" not in await findings():
                await asyncio.sleep(0.05)
