"""Two words of ours for what every vendor spells its own way: effort, and one call in a turn."""

from perdure import tool
from perdure.core.contracts import RunState
from perdure.testing import call, say

EFFORT = {
    "anthropic": ("output_config", {"effort": "low"}),
    "openai-responses": ("reasoning", {"effort": "low"}),
    "openai-chat": ("reasoning_effort", "low"),
}
ALONE = {
    "anthropic": ("tool_choice", {"type": "auto", "disable_parallel_tool_use": True}),
    "openai-responses": ("parallel_tool_calls", False),
    "openai-chat": ("parallel_tool_calls", False),
}


async def test_effort_goes_out_as_the_vendor_spells_it_in_every_request(stage, protocol):
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    async with stage([call("look"), say("done")], [look], protocol=protocol, effort="low") as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        key, value = EFFORT[protocol]
        assert [each.body[key] for each in desk.model.requests] == [value, value]


async def test_an_agent_that_takes_one_call_in_a_turn_says_so_and_runs_no_second_one(stage, protocol, ledger):
    @tool(effect="once", ask=False)
    def note(text: str) -> str:
        """Write a line."""
        ledger.record(text)
        return f"wrote {text}"

    script = [[call("note", text="a"), call("note", text="b")], say("done")]
    async with stage(script, [note], protocol=protocol, parallel=False) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert ledger.lines == ["a"]
        assert "one call in a turn" in desk.texts()[1]
        key, value = ALONE[protocol]
        assert [each.body[key] for each in desk.model.requests] == [value, value]


async def test_without_tools_nothing_is_said_of_calls(stage, protocol):
    async with stage([say("done")], [], protocol=protocol, parallel=False) as desk:
        assert (await desk.run()).state is RunState.ANSWERED
        assert ALONE[protocol][0] not in desk.model.requests[0].body
