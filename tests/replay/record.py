"""python tests/replay/record.py VERSION [SHAPE ...]: every shape of run, or these, once, on a server of its own.

The histories are kept.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

import worker
from perdure import Agent, Budget, Runs, Tool, ToolContext, tool
from perdure.core.contracts import Choice, Decision, Request, RunState
from perdure.temporal.connect import connect
from perdure.temporal.embedded import DevServer
from perdure.testing import Script, ScriptedModel, blank, call, refuse, say, think

HERE = Path(__file__).parent


@tool(effect="read")
async def look(at: str) -> str:
    """Look at something."""
    return f"seen {at}"


@tool(effect="idempotent")
async def pay(ctx: ToolContext, to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


@tool(effect="once", ask=False)
async def post() -> str:
    """Post it."""
    raise ConnectionResetError("no answer")


helper = Agent("helper", model="anthropic:helper", instructions="You help.", tools=[look, pay])
HELPER = Script(
    lambda seen: [call("pay", to="ann"), say("paid")][seen.turn] if "pay" in seen.task else say("helped"),
    model="helper",
)
LOOKS = [think("Both are needed."), call("look", at="a"), call("look", at="b")]
SHAPES = {  # final or present state, and what is special about it
    "answered-parallel": ([LOOKS, say("seen both")], ()),
    "answered-approved": ([LOOKS, call("pay", to="ann"), say("paid")], (Choice.APPROVE,)),
    "answered-rejected": ([call("pay", to="ann"), say("not paid")], (Choice.REJECT,)),
    "answered-mixed": ([[call("look", at="a"), call("pay", to="a"), call("nosuch")], say("done")], (Choice.APPROVE,)),
    "answered-unknown-happened": ([call("post"), say("posted")], (Choice.HAPPENED,)),
    "answered-unknown-rerun": ([call("post"), say("who knows")], (Choice.RERUN, Choice.GIVE_UP)),
    "answered-after-blank": ([blank(), say("here I am")], ()),
    "limited-by-turns": ([call("look", at=str(n)) for n in range(3)] + [say("that is all")], ()),
    "answered-at-a-rate": ([LOOKS, say("seen both")], ()),
    "refused-by-provider": ([refuse("I can't")], ()),
    "cancelled-at-the-gate": ([[call("look", at="a"), call("pay", to="ann")]], None),
    "answered-in-text": (["Action: look[a]\nObservation: b", "what?", "Final Answer: seen a"], ()),
    "limited-in-text": (["what?", "hm", "so?"], ()),
    "failed-by-stop": ([call("look", at="a")], (Choice.STOP,)),
    "answered-with-help": ([[call("helper", task="help"), call("look", at="a")], say("helped")], ()),
    "answered-with-approved-help": ([call("helper", task="pay ann"), say("paid")], (Choice.APPROVE,)),
    "cancelled-while-helped": ([[call("helper", task="pay ann"), call("look", at="a")]], None),
    "waiting-at-the-gate": ([[call("look", at="a"), call("pay", to="ann")]], ()),
}


async def recorded(runs: Runs, shape: str, decisions: tuple[Choice, ...] | None) -> str:
    started = await runs.start(shape, "do it", run_id=shape)
    for choice in decisions or ():
        run_id, request = await waiting(runs, started.run_id)
        decision = Decision(id=f"{shape}-{choice}", request=request.id, choice=choice, by="ann", digest=request.digest)
        await runs.decide(run_id, decision)
    if decisions is None:
        await waiting(runs, started.run_id)
        await runs.cancel(started.run_id, reason="enough")
    if shape.startswith("waiting"):
        await waiting(runs, started.run_id)
        await asyncio.sleep(1)
    else:
        await runs.result(started.run_id)
    return await runs.history_json(started.run_id)


async def waiting(runs: Runs, run_id: str) -> tuple[str, Request]:
    """What the run waits for, or one that works for it."""
    while True:
        for row in [await runs.find(run_id), *await runs.list(state=RunState.WAITING)]:
            if row.requests and run_id in (row.run_id, row.parent):
                return row.run_id, row.requests[0]
        await asyncio.sleep(0.05)


def model_of(shape: str) -> str:
    if shape.endswith("-at-a-rate"):
        return f"openai:{shape}"
    return f"text+anthropic:{shape}" if shape.endswith("-in-text") else f"anthropic:{shape}"


def tools_of(shape: str) -> list[Tool]:
    helping = [helper.as_tool("Helps.")] if shape.endswith(("-help", "-helped")) else []
    return [look, pay, post, *helping]


def without_traces(history: str) -> str:
    """A history without the recording machine's file names."""
    return json.dumps(
        json.loads(history, object_hook=lambda each: {k: v for k, v in each.items() if k != "stackTrace"})
    )


async def main(version: str, *wanted: str) -> None:
    folder = HERE / "histories" / version
    folder.mkdir(parents=True, exist_ok=True)
    agents = {
        name: Agent(name, model=model_of(name), instructions="", tools=tools_of(name), budget=Budget(turns=3))
        for name in SHAPES
    }
    scripts = [HELPER, *(Script(turns, model=name) for name, (turns, _) in SHAPES.items())]
    with tempfile.TemporaryDirectory() as state, ScriptedModel(*scripts, strict_models=True) as model:
        os.environ.update(model.env())
        async with DevServer(Path(state), fast=True, ui=False) as server:
            os.environ["TEMPORAL_ADDRESS"] = server.address
            client = await connect()
            async with worker.build(client, agents, key=b"k" * 32, rates={"openai": 500.0}):
                for name in wanted or SHAPES:
                    _, decisions = SHAPES[name]
                    history = await recorded(Runs(client), name, decisions)
                    (folder / f"{name}.json").write_text(without_traces(history) + "\n")
                    print(name, len(history))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
