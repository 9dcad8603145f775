"""Thinking: transcript -> provider -> turn, with each call it asks for admitted and judged."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from itertools import chain, count

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.chain import along_chain
from activities.costs import cost, refuse_unpriced
from activities.fallback import rest
from activities.lanes import Lanes
from activities.own import EXPECTED, agent_of, heartbeating, needs_person, recorded, segment, trouble
from perdure import Agent
from perdure.core.compaction import another_id
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
from perdure.core.models import at_place
from perdure.files import FileLostError, Files
from perdure.providers.protocol import AskedCall, ModelError, Provider, Reply
from perdure.providers.registry import provider
from perdure.store import StoreError
from perdure.temporal.journal import Conversation, Encode, Journal, TranscriptMismatchError
from perdure.tools.admission import admit
from perdure.tools.agents import scoped
from perdure.tools.answers import MisfitError, advice, held
from perdure.tools.models import AgentError

log = structlog.get_logger("perdure")

_LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every vendor takes back
_MOST_CALLS = 64  # in one turn: what settles at once must fit into a run's limits
_ONE = "not run: one call in a turn. Ask for it again when you have seen what came of the first."
_SPENT = "not run: no tool can be called any more"


@dataclass(frozen=True)
class Models:
    agents: Mapping[str, Agent]
    journal: Journal
    files: Files
    stored: bool = False
    lanes: Lanes = field(default_factory=Lanes)

    @activity.defn(name=CALL_MODEL)
    async def call_model(self, asked: CallModel) -> RecordedTurn:
        agent = agent_of(self.agents, asked.agent)
        async with heartbeating():
            began = time.monotonic()
            conversation, reply, passed = await self._thought(agent, asked)
        reply = _formed(agent, conversation.opening, reply, last=not asked.tools)
        turn = recorded(self.journal, _recorded_turn(agent, asked, conversation, reply, passed))
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

    async def _thought(self, agent: Agent, asked: CallModel) -> tuple[Conversation, Reply, tuple[str, ...]]:
        """What the first of the run's models that is not out replies, and what the others said."""
        fresh = _offered(agent, self.stored, asked.only)
        at_hand = await self._conversation(asked, fresh)

        async def ask(place: int) -> tuple[Conversation, Reply]:
            same = at_hand.place == place
            conversation = at_hand if same else await self._conversation(asked, fresh, place)
            return conversation, await _replied(agent, conversation, tools=asked.tools)

        try:
            (conversation, reply), passed = await along_chain(
                ask, at_hand.opening, at_hand.answered, asked.detour, self.lanes
            )
        except ModelError as error:
            raise trouble_of(error) from None
        return conversation, reply, passed

    async def _conversation(self, asked: CallModel, fresh: Opening, place: int | None = None) -> Conversation:
        activity_id = activity.info().activity_id
        load = partial(self.files.load, segment().workflow_id)
        try:
            return await self.journal.conversation(
                activity.client(), segment(), activity_id, asked, fresh, _encoder, load, place
            )
        except TranscriptMismatchError as error:
            raise ApplicationError(str(error), type=TRANSCRIPT_MISMATCH, non_retryable=True) from None
        except FileLostError as error:
            raise needs_person(f"{error}. Then answer this request with retry; or with stop.") from None
        except StoreError as error:
            raise trouble(str(error), "StoreTrouble") from None


def trouble_of(error: ModelError) -> ApplicationError:
    """What went wrong with a model, as what is to follow from it."""
    if error.kind == "retry":
        delay = timedelta(seconds=error.retry_after) if error.retry_after is not None else None
        return trouble(error.message, "ModelTrouble", delay)
    if error.kind == "compact":
        return ApplicationError(error.message, type=TOO_LONG, non_retryable=True, category=EXPECTED)
    return needs_person(error.message)


@lru_cache(maxsize=256)
def _offered(agent: Agent, stored: bool, only: tuple[str, ...] | None) -> Opening:
    """What a run that begins now is opened with: one copy for all that begin alike.

    Raises:
        ApplicationError: it is to have tools that the agent has not.
    """
    try:
        return (agent if only is None else scoped(agent, only)).opening(stored=stored)
    except AgentError as error:
        raise needs_person(
            f"{error} Answer stop and start the run anew; or deploy an agent that has it, and answer retry."
        ) from None


def _encoder(opening: Opening) -> Encode:
    return provider(opening.protocol).encode


async def _replied(agent: Agent, conversation: Conversation, *, tools: bool) -> Reply:
    """The model's reply. Where it may not call, its notes say so; only if it does nonetheless is the choice taken away.

    For that is a change of settings, which throws a vendor's cache of the whole transcript away: docs/adr/0010.
    """
    reply = await answered(agent, conversation, tools=True)
    acts = reply.calls or reply.stop in (Stop.PAUSED, Stop.UNREAD)
    if tools or not acts:
        return reply
    log.info("insisting", run=activity.info().workflow_id, calls=[call.name for call in reply.calls])
    insisted = await answered(agent, conversation, tools=False)
    costs = (reply.cost, insisted.cost)
    both = None if None in costs else sum(filter(None, costs), Decimal(0))
    return replace(insisted, usage=reply.usage + insisted.usage, cost=both)


async def answered(agent: Agent, conversation: Conversation, *, tools: bool) -> Reply:
    """
    Raises:
        ModelError: there is no answer, and why.
    """
    opening = at_place(conversation.opening, conversation.place)
    run = of_bytes(segment().workflow_id)[:32]  # shown to the vendor: an id may say more than it should
    try:
        refuse_unpriced(agent, opening)
        vendor: Provider = provider(opening.protocol)
        body = vendor.body(opening, conversation.messages, tools=tools, sent=conversation.sent, run=run)
        answer = await vendor.post(body)
        reply = vendor.read(answer, opening)
        return replace(reply, cost=cost(agent, opening, reply))
    except ModelError as error:
        log.warning("model", run=activity.info().workflow_id, model=opening.model, kind=error.kind, why=error.message)
        raise


def _formed(agent: Agent, opening: Opening, reply: Reply, *, last: bool) -> Reply:
    """The reply with its answer as canonical JSON, or with advice, where the run was opened with a form of answer."""
    if opening.answer is None or reply.stop is not Stop.ANSWER:
        return reply
    try:
        return replace(reply, answer=held(agent.form, opening.answer, reply.answer))
    except MisfitError as misfit:
        return replace(reply, stop=Stop.UNREAD, advice=advice(misfit), answer=reply.answer if last else "")


def _recorded_turn(
    agent: Agent, asked: CallModel, conversation: Conversation, reply: Reply, passed: tuple[str, ...]
) -> RecordedTurn:
    return RecordedTurn(
        v=1,
        digest="",
        stop=Stop.CALLS if reply.calls else reply.stop,
        calls=tuple(_admitted(agent, asked, conversation, reply.calls)),
        answer=reply.answer,
        usage=reply.usage,
        protocol=at_place(conversation.opening, conversation.place).protocol,
        model=reply.model,
        message=reply.message,
        opening=conversation.opening if asked.turn == 1 else None,
        advice=reply.advice,
        place=conversation.place,
        passed=passed,
        until=rest(conversation.place, conversation.answered, datetime.now(UTC)),
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
        if index and not conversation.opening.parallel:
            refused = _ONE
        if index >= _MOST_CALLS:
            refused = f"not run: more than {_MOST_CALLS} calls in one turn. Ask for the rest in the next."
        yield one.model_copy(update={"verdict": Verdict.REFUSE, "reason": refused}) if refused else one


def _ids(turn: int, messages: bytes, calls: Sequence[AskedCall]) -> Iterator[str]:
    """An id for each call: its own, if vendors take it back and the transcript holds none like it; or made anew."""
    taken: set[str] = set()
    for index, call in enumerate(calls):
        ours = (f"call_{turn}_{index}" + (f"_{again}" if again else "") for again in count())
        candidates = chain([call.id] if _LEGAL_ID.fullmatch(call.id) else [], ours)
        chosen = next(each for each in candidates if each not in taken and not _used(each, messages))
        taken.add(chosen)
        yield chosen


def _used(call_id: str, messages: bytes) -> bool:
    """Whether the transcript holds this id, as it is or as that of a call that another model made."""
    return any(each.encode() in messages for each in (call_id, another_id(call_id)))
