"""Opening a run: what the model will be offered is recorded once, and kept to the run's end."""

from collections.abc import Mapping
from dataclasses import dataclass

from temporalio import activity

from activities.own import agent_of, recorded
from perdure import Agent
from perdure.core.contracts import OPEN_RUN, Opening, OpenRun
from perdure.temporal.journal import Journal


@dataclass(frozen=True)
class Openings:
    agents: Mapping[str, Agent]
    journal: Journal

    @activity.defn(name=OPEN_RUN)
    async def open_run(self, asked: OpenRun) -> Opening:
        return recorded(self.journal, agent_of(self.agents, asked.agent).opening())
