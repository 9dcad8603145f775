"""What a worker knows of its runs: the transcript of each, encoded, kept between turns; and how to get it back.

An activity reads its own run's history, but only for what this process has not seen: results that it recorded itself
are remembered, and what others recorded is read from the newest event backwards to the last one known. Every reference
carries a digest, and so does the transcript as a whole: what a cache, a reset, a late attempt or a cut history could
silently change is noticed, rebuilt once from the whole history, and then refused.

Nothing here is the only copy: what is dropped costs a page of history. So a run that ended goes at once, and of the
others those not used for longest, when there are too many or when they take too much memory, counted roughly.
"""

from asyncio import Lock
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from weakref import WeakValueDictionary

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client

from perdure.core.contracts import (
    CALL_MODEL,
    CallModel,
    Carried,
    FileRef,
    Opening,
    RecordedTurn,
    Ref,
    Start,
    Stop,
)
from perdure.core.models import at_place
from perdure.core.retelling import for_place
from perdure.core.transcript import Entry, Record, RecordGapError, chain, digest, entries, opening
from perdure.files import Load, Taken, attached
from perdure.temporal.history import Decoder
from perdure.traces import events as e

_FIRST_PAGE, _NEXT_PAGES = 24, 500
_KEPT_BYTES = 96 * 1024 * 1024  # of memory, over all runs of this process
_KEPT_RUNS = 2_000
_PARSED = 7  # times the bytes of a small JSON text is about what it takes in memory, decoded
_SMALL = 16_000  # bytes: what is larger is so by its texts
_EMPTY = 3_000  # bytes of an entry that holds nothing yet
_LAST = {Stop.ANSWER, Stop.REFUSED}  # turns after which a run ends

Encode = Callable[[Sequence[Entry]], bytes]
EncodeFor = Callable[[Opening], Encode]


class TranscriptMismatchError(Exception):
    """The history does not hold what the workflow refers to. Retrying will not help; a reset or a person may."""


@dataclass(frozen=True)
class Segment:
    """Whose history it is: a reset run has its own copy of the kept events."""

    workflow_id: str
    segment_id: str  # Temporal's run id


@dataclass(frozen=True)
class Answered:
    """Which of the run's models took a turn, and until when the first one is let be: see `RecordedTurn`."""

    place: int = 0
    until: datetime | None = None


@dataclass(frozen=True)
class Conversation:
    """A transcript as a provider takes it, up to the input of model activity `asked_by`."""

    opening: Opening
    messages: bytes
    digest: str
    asked_by: str
    sent: int = 0  # bytes of `messages` that the model activity before sent, whose prompt the vendor has cached
    files: Taken = field(default_factory=Taken)  # of the files in them
    place: int = 0  # of the run's models, whom it is encoded for
    answered: Answered = Answered()  # who answered last


@dataclass
class _Known:
    """What this process holds of one segment. `asked` and `results` are those that no conversation has taken in yet."""

    decoder: Decoder
    task: str | None = None
    files: tuple[FileRef, ...] = ()
    carried: Carried | None = None
    seen: int = 0  # newest event id read from the server
    asked: dict[str, CallModel] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    conversation: Conversation | None = None
    size: int = _EMPTY  # bytes of all that in memory, roughly
    fixed: int = _EMPTY  # of them, those of task and opening: kept as long as the entry
    counted: int = 0  # of them, by the journal
    reading: Lock = field(default_factory=Lock)  # the decoder takes each event once

    def begin(self, start: Start, size: int) -> None:
        if self.task is None:
            self.fixed += size
            self.size += size
        self.task, self.files = start.task, start.files
        if start.carried is not None and self.conversation is None:  # else it has been taken in
            self.carried = start.carried
            self.size += _decoded(size)

    def ask(self, activity_id: str, asked: CallModel, size: int) -> None:
        if activity_id not in self.asked:
            self.size += _EMPTY + size
        self.asked[activity_id] = asked

    def add(self, activity_id: str, result: Any, size: int) -> None:
        if activity_id not in self.results:
            self.size += size
        self.results[activity_id] = result

    def find(self, ref: Ref) -> Any:
        """The result that `ref` names; None if it is not kept."""
        carried = self.carried.records if self.carried else {}
        found = self.results.get(ref.id) or carried.get(ref.id) or {}
        return found if found.get("digest") == ref.digest else None

    def record(self) -> Record:
        if self.task is None:
            raise RecordGapError("the start of the run has not been read")
        results = {**self.carried.records, **self.results} if self.carried else self.results
        return Record(self.task, self.asked, results, self.carried, self.files)

    def take(self, conversation: Conversation) -> None:
        """Keep the conversation instead of what it was made from."""
        self.forget()
        self.conversation = conversation
        self.size += len(conversation.messages)

    def forget(self) -> None:
        self.conversation = self.carried = None
        self.asked.clear()
        self.results.clear()
        self.size = self.fixed


class Journal:
    """`kept_bytes` and `kept_runs` bound what is kept; with 0 bytes every turn is rebuilt from the history."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES, kept_runs: int = _KEPT_RUNS) -> None:
        self._known: OrderedDict[Segment, _Known] = OrderedDict()
        self._openings: WeakValueDictionary[str, Opening] = WeakValueDictionary()  # one for all runs of an agent
        self._kept_bytes, self._kept_runs = kept_bytes, kept_runs
        self.bytes = 0  # kept now, roughly
        self.reads = 0  # pages of history asked for

    @property
    def runs(self) -> int:
        """Runs of which something is kept."""
        return len(self._known)

    def remember(self, client: Client, segment: Segment, activity_id: str, result: dict[str, Any], size: int) -> None:
        """Keep a result that this process is about to record. If another attempt's is recorded, its digest tells.

        Args:
            size: bytes of the result as JSON.
        """
        if result.get("stop") in _LAST:
            self._drop(segment)
        else:
            self._of(segment, client).add(activity_id, result, _decoded(size))
            self._shrink(segment)

    async def result(self, client: Client, segment: Segment, ref: Ref) -> Any:
        """The record that `ref` names.

        Raises:
            TranscriptMismatchError: the history holds none, or another one.
        """
        known = self._of(segment, client)
        for read_more in (_nothing, self._catch_up, self._reread):
            await read_more(client, segment, known)
            if found := known.find(ref):
                return found
        raise TranscriptMismatchError(f"the history holds no result of activity {ref.id!r} with digest {ref.digest!r}")

    async def conversation(
        self,
        client: Client,
        segment: Segment,
        activity_id: str,
        asked: CallModel,
        fresh: Opening,
        encode: EncodeFor,
        load: Load,
        place: int | None = None,
    ) -> Conversation:
        """The transcript that `asked` refers to, encoded. A run's first question opens it, with `fresh`.

        It is encoded for the model that answered last, or for the one at `place`. What another one said is retold,
        without its reasoning. Only one encoding is kept: to change the model costs a reading of the whole history.

        Args:
            load: gets the content of a file that the transcript holds.

        Raises:
            TranscriptMismatchError: the history does not hold it.
        """
        known = self._of(segment, client)
        if asked.task:
            known.begin(Start(agent=asked.agent, task=asked.task), len(asked.task))
        for read_more in (_nothing, self._catch_up, self._reread):
            await read_more(client, segment, known)
            known.ask(activity_id, asked, 0)
            found = await _conversation(known, activity_id, asked, fresh, encode, load, place)
            if found and found.digest == asked.after:
                shared = self._sharing(known, found, fresh)
                known.take(shared)
                self._shrink(segment)
                return shared
        raise TranscriptMismatchError(
            f"the transcript rebuilt from the history is not the one that {activity_id!r} was asked to answer"
        )

    async def whole(self, client: Client, segment: Segment) -> Record:
        """All that the history holds, read anew and not kept."""
        known = _Known(Decoder(client.data_converter, segment.workflow_id))
        await self._catch_up(client, segment, known)
        return known.record()

    # --- reading the server -------------------------------------------------------------------------------------------

    async def _catch_up(self, client: Client, segment: Segment, known: _Known) -> None:
        """Take in what is newer than the newest known event."""
        async with known.reading:
            for event in await self._newer(client, segment, known.seen):
                await _take_in(known, event)
                known.seen = event.event_id
        self._shrink(segment)

    async def _reread(self, client: Client, segment: Segment, known: _Known) -> None:
        """Believe nothing of what is kept: read the whole history."""
        async with known.reading:
            known.seen = 0
            known.forget()
        await self._catch_up(client, segment, known)

    async def _newer(self, client: Client, segment: Segment, seen: int) -> Sequence[HistoryEvent]:
        """The events after event `seen`, in order; read backwards from the newest, for mostly there are few."""
        page: list[HistoryEvent] = []
        token, size = b"", _FIRST_PAGE
        while True:
            response = await client.workflow_service.get_workflow_execution_history_reverse(
                GetWorkflowExecutionHistoryReverseRequest(
                    namespace=client.namespace,
                    execution=WorkflowExecution(workflow_id=segment.workflow_id, run_id=segment.segment_id),
                    maximum_page_size=size,
                    next_page_token=token,
                ),
                retry=True,
            )
            self.reads += 1
            fresh = [event for event in response.history.events if event.event_id > seen]
            page += fresh
            token, size = response.next_page_token, _NEXT_PAGES
            if not token or len(fresh) < len(response.history.events):
                return page[::-1]

    # --- what is kept -------------------------------------------------------------------------------------------------

    def _of(self, segment: Segment, client: Client) -> _Known:
        if segment not in self._known:
            self._known[segment] = _Known(Decoder(client.data_converter, segment.workflow_id))
        self._known.move_to_end(segment)
        return self._known[segment]

    def _sharing(self, known: _Known, conversation: Conversation, fresh: Opening) -> Conversation:
        """The conversation with the one copy of its opening. Who brings one that no agent holds is counted for it."""
        mine = conversation.opening
        kept = self._openings.setdefault(fresh.digest, fresh) if fresh == mine else self._openings.get(mine.digest)
        if kept is None:
            self._openings[mine.digest] = mine
            known.fixed += _decoded(len(mine.model_dump_json()))
        return replace(conversation, opening=kept) if kept == mine and kept is not mine else conversation

    def _drop(self, segment: Segment) -> None:
        if dropped := self._known.pop(segment, None):
            self.bytes -= dropped.counted

    def _shrink(self, segment: Segment) -> None:
        """Count what changed of this segment; drop those not used for longest until the rest fits."""
        if known := self._known.get(segment):
            self.bytes += known.size - known.counted
            known.counted = known.size
        while self._known and (self.bytes > self._kept_bytes or len(self._known) > self._kept_runs):
            self._drop(next(iter(self._known)))


def _decoded(size: int) -> int:
    """What JSON of `size` bytes takes in memory, roughly: values cost much, long texts are what they are."""
    return _PARSED * min(size, _SMALL) + max(size - _SMALL, 0)


async def _nothing(client: Client, segment: Segment, known: _Known) -> None:
    """What is kept may do."""


async def _take_in(known: _Known, raw: HistoryEvent) -> None:
    match await known.decoder.decode(raw):
        case e.RunStarted(start=start):
            known.begin(start, raw.ByteSize())
        case e.ActivityScheduled(activity=name) as event if name == CALL_MODEL:
            known.ask(event.activity_id, CallModel.model_validate(event.input), raw.ByteSize())
        case e.ActivityCompleted(activity_id=activity_id, result=dict() as result) if activity_id != "?":
            known.add(activity_id, result, _decoded(raw.ByteSize()))
        case _:
            pass


async def _conversation(
    known: _Known,
    activity_id: str,
    asked: CallModel,
    fresh: Opening,
    encode: EncodeFor,
    load: Load,
    place: int | None,
) -> Conversation | None:
    """The conversation that `asked` needs, from what is kept; None if that is not enough."""
    kept = known.conversation
    if kept and kept.asked_by == activity_id and kept.digest == asked.after and place in (None, kept.place):
        return kept  # another attempt at the same turn
    try:
        record = known.record()
        if kept and kept.asked_by == asked.previous and kept.digest == asked.before:
            answered = answered_last(record, asked.since) or kept.answered
            if kept.place == (answered.place if place is None else place):
                return await _grown(record, replace(kept, answered=answered), activity_id, asked, encode, load)
        calls = chain(record, asked)
        offered = opening(record, calls, activity_id) or fresh
        found = (answered_last(record, call.since) for call in reversed(calls))
        answered = next((each for each in found if each), Answered())
        wanted = answered.place if place is None else place
        conversation = Conversation(offered, b"", "", "", place=wanted, answered=answered)
        for call in calls:
            conversation = await _grown(record, conversation, activity_id, call, encode, load)
        return conversation
    except RecordGapError:
        return None


def answered_last(record: Record, since: Sequence[Ref]) -> Answered | None:
    """Who answered last in what these references tell, if anybody did; blank turns count for nobody."""
    turns = (RecordedTurn.model_validate(record.result(ref.id)) for ref in reversed(since) if ref.kind == "turn")
    return next((Answered(turn.place, turn.until) for turn in turns if turn.stop is not Stop.BLANK), None)


async def _grown(
    record: Record, kept: Conversation, asked_by: str, asked: CallModel, encode: EncodeFor, load: Load
) -> Conversation:
    whole, files = await attached(entries(record, asked), kept.files, load)
    more = encode(at_place(kept.opening, kept.place))(list(for_place(whole, kept.place)))
    return Conversation(
        opening=kept.opening,
        messages=b",".join(part for part in (kept.messages, more) if part),
        digest=digest(record, kept.digest, asked),
        asked_by=asked_by,
        sent=len(kept.messages),
        files=files,
        place=kept.place,
        answered=kept.answered,
    )
