"""Reflecting: a critic reads the work so far and says what to change, or that it stands.

It is a model call of its own, without tools, and it is shown the transcript as a text: so any model can be the critic
of any other, and none is handed another's reasoning. Who it is and what it is told stands in the run's opening.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.chain import along_chain
from activities.compaction import transcript
from activities.lanes import Lanes
from activities.model import answered, trouble_of
from activities.own import agent_of, heartbeating, recorded, segment
from perdure import Agent
from perdure.core.contracts import (
    ASK_CRITIC,
    TRANSCRIPT_MISMATCH,
    AskCritic,
    Critique,
    Opening,
    Stop,
)
from perdure.core.models import at_place
from perdure.core.transcript import Record, RecordGapError, Task, told
from perdure.providers.protocol import ModelError, Reply
from perdure.providers.registry import provider
from perdure.temporal.journal import Answered, Conversation, Journal, answered_last
from perdure.tools.critics import approves, noted, shown

log = structlog.get_logger("perdure")


@dataclass(frozen=True)
class Critics:
    agents: Mapping[str, Agent]
    journal: Journal
    lanes: Lanes = field(default_factory=Lanes)

    @activity.defn(name=ASK_CRITIC)
    async def ask_critic(self, asked: AskCritic) -> Critique:
        agent = agent_of(self.agents, asked.agent)
        async with heartbeating():
            record = await self.journal.whole(activity.client(), segment())
            try:
                critic, question = _question(record, asked)
                last = answered_last(record, asked.since) or Answered()
            except RecordGapError as error:
                raise ApplicationError(str(error), type=TRANSCRIPT_MISMATCH, non_retryable=True) from None
            one, reply = await self._asked(agent, asked, critic, question, last)
        critique = recorded(self.journal, _critique(asked, one, reply))
        log.info("critique", run=segment().workflow_id, turn=asked.turn, after=asked.occasion, told=critique.told)
        return critique

    async def _asked(
        self, agent: Agent, asked: AskCritic, critic: Opening, question: str, last: Answered
    ) -> tuple[Opening, Reply]:
        """What the first of the critic's models that is not out replies, and which that is."""

        async def ask(place: int) -> tuple[Opening, Reply]:
            one = at_place(critic, place)
            messages = provider(one.protocol).encode([Task(question)])
            return one, await answered(agent, Conversation(one, messages, "", ""), tools=True)

        try:
            found, _ = await along_chain(ask, critic, last, asked.detour, self.lanes)
        except ModelError as error:
            raise trouble_of(error) from None
        return found


def _question(record: Record, asked: AskCritic) -> tuple[Opening, str]:
    """Who is asked, and what it is shown.

    Raises:
        RecordGapError: the record does not hold it, or another.
    """
    opening, before = transcript(record, asked)
    since = told(record, [ref for ref in asked.since if ref.kind != "context"])
    if opening is None or opening.critic is None:
        raise RecordGapError("the run was opened with no critic")
    critic = opening.critic.model_copy(update={"limits": opening.limits})
    return critic, shown(record.task, [*before, *since], asked.occasion, record.files)


def _critique(asked: AskCritic, critic: Opening, reply: Reply) -> Critique:
    """Only a word that came through counts: what was blank or refused neither approves nor sends back."""
    said = reply.answer.strip() if reply.stop in (Stop.ANSWER, Stop.CUT) else ""
    return Critique(
        digest="",
        told=bool(said) and not approves(said),
        usage=reply.usage,
        occasion=asked.occasion,
        approved=approves(said),
        text=noted(said or reply.answer),
        protocol=critic.protocol,
        model=reply.model,
        cost=reply.cost,
    )
