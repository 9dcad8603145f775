"""Ended segments in the store: histories that outlive the server's retention.

A segment is kept as Temporal's own JSON, compressed, as its UI and CLI would save it; what a payload codec encrypted
stays encrypted. The last one of a run is kept a moment before it ends, by an activity that was told how: that stands in
the activity's own input, so the end can be read although it was not recorded yet.
"""

import gzip
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from perdure.core.contracts import EXPORT_SEGMENT, ExportSegment, RunState
from perdure.store import Store, StoreError, StoreMissError, named
from perdure.temporal.connect import client_store
from perdure.traces import events as e
from perdure.traces.turns import read

_log = logging.getLogger("perdure")


def store_for_reading() -> Store | None:
    """The store that PERDURE_STORE names, else that of the embedded server's workers. One that fails is none."""
    try:
        return client_store()
    except StoreError as error:
        _log.warning("the store cannot be read: %s", error)
        return None


async def keep(store: Store, run_id: str, segment_id: str, history: WorkflowHistory) -> int:
    """Keep a segment; its size in bytes.

    Raises:
        StoreError: it is not kept.
    """
    content = gzip.compress(history.to_json().encode(), mtime=0)
    await store.put(_key(run_id, segment_id, history.events[0]), content)
    return len(content)


async def segments(store: Store | None, run_id: str) -> Sequence[str]:
    """The keys of the segments that are kept of a run, oldest first; none if the store cannot tell."""
    try:
        return await store.keys(named("runs", run_id, "segments")) if store else ()
    except StoreError as error:
        _log.warning("the store cannot be read: %s", error)
        return ()


async def segment(store: Store | None, run_id: str, segment_id: str) -> Sequence[HistoryEvent]:
    """The events of a segment; none if it is not kept, or the store cannot tell."""
    found = [key for key in await segments(store, run_id) if segment_id in key]
    try:
        content = await store.get(found[-1]) if store and found else b""
        return WorkflowHistory.from_json(run_id, gzip.decompress(content).decode()).events if content else ()
    except StoreMissError:
        return ()
    except StoreError as error:
        _log.warning("the store cannot be read: %s", error)
        return ()


async def latest(store: Store | None, run_id: str) -> tuple[str, Sequence[HistoryEvent]]:
    """The segment that ended last, and its events; none if none is kept.

    One that failed and the one that took the run on from there began at the same time: their histories begin alike.
    """
    keys = await segments(store, run_id)
    newest = [segment_of(key) for key in keys if _began(key) == _began(keys[-1])]
    found = [(each, await segment(store, run_id, each)) for each in newest]
    return max(found, key=lambda each: each[1][-1].event_time.ToNanoseconds() if each[1] else 0, default=("", ()))


def segment_of(key: str) -> str:
    """The segment's id in its key."""
    return key.rpartition("/")[2].removesuffix(".json.gz").partition("-")[2]


def _began(key: str) -> str:
    """When its segment began, in its key."""
    return key.rpartition("/")[2].partition("-")[0]


def _key(run_id: str, segment_id: str, started: HistoryEvent) -> str:
    at: datetime = started.event_time.ToDatetime(tzinfo=UTC)
    return f"{named('runs', run_id, 'segments')}/{at:%Y%m%dt%H%M%S.%f}-{segment_id}.json.gz"


def with_end(events: Sequence[e.Event]) -> Sequence[e.Event]:
    """The events of a run that was kept a moment before its end, and the end."""
    last = events[-1] if events else None
    if last is None or isinstance(last, e.RunEnded):
        return events
    exports = [x for x in events if isinstance(x, e.ActivityScheduled) and x.activity == EXPORT_SEGMENT]
    asked = read(ExportSegment, exports[-1].input) if exports else None
    if asked is None or asked.outcome is None:
        return events
    status = {RunState.CANCELLED: "cancelled", RunState.FAILED: "failed"}.get(asked.outcome.state, "completed")
    return [*events, e.RunEnded(last.id + 1, exports[-1].at, status, asked.outcome.model_dump(mode="json"))]
