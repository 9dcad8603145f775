"""Of every turn's input, all that the turn before sent is read from the vendor's cache, and nothing is computed twice.

The scripted model computes what is read and written as each vendor documents it: perdure/testing/prompt_cache.py.
"""

import asyncio
from itertools import pairwise

from perdure import Agent, tool
from perdure.core.contracts import RunState, Usage
from perdure.temporal.journal import Journal
from perdure.testing import call, say, think
from perdure.traces.events import ActivityCompleted

TASK = "Add them up. " * 400  # above the least that is cached


@tool(effect="read")
async def number(n: int) -> int:
    """A number.

    Args:
        n: which one.
    """
    return n


async def usages(desk, run_id):
    done = [e for e in await desk.runs.events(run_id) if isinstance(e, ActivityCompleted)]
    return [Usage.model_validate(e.result["usage"]) for e in done if e.activity_id.startswith("think-")]


async def assert_all_read(desk, run_id, turns):
    used = await usages(desk, run_id)
    assert len(used) == turns
    assert used[0].cached == 0
    assert used[0].input > 1_024
    for before, after in pairwise(used):
        assert after.cached == before.input
        assert after.input > after.cached
    for each in used:
        assert each.cache_written == each.input - each.cached


async def test_every_turn_reads_all_that_the_one_before_sent(stage, protocol):
    script = [call("number", n=1), [think("on"), call("number", n=2)], call("number", n=3), say("6")]
    async with stage(script, [number], protocol=protocol) as desk:
        run_id = await desk.start(TASK)
        assert (await desk.runs.result(run_id)).answer == "6"
        await assert_all_read(desk, run_id, turns=4)


async def test_a_turn_of_many_thoughts_and_calls_loses_nothing(stage, protocol):
    """More blocks than the 20 that Anthropic looks back from a breakpoint, and none that it counts as one."""
    many = [part for n in range(30) for part in (think(f"and {n}"), call("number", n=n))]
    async with stage([call("number", n=1), many, say("435")], [number], protocol=protocol) as desk:
        run_id = await desk.start(TASK)
        assert (await desk.runs.result(run_id)).answer == "435"
        await assert_all_read(desk, run_id, turns=3)


async def test_a_worker_that_knows_nothing_reads_what_another_sent(stage, protocol):
    script = [call("number", n=1), call("number", n=2), say("3")]

    @tool(effect="read", name="number")
    async def slow(n: int) -> int:
        """A number.

        Args:
            n: which one.
        """
        await asyncio.sleep(0.3)
        return n

    async with stage(script, [slow], protocol=protocol, cached=0, journal=Journal(kept_bytes=0)) as desk:
        run_id = await desk.start(TASK)
        while not desk.model.requests:
            await asyncio.sleep(0.02)
        await desk.serve()
        assert (await desk.runs.result(run_id)).answer == "3"
        await assert_all_read(desk, run_id, turns=3)


async def test_the_last_turn_too_reads_all_that_the_one_before_sent(stage, protocol):
    script = [call("number", n=1), call("number", n=2), say("3")]
    async with stage(script, [number], protocol=protocol, turns=2) as desk:
        run_id = await desk.start(TASK)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.LIMITED, "3")
        assert "tool_choice" not in desk.model.requests[-1].body
        await assert_all_read(desk, run_id, turns=3)


async def test_a_model_that_calls_when_it_may_not_is_made_to_answer(stage, protocol):
    def answer(seen):
        return call("number", n=seen.turn) if seen.tools else say("1, as far as I know")

    async with stage(answer, [number], protocol=protocol, turns=1) as desk:
        run_id = await desk.start(TASK)
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.LIMITED, "1, as far as I know")
        *_, asked, insisted = [each.body for each in desk.model.requests]
        choice = {"tool_choice": {"type": "none"} if protocol == "anthropic" else "none"}
        assert insisted == asked | choice
        first, last = await usages(desk, run_id)
        assert last.input > 2 * first.input  # both are paid
        assert len(await desk.observations(run_id)) == 1


async def test_runs_of_an_agent_share_its_prompt_and_tools(stage):
    async with stage(lambda seen: call("number", n=1) if seen.turn < 1 else say("1"), [number]) as desk:
        name, model = desk.agent.name, desk.agent.model
        await desk.serve(Agent(name, model=model, instructions="Be exact. " * 500, tools=[number]))
        for task in ("one", "another"):
            await desk.runs.result(await desk.start(task))
        (first, _), (again, _) = [await usages(desk, run_id) for run_id in desk.started]
        assert first.cached == 0
        assert 1_250 < again.cached < again.input < again.cached + 20
