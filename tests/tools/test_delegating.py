"""An agent as a tool: what is declared, and what is refused before a run."""

from typing import Any

import pytest

from perdure import Agent, Effect, ToolError
from perdure.core.contracts import Delegate, Verdict
from perdure.tools.admission import admit
from perdure.tools.agents import lint
from perdure.tools.delegating import agent_behind, with_delegates
from perdure.tools.models import AgentError
from perdure.tools.parameters import ToolDeclarationError


def agent(name: str = "payroll", **more: Any) -> Agent:
    return Agent(name, model="anthropic:claude-opus-5-5", instructions="You work.", **more)


def test_an_agent_becomes_a_tool_that_reads_with_one_described_parameter() -> None:
    payroll = agent()
    found = payroll.as_tool("Works out what somebody is paid.")
    assert (found.name, found.description) == ("payroll", "Works out what somebody is paid.")
    assert (found.effect, found.ask, list(found.parameters.schema["properties"])) == (Effect.READ, None, ["task"])
    assert agent_behind(found) is payroll
    lead = agent("lead", tools=[found])
    assert lint(lead) == []
    [spec] = lead.opening().tools
    assert (spec.strict, "nothing else of this conversation" in str(spec.parameters)) == (True, True)


def test_a_call_is_admitted_as_work_for_that_agent_without_white_space_around() -> None:
    tools = {"pay": agent().as_tool("Pays.", name="pay")}
    call = admit(tools, 0, "c1", "pay", '{"task": " Pay ann.\\n"}')
    assert (call.verdict, call.delegate) == (Verdict.RUN, Delegate(agent="payroll", task="Pay ann."))
    assert call.arguments == '{"task":"Pay ann."}'


def test_a_person_may_be_asked_first_also_on_a_condition() -> None:
    for ask in (True, "len(task) > 3"):
        call = admit({"payroll": agent().as_tool("Pays.", ask=ask)}, 0, "c1", "payroll", '{"task": "Pay ann."}')
        assert call.verdict is Verdict.ASK


def test_a_dot_in_an_agents_name_is_no_part_of_the_tools() -> None:
    assert agent("pay.roll").as_tool("Pays.").name == "pay_roll"
    with pytest.raises(ToolDeclarationError, match="refused by model vendors"):
        agent().as_tool("Pays.", name="pay roll")


def test_it_must_be_said_what_an_agent_is_for() -> None:
    with pytest.raises(AgentError, match="say what it does"):
        agent().as_tool(" ")


async def test_outside_of_a_run_nothing_can_be_handed_over() -> None:
    with pytest.raises(ToolError, match="only a run can"):
        await agent().as_tool("Pays.")(task="Pay ann.")


def test_all_that_work_is_handed_to_are_served_once_however_they_are_reached() -> None:
    clerk = agent("clerk")
    payroll = agent(tools=[clerk.as_tool("Writes.")])
    lead = agent("lead", tools=[payroll.as_tool("Pays."), clerk.as_tool("Writes.")])
    assert with_delegates([lead]) == {"lead": lead, "payroll": payroll, "clerk": clerk}
    with pytest.raises(AgentError, match="two agents are named 'clerk'"):
        with_delegates([lead, agent("clerk")])
