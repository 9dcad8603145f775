"""Thinking: transcript -> provider -> turn, with each call it asks for admitted and judged."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from functools import cache, partial
from itertools import chain, count

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.costs import cost, refuse_unpriced
from activities.own import EXPECTED, agent_of, heartbeating, needs_person, recorded, segment, trouble
from perdure import Agent
from perdure.core.contracts import (
    CALL_MODEL,
    TOO_LONG,
    TRANSCRIPT_MISMATCH,
    AdmittedCall,
    CallModel,
    Opening,
    RecordedTurn,
    Stop,
    Verdict,
)
from perdure.core.digests import of_bytes
from perdure.files import FileLostError, Files
from perdure.providers.protocol import AskedCall, ModelError, Provider, Reply
from perdure.providers.registry import provider
from perdure.store import StoreError
from perdure.temporal.journal import Conversation, Encode, Journal, TranscriptMismatchError
from perdure.tools.admission import admit

log = structlog.get_logger("perdure")

_LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every vendor takes back
_MOST_CALLS = 64  # in one turn: what settles at once must fit into a run's limits
_SPENT = "not run: no tool can be called any more"


@dataclass(frozen=True)
class Models:
    agents: Mapping[str, Agent]
    journal: Journal
    files: Files
    stored: bool = False

    @activity.defn(name=CALL_MODEL)
    async def call_model(self, asked: CallModel) -> RecordedTurn:
        agent = agent_of(self.agents, asked.agent)
        async with heartbeating():
            conversation = await self._conversation(asked, _offered(agent, self.stored))
            began = time.monotonic()
            refuse_unpriced(agent, conversation.opening)
            reply = await _replied(agent, conversation, tools=asked.tools)
        turn = recorded(self.journal, _recorded_turn(agent, asked, conversation, reply))
        log.info(
            "turn",
            run=activity.info().workflow_id,
            turn=asked.turn,
            model=turn.model,
            stop=turn.stop,
            calls=[call.name for call in turn.calls],
            seconds=round(time.monotonic() - began, 3),
            cost=None if turn.cost is None else f"{turn.cost:f}",
            **turn.usage.model_dump(),
        )
        return turn

    async def _conversation(self, asked: CallModel, fresh: Opening) -> Conversation:
        activity_id = activity.info().activity_id
        load = partial(self.files.load, segment().workflow_id)
        try:
            return await self.journal.conversation(
                activity.client(), segment(), activity_id, asked, fresh, _encoder, load
            )
        except TranscriptMismatchError as error:
            raise ApplicationError(str(error), type=TRANSCRIPT_MISMATCH, non_retryable=True) from None
        except FileLostError as error:
            raise needs_person(f"{error}. Then answer this request with retry; or with stop.") from None
        except StoreError as error:
            raise trouble(str(error), "StoreTrouble") from None


@cache
def _offered(agent: Agent, stored: bool) -> Opening:
    """What a run that begins now is opened with: one copy for all of them."""
    return agent.opening(stored=stored)


def _encoder(opening: Opening) -> Encode:
    return provider(opening.protocol).encode


async def _replied(agent: Agent, conversation: Conversation, *, tools: bool) -> Reply:
    """The model's reply. Where it may not call, its notes say so; only if it does nonetheless is the choice taken away.

    For that is a change of settings, which throws a vendor's cache of the whole transcript away: docs/adr/0010.
    """
    reply = await _answered(agent, conversation, tools=True)
    acts = reply.calls or reply.stop in (Stop.PAUSED, Stop.UNREAD)
    if tools or not acts:
        return reply
    log.info("insisting", run=activity.info().workflow_id, calls=[call.name for call in reply.calls])
    insisted = await _answered(agent, conversation, tools=False)
    costs = (reply.cost, insisted.cost)
    both = None if None in costs else sum(filter(None, costs), Decimal(0))
    return replace(insisted, usage=reply.usage + insisted.usage, cost=both)


async def _answered(agent: Agent, conversation: Conversation, *, tools: bool) -> Reply:
    opening = conversation.opening
    run = of_bytes(segment().workflow_id)[:32]  # shown to the vendor: an id may say more than it should
    try:
        vendor: Provider = provider(opening.protocol)
        body = vendor.body(opening, conversation.messages, tools=tools, sent=conversation.sent, run=run)
        answer = await vendor.post(body)
        reply = vendor.read(answer, opening)
    except ModelError as error:
        log.warning("model", run=activity.info().workflow_id, kind=error.kind, why=error.message)
        if error.kind == "retry":
            delay = timedelta(seconds=error.retry_after) if error.retry_after is not None else None
            raise trouble(error.message, "ModelTrouble", delay) from None
        if error.kind == "compact":
            raise ApplicationError(error.message, type=TOO_LONG, non_retryable=True, category=EXPECTED) from None
        raise needs_person(error.message) from None
    return replace(reply, cost=cost(agent, opening, reply))


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
        opening=conversation.opening if asked.turn == 1 else None,
        advice=reply.advice,
        cost=reply.cost,
    )


def _admitted(
    agent: Agent, asked: CallModel, conversation: Conversation, calls: Sequence[AskedCall]
) -> Iterator[AdmittedCall]:
    """Each call judged, among the tools that the run was opened with."""
    toolbox = {spec.name: agent.toolbox[spec.name] for spec in conversation.opening.tools if spec.name in agent.toolbox}
    missing = {spec.name for spec in conversation.opening.tools} - toolbox.keys()
    ids = _ids(asked.turn, conversation.messages, calls)
    for index, (call, call_id) in enumerate(zip(calls, ids, strict=True)):
        if call.name in missing:
            raise needs_person(
                f"the model calls {call.name!r}, which this run was opened with and this worker's agent {agent.name!r} "
                "has no more. Deploy one that has it, then answer this request with retry; or with stop."
            )
        one = admit(toolbox, index, call_id, call.name, call.arguments, call.whole)
        refused = "" if asked.tools else _SPENT
        if index >= _MOST_CALLS:
            refused = f"not run: more than {_MOST_CALLS} calls in one turn. Ask for the rest in the next."
        yield one.model_copy(update={"verdict": Verdict.REFUSE, "reason": refused}) if refused else one


def _ids(turn: int, messages: bytes, calls: Sequence[AskedCall]) -> Iterator[str]:
    """An id for each call: its own, if vendors take it back and the transcript holds none like it; or made anew."""
    taken: set[str] = set()
    for index, call in enumerate(calls):
        ours = (f"call_{turn}_{index}" + (f"_{again}" if again else "") for again in count())
        candidates = chain([call.id] if _LEGAL_ID.fullmatch(call.id) else [], ours)
        chosen = next(each for each in candidates if each not in taken and each.encode() not in messages)
        taken.add(chosen)
        yield chosen
