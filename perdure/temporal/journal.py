"""What a worker knows of its runs: the transcript of each, encoded, kept between turns; and how to get it back.

An activity reads its own run's history, but only for what this process has not seen: results that it recorded itself
are remembered, and what others recorded is read from the newest event backwards to the last one known. Every reference
carries a digest, and so does the transcript as a whole: what a cache, a reset, a late attempt or a cut history could
silently change is noticed, rebuilt once from the whole history, and then refused.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client

from perdure.core.contracts import CALL_MODEL, CallModel, Opening, Ref, Start
from perdure.core.digests import of_transcript
from perdure.core.transcript import Entry, Record, RecordGapError, chain, entries, opening, recorded_digest
from perdure.temporal.history import Decoder
from perdure.traces import events as e

_FIRST_PAGE, _NEXT_PAGES = 24, 500
_KEPT_BYTES = 96 * 1024 * 1024  # of encoded transcripts and fresh results, over all runs of this process

Encode = Callable[[Sequence[Entry]], bytes]


class TranscriptMismatchError(Exception):
    """The history does not hold what the workflow refers to. Retrying will not help; a reset or a person may."""


@dataclass(frozen=True)
class Segment:
    """Whose history it is: a reset run has its own copy of the kept events."""

    workflow_id: str
    segment_id: str  # Temporal's run id


@dataclass(frozen=True)
class Conversation:
    """A transcript as a provider takes it, up to the input of model activity `asked_by`."""

    opening: Opening
    messages: bytes
    digest: str
    asked_by: str


@dataclass
class _Known:
    """What this process holds of one segment. `asked` and `results` are those that no conversation has taken in yet."""

    decoder: Decoder
    start: Start | None = None
    seen: int = 0  # newest event id read from the server
    asked: dict[str, CallModel] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    conversation: Conversation | None = None
    size: int = 0  # bytes of all that, roughly
    counted: int = 0  # of them, by the journal

    def add(self, activity_id: str, result: Any, size: int) -> None:
        self.results[activity_id] = result
        self.size += size

    def holds(self, ref: Ref) -> bool:
        return ref.id in self.results and self.results[ref.id].get("digest") == ref.digest

    def record(self) -> Record:
        if self.start is None:
            raise RecordGapError("the start of the run has not been read")
        return Record(self.start, self.asked, self.results)

    def take(self, conversation: Conversation) -> None:
        """Keep the conversation instead of what it was made from."""
        self.conversation = conversation
        self.asked.clear()
        self.results.clear()
        self.size = len(conversation.messages)


class Journal:
    """`kept_bytes` bounds what is kept, over all runs; with 0 every turn is rebuilt from the history."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._known: OrderedDict[Segment, _Known] = OrderedDict()
        self._kept_bytes = kept_bytes
        self._total = 0
        self.reads = 0  # pages of history asked for

    def remember(self, client: Client, segment: Segment, activity_id: str, result: dict[str, Any], size: int) -> None:
        """Keep a result that this process is about to record. If another attempt's is recorded, its digest tells."""
        self._of(segment, client).add(activity_id, result, size)
        self._shrink(segment)

    async def result(self, client: Client, segment: Segment, ref: Ref) -> Any:
        """The record that `ref` names.

        Raises:
            TranscriptMismatchError: the history holds none, or another one.
        """
        known = self._of(segment, client)
        for read_more in (_nothing, self._catch_up, self._reread):
            await read_more(client, segment, known)
            if known.holds(ref):
                return known.results[ref.id]
        raise TranscriptMismatchError(f"the history holds no result of activity {ref.id!r} with digest {ref.digest!r}")

    async def conversation(
        self, client: Client, segment: Segment, activity_id: str, asked: CallModel, encode: Callable[[Opening], Encode]
    ) -> Conversation:
        """The transcript that `asked` refers to, encoded.

        Raises:
            TranscriptMismatchError: the history does not hold it.
        """
        known = self._of(segment, client)
        for read_more in (_nothing, self._catch_up, self._reread):
            await read_more(client, segment, known)
            known.asked[activity_id] = asked
            found = _conversation(known, activity_id, asked, encode)
            if found and found.digest == asked.after:
                known.take(found)
                self._shrink(segment)
                return found
        raise TranscriptMismatchError(
            f"the transcript rebuilt from the history is not the one that {activity_id!r} was asked to answer"
        )

    # --- reading the server -------------------------------------------------------------------------------------------

    async def _catch_up(self, client: Client, segment: Segment, known: _Known) -> None:
        """Read backwards from the newest event to the newest known one."""
        page: list[HistoryEvent] = []
        token, size, newest = b"", _FIRST_PAGE, known.seen
        while True:
            response = await client.workflow_service.get_workflow_execution_history_reverse(
                GetWorkflowExecutionHistoryReverseRequest(
                    namespace=client.namespace,
                    execution=WorkflowExecution(workflow_id=segment.workflow_id, run_id=segment.segment_id),
                    maximum_page_size=size,
                    next_page_token=token,
                )
            )
            self.reads += 1
            fresh = [event for event in response.history.events if event.event_id > known.seen]
            page += fresh
            newest = max(newest, *(event.event_id for event in fresh)) if fresh else newest
            token, size = response.next_page_token, _NEXT_PAGES
            if not token or len(fresh) < len(response.history.events):
                break
        for event in reversed(page):
            await _take_in(known, event)
        known.seen = newest
        self._shrink(segment)

    async def _reread(self, client: Client, segment: Segment, known: _Known) -> None:
        """Believe nothing of what is kept: read the whole history."""
        known.seen, known.conversation = 0, None
        await self._catch_up(client, segment, known)

    # --- what is kept -------------------------------------------------------------------------------------------------

    def _of(self, segment: Segment, client: Client) -> _Known:
        if segment not in self._known:
            self._known[segment] = _Known(Decoder(client.data_converter, segment.workflow_id))
        self._known.move_to_end(segment)
        return self._known[segment]

    def _shrink(self, segment: Segment) -> None:
        """Count what changed of this segment; drop those not used for longest until the rest fits."""
        if known := self._known.get(segment):
            self._total += known.size - known.counted
            known.counted = known.size
        while self._total > self._kept_bytes and self._known:
            _, dropped = self._known.popitem(last=False)
            self._total -= dropped.counted


async def _nothing(client: Client, segment: Segment, known: _Known) -> None:
    """What is kept may do."""


async def _take_in(known: _Known, raw: HistoryEvent) -> None:
    match await known.decoder.decode(raw):
        case e.RunStarted(start=start):
            known.start = start
        case e.ActivityScheduled(activity=name) as event if name == CALL_MODEL:
            known.asked[event.activity_id] = CallModel.model_validate(event.input)
        case e.ActivityCompleted(activity_id=activity_id, result=dict() as result):
            known.add(activity_id, result, raw.ByteSize())
        case _:
            pass


def _conversation(
    known: _Known, activity_id: str, asked: CallModel, encode: Callable[[Opening], Encode]
) -> Conversation | None:
    """The conversation that `asked` needs, from what is kept; None if that is not enough."""
    kept = known.conversation
    if kept and kept.asked_by == activity_id and kept.digest == asked.after:
        return kept  # another attempt at the same turn
    try:
        record = known.record()
        if kept and kept.asked_by == asked.previous and kept.digest == asked.before:
            return _grown(record, kept, activity_id, asked, encode(kept.opening))
        calls = chain(record, asked)
        first = opening(record, calls[0])
        conversation = Conversation(first, b"", "", "")
        for call in calls:
            conversation = _grown(record, conversation, activity_id, call, encode(first))
        return conversation
    except RecordGapError:
        return None


def _grown(record: Record, kept: Conversation, asked_by: str, asked: CallModel, encode: Encode) -> Conversation:
    more = encode(entries(record, asked))
    digests = [recorded_digest(record, ref) for ref in asked.since]
    return Conversation(
        opening=kept.opening,
        messages=b",".join(part for part in (kept.messages, more) if part),
        digest=of_transcript(kept.digest, record.start.task, digests),
        asked_by=asked_by,
    )
