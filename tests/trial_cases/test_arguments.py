"""C11, C13, C15, C71: arguments, names and schemas that models and vendors get wrong."""

from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, Field

from perdure import tool
from perdure.core.contracts import RunState
from perdure.testing import call, say
from perdure.traces.events import ActivityCompleted


async def test_c11_no_arguments_are_an_empty_object_and_other_json_is_refused(stage, protocol, ledger):
    @tool(effect="read")
    def health() -> str:
        """Whether all is well."""
        ledger.record("health")
        return "well"

    @tool(effect="read")
    def find(q: str) -> str:
        """Find something.

        Args:
            q: what to look for.
        """
        ledger.record("find")
        return "found"

    script = [
        call("health", raw=""),
        call("health", raw=None),
        call("find", raw=""),
        [call("health", raw="[]"), call("health", raw="5")],
        say("done"),
    ]
    async with stage(script, [health, find], protocol=protocol) as desk:
        outcome = await desk.run()

        assert outcome.state is RunState.ANSWERED
        texts = desk.texts()
        assert texts[:2] == ["well", "well"]
        assert "q" in texts[2]
        assert "did not run" in texts[2]
        assert ledger.lines == ["health"] * 2
        assert "a list, not a JSON object" in texts[3]
        assert "a number, not a JSON object" in texts[4]


NAMES = ["multi_tool_use.parallel", 'get_x(id="1")', "functions.get_x", "get_x" + "x" * 85]


async def test_c13_an_invented_name_runs_nothing_and_leaves_a_legal_transcript(stage, protocol, ledger):
    @tool(effect="idempotent", ask=False)
    def get_x(id: str) -> str:
        """Get x.

        Args:
            id: which.
        """
        ledger.record(id)
        return "x"

    script = [*(call(name, {"id": "1"}) for name in NAMES), call("get_x", {"id": "right"}), say("done")]
    async with stage(script, [get_x], protocol=protocol) as desk:
        run_id = await desk.start()
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.ANSWERED
        assert ledger.lines == ["right"]
        texts = desk.texts()
        assert all("there is no tool" in text for text in texts[:4])
        assert all("get_x" in text for text in texts[:4])
        assert texts[4] == "x"
        turns = [e.result for e in await desk.runs.events(run_id) if isinstance(e, ActivityCompleted)]
        asked = [turn["calls"][0] for turn in turns if turn.get("calls")]
        assert [call["asked_name"] for call in asked] == [*NAMES, ""]


async def test_c15_a_misspelt_argument_is_named_before_anyone_is_asked(stage, protocol, ledger):
    @tool(effect="once")
    def delete(older_than_days: int = 30) -> str:
        """Delete old files.

        Args:
            older_than_days: how old.
        """
        ledger.record(f"delete {older_than_days}")
        return "deleted"

    @tool(effect="once")
    def close(account: str) -> str:
        """Close an account.

        Args:
            account: which.
        """
        ledger.record(f"close {account}")
        return "closed"

    script = [
        [
            call("delete", older_days=365),
            call("delete", older_than_days=365, reason="tidy"),
            call("close", number="1"),
        ],
        say("done"),
    ]
    async with stage(script, [delete, close], protocol=protocol) as desk:
        outcome = await desk.run()

        assert outcome.state is RunState.ANSWERED
        assert ledger.lines == []
        misspelt, extra, missing = desk.texts()
        assert "older_days" in misspelt
        assert "older_than_days" in misspelt
        assert "reason" in extra
        assert "account" in missing
        assert "number" in missing


class Node(BaseModel):
    """A tree of parts."""

    part: str
    below: list["Node"] = []


class Place(BaseModel):
    city: str
    zip_code: str | None = Field(None, pattern=r"^\d{5}$")


SCHEMAS: dict[str, tuple[type[Any], Any, Any]] = {
    # annotation, an argument that fits, one that does not
    "reference": (Place, {"city": "Bonn", "zip_code": "53111"}, {"city": "Bonn", "zip_code": "x"}),
    "recursive": (Node, {"part": "a", "below": [{"part": "b", "below": []}]}, {"below": []}),
    "open_map": (dict[str, int], {"a.b": 1}, {"a": "many"}),
    "format": (date, "2026-11-29", "tomorrow"),
    "anything": (dict[str, Any], {"k": [1, None]}, 5),
}


@pytest.mark.parametrize("shape", SCHEMAS)
async def test_c71_a_schema_of_any_shape_is_taken_and_still_checked(stage, protocol, shape):
    annotation, fits, does_not = SCHEMAS[shape]

    def take(thing: Any, count: int = 3, note: str | None = None) -> str:
        """Take a thing.

        Args:
            thing: what to take.
            count: how many.
            note: what to say of it.
        """
        return f"took {count}"

    take.__annotations__["thing"] = annotation

    def health() -> str:
        """Whether all is well."""
        return "well"

    tools = [tool(effect="read")(take), tool(effect="read")(health)]
    given = {"count": 3, "note": None}
    script = [
        [call("take", thing=fits, **given), call("take", thing=does_not, **given), call("health")],
        say("done"),
    ]
    async with stage(script, tools, protocol=protocol) as desk:
        outcome = await desk.run()

        assert outcome.state is RunState.ANSWERED
        took, refused, well = desk.texts()
        assert (took, well) == ("took 3", "well")
        assert "did not run" in refused
