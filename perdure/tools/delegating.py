"""An agent as another's tool: `Agent("planner", ..., tools=[payroll.as_tool("Works out what somebody is paid.")])`.

It is a tool in declaration only: no worker runs it. Admission records its call as one that is handed on, and the run
starts another for it, whose answer is the observation. Agents are values that name their tools when they are made, so
no agent can come back to itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, StringConstraints

from perdure.core.contracts import Delegate
from perdure.tools.declare import NAME, Tool, ToolError, tool
from perdure.tools.models import AgentError

if TYPE_CHECKING:
    from perdure.tools.agents import Agent

MOST_HANDED: Final = 20_000  # characters of a task: it stands in the histories of both runs
_TOLD: Final = "What is to be done, with all that is needed for it: nothing else of this conversation is seen."

_Task = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_HANDED), Field(description=_TOLD)
]


@dataclass(frozen=True, eq=False)
class Delegation:
    """What stands behind such a tool."""

    agent: "Agent"

    async def hand_over(self, task: _Task) -> str:
        raise ToolError("only a run can hand work to another agent, and this one did not.")


def delegating(agent: "Agent", description: str, *, name: str | None, ask: bool | str | None) -> Tool:
    """The tool. See Agent.as_tool.

    Raises:
        AgentError: it is not said what the agent is for.
        ToolDeclarationError: no vendor takes the name.
    """
    if not isinstance(description, str) or not description.strip():
        raise AgentError(f"agent {agent.name!r}: as_tool({description!r}): say what it does, and what to give it.")
    plain = agent.name.replace(".", "_")
    declared = name if name is not None else plain if NAME.fullmatch(plain) else agent.name
    return tool(
        Delegation(agent).hand_over, effect="read", ask=ask, name=declared, description=description.strip(), timeout=30
    )


def agent_behind(each: Tool) -> "Agent | None":
    """The agent that a tool hands its calls to, if it is no function."""
    behind = getattr(each.function, "__self__", None)
    return behind.agent if isinstance(behind, Delegation) else None


def delegate_of(asked: Tool, arguments: Mapping[str, Any]) -> Delegate | None:
    """What a call hands to which agent, if its tool is one."""
    agent = agent_behind(asked)
    return Delegate(agent=agent.name, task=arguments["task"]) if agent else None


def with_delegates(agents: Iterable["Agent"]) -> dict[str, "Agent"]:
    """These agents and all that they hand work to, by name.

    Raises:
        AgentError: two of them have one name.
    """
    found: dict[str, Agent] = {}
    left = list(agents)
    while left:
        agent = left.pop(0)
        if found.setdefault(agent.name, agent) is not agent:
            raise AgentError(f"two agents are named {agent.name!r}, and one works for others. Rename one of them.")
        behind = (agent_behind(each) for each in agent.toolbox.values())
        left += [each for each in behind if each and found.get(each.name) is not each]
    return found
