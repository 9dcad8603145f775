"""A run may be given some of its agent's tools: it is offered no others, and no others run."""

import pytest

from perdure import Agent, tool
from perdure.core.contracts import Choice, RequestKind, RunState
from perdure.core.runs import StartRefusedError
from perdure.testing import call, say
from perdure.traces.turns import trace


@pytest.fixture
def tools(ledger):
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    @tool(effect="once", ask=False)
    def note(text: str) -> str:
        """Write a line."""
        ledger.record(text)
        return f"wrote {text}"

    return [look, note]


def offered(body):
    return [each.get("name") or each["function"]["name"] for each in body.get("tools", ())]


async def test_a_run_is_offered_its_own_tools_and_no_other_runs(stage, protocol, tools, ledger):
    script = [[call("look"), call("note", text="a")], say("done")]
    async with stage(script, tools, protocol=protocol) as desk:
        run_id = await desk.start(tools=["look"])
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert [offered(request.body) for request in desk.model.requests] == [["look"], ["look"]]
        assert desk.texts()[0] == "seen"
        assert "no tool 'note'" in desk.texts()[1]
        assert ledger.lines == []
        assert trace(await desk.runs.events(run_id)).tools == ("look",)


async def test_in_text_mode_the_prompt_names_no_other(stage, tools):
    async with stage([say("Final Answer: done")], tools, protocol="text+openai-chat") as desk:
        await desk.runs.result(await desk.start(tools=["look"]))
        assert "note" not in desk.heard()


async def test_a_run_without_tools_and_a_long_task_answers_alone(stage, tools):
    async with stage([say("done")], tools) as desk:
        run_id = await desk.start("do it " * 1000, tools=[])
        assert (await desk.runs.result(run_id)).answer == "done"
        assert "tools" not in desk.model.requests[0].body


async def test_a_tool_that_the_agent_has_not_makes_the_run_wait_with_those_it_has(stage, tools):
    async with stage([say("done")], tools) as desk:
        run_id = await desk.start(tools=["look", "reed"])
        [request] = await desk.waiting(run_id)
        assert request.kind is RequestKind.STUCK
        assert "no tool 'reed'; it has: look, note" in request.reason
        assert desk.model.requests == []
        reed = tool(tools[0].function, name="reed", effect="read")
        await desk.serve(Agent(desk.agent.name, model=desk.agent.model, instructions="", tools=[*tools, reed]))
        await desk.decide(run_id, request, Choice.RETRY)
        assert (await desk.runs.result(run_id)).answer == "done"
        assert offered(desk.model.requests[0].body) == ["look", "reed"]


@pytest.mark.parametrize("names", ["look", ["look at"], [""]])
async def test_names_that_no_tool_can_have_start_nothing(stage, tools, names):
    async with stage([say("never")], tools) as desk:
        with pytest.raises(StartRefusedError, match="names no tools"):
            await desk.runs.start(desk.agent.name, "do it", tools=names)
