"""Think, act, observe: whole runs against the strict scripted model."""

import pytest

from perdure import tool
from perdure.core.contracts import RunState
from perdure.testing import call, say, think

PROTOCOLS = ["anthropic", "openai-responses", "openai-chat"]


@tool(effect="read")
async def entitlement(employee: str) -> int:
    """Days of holiday an employee is entitled to in a year.

    Args:
        employee: the employee's name.
    """
    return 28


@tool(effect="read")
def taken(employee: str) -> dict[str, int]:
    """Days of holiday an employee has taken this year.

    Args:
        employee: the employee's name.
    """
    return {"taken": 19, "pending": 2}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_task_is_answered_from_what_two_parallel_calls_observed(stage, protocol):
    script = [
        [think("Two facts are needed."), call("entitlement", employee="ann"), call("taken", employee="ann")],
        say("7 days are left."),
    ]
    async with stage(script, [entitlement, taken], protocol=protocol) as desk:
        outcome = await desk.run("How many days has ann left?")

        assert (outcome.state, outcome.answer) == (RunState.ANSWERED, "7 days are left.")
        assert outcome.turns == 2
        assert "28" in desk.heard()
        assert "19" in desk.heard()
