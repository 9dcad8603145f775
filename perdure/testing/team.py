"""One scripted model for several agents: each has a script of its own, and is known by the prompt that it sends."""

import json
from collections.abc import Mapping, Sequence

from perdure.testing.script import Compute, Reply, Script, ScriptError, Seen
from perdure.tools.agents import Agent
from perdure.tools.delegating import with_delegates


def cast(agent: Agent, scripts: Mapping[str, Sequence[Reply | Compute] | Compute]) -> Compute:
    """What plays `agent` and those that it hands work to, each by its own script.

    Raises:
        ScriptError: an agent has no script, there is one for nobody, or two have the same prompt.
    """
    team = with_delegates([agent])
    if team.keys() != scripts.keys():
        raise ScriptError(f"scripts for {', '.join(sorted(scripts))}: give one for each of {', '.join(sorted(team))}")
    prompts = {_mark(each): name for name, each in team.items()}
    if len(prompts) < len(team):
        raise ScriptError("two agents have the same prompt, and cannot be told apart: give them other instructions")
    made = {name: Script(script, name=name) for name, script in scripts.items()}

    def play(seen: Seen) -> Reply:
        body = json.dumps(seen.body, ensure_ascii=False)
        prompt = max((prompt for prompt in prompts if prompt in body), key=len, default="")
        if not prompt:
            raise ScriptError("a request holds the prompt of none of the agents")
        script = made[prompts[prompt]]
        _, due = script.at(seen.turn, seen.asked() if script.waits(seen.turn) else 0)
        return due(seen) if callable(due) else due

    return play


def _mark(agent: Agent) -> str:
    """The agent's prompt as it stands in a request's JSON."""
    return json.dumps(agent.system, ensure_ascii=False)[1:-1]
