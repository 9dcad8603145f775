"""An agent works for another one: its run is its own, and what came of it is an observation."""

import asyncio
from typing import Any

from perdure import Agent
from perdure.core.contracts import RunState
from perdure.testing import call, say
from perdure.traces.turns import trace
from tests.conftest import MODELS, Stage, StageOf


def payroll(tools: Any = (), protocol: str = "anthropic", **more: Any) -> Agent:
    return Agent("payroll", model=MODELS[protocol], instructions="You are payroll.", tools=tools, **more)


def cast(planner: Any, worker: Any) -> Any:
    """One model for both agents: the planner is told by its task. Each is a list of turns."""

    def played(seen: Any) -> Any:
        turns = planner if seen.task == "do it" else worker
        reply = turns[seen.turn] if isinstance(turns, list) else turns(seen)
        return reply(seen) if callable(reply) else reply

    return played


ASK = call("payroll", task="What is ann paid?")


async def handed(desk: Stage, run_id: str) -> str:
    """The run that the first call of a run was handed to, as soon as there is one."""
    while True:
        calls = [each for turn in trace(await desk.runs.events(run_id)).turns for each in turn.calls]
        if calls and calls[0].by:
            desk.started.append(calls[0].by)
            return calls[0].by
        await asyncio.sleep(0.05)


async def test_what_another_agent_answers_is_the_observation(stage: StageOf, protocol: str) -> None:
    script = cast([ASK, lambda seen: say(f"She is paid {seen.observations[-1]}")], [say("4,000")])
    tools = [payroll(protocol=protocol).as_tool("Knows what everybody is paid.")]
    async with stage(script, tools, protocol=protocol) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)
        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "She is paid 4,000")
        worker = await handed(desk, run_id)
        row = await desk.runs.find(worker)
        assert (row.agent, row.parent, row.state) == ("payroll", run_id, RunState.ANSWERED)
        seen, theirs = trace(await desk.runs.events(run_id)), trace(await desk.runs.events(worker))
        assert (theirs.parent, theirs.task) == (run_id, "What is ann paid?")
        assert seen.handed == theirs.usage
        assert outcome.usage == seen.usage + theirs.usage
        assert (seen.cost, outcome.cost) == (outcome.cost, sum(turn.cost for turn in (*seen.turns, *theirs.turns)))
