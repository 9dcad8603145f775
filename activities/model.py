"""Thinking: transcript -> provider -> turn, with each call it asks for admitted and judged."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.own import agent_of, heartbeating, needs_person, recorded, segment, trouble
from perdure import Agent
from perdure.core.contracts import (
    CALL_MODEL,
    TRANSCRIPT_MISMATCH,
    AdmittedCall,
    CallModel,
    Opening,
    RecordedTurn,
    Stop,
    Verdict,
)
from perdure.providers.protocol import AskedCall, ModelError, Provider, Reply
from perdure.providers.registry import provider
from perdure.temporal.journal import Conversation, Encode, Journal, TranscriptMismatchError
from perdure.tools.admission import admit

log = structlog.get_logger("perdure")

_LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every vendor takes back
_SPENT = "not run: the budget of turns is spent"


@dataclass(frozen=True)
class Models:
    agents: Mapping[str, Agent]
    journal: Journal

    @activity.defn(name=CALL_MODEL)
    async def call_model(self, asked: CallModel) -> RecordedTurn:
        agent = agent_of(self.agents, asked.agent)
        async with heartbeating():
            conversation = await self._conversation(asked)
            began = time.monotonic()
            reply = await _replied(conversation, tools=asked.tools)
        turn = recorded(self.journal, _recorded_turn(agent, asked, conversation, reply))
        log.info(
            "turn",
            run=activity.info().workflow_id,
            turn=asked.turn,
            model=turn.model,
            stop=turn.stop,
            calls=[call.name for call in turn.calls],
            seconds=round(time.monotonic() - began, 3),
            **turn.usage.model_dump(),
        )
        return turn

    async def _conversation(self, asked: CallModel) -> Conversation:
        info = activity.info()
        try:
            return await self.journal.conversation(activity.client(), segment(), info.activity_id, asked, _encoder)
        except TranscriptMismatchError as error:
            raise ApplicationError(str(error), type=TRANSCRIPT_MISMATCH, non_retryable=True) from None


def _encoder(opening: Opening) -> Encode:
    return provider(opening.protocol).encode


async def _replied(conversation: Conversation, *, tools: bool) -> Reply:
    opening = conversation.opening
    try:
        vendor: Provider = provider(opening.protocol)
        answer = await vendor.post(vendor.body(opening, conversation.messages, tools=tools))
        return vendor.read(answer, opening)
    except ModelError as error:
        log.warning("model", run=activity.info().workflow_id, kind=error.kind, why=error.message)
        if error.kind == "retry":
            delay = timedelta(seconds=error.retry_after) if error.retry_after is not None else None
            raise trouble(error.message, "ModelTrouble", delay) from None
        raise needs_person(error.message) from None


def _recorded_turn(agent: Agent, asked: CallModel, conversation: Conversation, reply: Reply) -> RecordedTurn:
    return RecordedTurn(
        v=1,
        digest="",
        stop=Stop.CALLS if reply.calls else reply.stop,
        calls=tuple(_admitted(agent, asked, conversation, reply.calls)),
        answer=reply.answer,
        usage=reply.usage,
        protocol=conversation.opening.protocol,
        model=reply.model,
        message=reply.message,
    )


def _admitted(
    agent: Agent, asked: CallModel, conversation: Conversation, calls: Sequence[AskedCall]
) -> Iterator[AdmittedCall]:
    """Each call judged. An id is kept if vendors take it back and the transcript holds none like it, or made anew."""
    taken: set[str] = set()
    for index, call in enumerate(calls):
        fresh = _LEGAL_ID.fullmatch(call.id) and call.id not in taken and call.id.encode() not in conversation.messages
        call_id = call.id if fresh else f"call_{asked.turn}_{index}"
        taken.add(call_id)
        one = admit(agent.toolbox, index, call_id, call.name, call.arguments, call.whole)
        yield one if asked.tools else one.model_copy(update={"verdict": Verdict.REFUSE, "reason": _SPENT})
