"""Effects: the only code that touches a network, a disk, a clock or a model. One file for each kind of deed."""

from collections.abc import Callable, Mapping
from typing import Any

from activities.compaction import Compactions
from activities.decision import Decisions
from activities.model import Models
from activities.tool import Tools
from perdure import Agent
from perdure.temporal.journal import Journal

__all__ = ["activities"]


def activities(
    agents: Mapping[str, Agent], grant_key: bytes, journal: Journal | None = None
) -> list[Callable[..., Any]]:
    """What a worker serves for these agents. `grant_key` seals grants: the same on every worker of a task queue."""
    journal = journal or Journal()
    models, tools = Models(agents, journal), Tools(agents, journal, grant_key)
    return [
        models.call_model,
        tools.run_tool,
        tools.probe_tool,
        Decisions(grant_key).check_decision,
        Compactions(journal).compact_transcript,
    ]
