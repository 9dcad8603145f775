"""Compacting: what a run goes on with when its transcript or its history has grown too long."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.own import heartbeating, recorded, segment
from perdure.core.compaction import compacted
from perdure.core.contracts import COMPACT_TRANSCRIPT, TRANSCRIPT_MISMATCH, Carried, CompactTranscript, Opening, Ref
from perdure.core.transcript import Entry, Record, RecordGapError, chain, digest, entries, opening, stored, told
from perdure.temporal.journal import Journal

_MOST_CARRIED = 400_000  # bytes; with the latest turn and its observations it is part of the next segment's start


@dataclass(frozen=True)
class Compactions:
    journal: Journal

    @activity.defn(name=COMPACT_TRANSCRIPT)
    async def compact_transcript(self, asked: CompactTranscript) -> Carried:
        async with heartbeating():
            record = await self.journal.whole(activity.client(), segment())
            try:
                offered, said = _transcript(record, asked)
                carried = Carried(
                    digest="",
                    opening=offered,
                    entries=stored(compacted(said, _MOST_CARRIED)),
                    records=_records(record, asked.since) if asked.carry else {},
                )
            except RecordGapError as error:
                raise ApplicationError(str(error), type=TRANSCRIPT_MISMATCH, non_retryable=True) from None
        return recorded(self.journal, carried)


def _transcript(record: Record, asked: CompactTranscript) -> tuple[Opening | None, Sequence[Entry]]:
    """What the model has seen so far, and what it was offered.

    Raises:
        RecordGapError: the record does not hold it, or another.
    """
    if not asked.previous:
        contexts = [ref for ref in asked.since if ref.kind == "context"]
        return (record.context(contexts[0]).opening if contexts else None), told(record, contexts)
    if asked.previous not in record.asked:
        raise RecordGapError(f"model activity {asked.previous!r} is not in the record")
    calls = chain(record, record.asked[asked.previous])
    reached = ""
    for call in calls:
        reached = digest(record, reached, call)
    if reached != asked.digest:
        raise RecordGapError("the transcript in the history is not the one that was to be compacted")
    return opening(record, calls, asked.previous), [entry for call in calls for entry in entries(record, call)]


def _records(record: Record, since: Sequence[Ref]) -> dict[str, Any]:
    return {ref.id: record.result(ref.id) for ref in since if ref.kind in ("turn", "observation")}
