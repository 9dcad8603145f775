"""Effects: the only code that touches a network, a disk, a clock or a model. One file for each kind of deed."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from activities.compaction import Compactions
from activities.critic import Critics
from activities.decision import Decisions
from activities.export import Exports
from activities.lanes import Lanes
from activities.model import Models
from activities.tool import Tools
from perdure import Agent
from perdure.core.contracts import ASK_CRITIC, CALL_MODEL, COMPACT_TRANSCRIPT
from perdure.files import Files
from perdure.store import Store
from perdure.temporal.journal import Journal
from perdure.tools.agents import that_reads_on
from perdure.tools.delegating import with_delegates
from perdure.tools.reading import Outputs

__all__ = ["ASKING", "activities"]

ASKING: Final = frozenset({CALL_MODEL, ASK_CRITIC, COMPACT_TRANSCRIPT})  # activities that may ask a model


def activities(
    agents: Mapping[str, Agent],
    grant_key: bytes,
    journal: Journal | None = None,
    store: Store | None = None,
    lanes: Lanes | None = None,
) -> list[Callable[..., Any]]:
    """What a worker serves for these agents, and for those that they hand work to.

    `grant_key` seals grants, `store` keeps what is too long to record, and files: the same on every worker of a task
    queue. `lanes`: where the vendors are asked that have a rate.
    """
    journal, lanes = journal or Journal(), lanes or Lanes()
    outputs = Outputs(store) if store else None
    agents = with_delegates(agents.values())
    if outputs:
        agents = {name: that_reads_on(agent, outputs) for name, agent in agents.items()}
    files = Files(store)
    models = Models(agents, journal, files, store is not None, lanes)
    tools = Tools(agents, journal, grant_key, outputs, files)
    decisions = Decisions(grant_key)
    return [
        models.call_model,
        tools.run_tool,
        tools.probe_tool,
        decisions.check_decision,
        decisions.check_steering,
        Compactions(agents, journal, lanes).compact_transcript,
        Exports(store).export_segment,
        Critics(agents, journal, lanes).ask_critic,
    ]
