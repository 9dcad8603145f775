"""A run of thousands of turns: is a turn late in it as quick as an early one, and what does a new segment cost?

    python bench/long.py --turns 2000

prints one JSON line. Times are between the moments at which the server recorded that a turn was asked for: the median
of the first 200 turns in the first and in the last segment, for within one a transcript grows until it is compacted;
and of those turns that crossed into a new segment.
"""

import asyncio
import statistics
import uuid
from collections.abc import Sequence

from bench.ground import Ground, ground, measure, peak_mb, progress, task
from perdure.core.contracts import CALL_MODEL
from perdure.traces.events import ActivityScheduled, Event, RunStarted

_SPAN = 200  # turns


async def main(turns: int, size: int) -> dict[str, float]:
    async with ground() as on:
        await _run(on, 3, size)  # warm
        run_id = await _run(on, turns, size)
        events = await on.runs.events(run_id)
        within, across = _times(events)
        return {
            "turns": turns,
            "observation_bytes": size,
            "segments": sum(isinstance(event, RunStarted) for event in events),
            "ms_per_turn_first": round(statistics.median(within[0][:_SPAN]), 2),
            "ms_per_turn_last": round(statistics.median(within[-1][:_SPAN]), 2),
            "ms_per_turn_across": round(statistics.median(across), 2) if across else 0.0,
            "worker_peak_mb": round(peak_mb(on.worker)),
        }


async def _run(on: Ground, turns: int, size: int) -> str:
    run_id = f"long-{uuid.uuid4().hex[:8]}"
    await on.runs.start("bench", task(turns, size), run_id=run_id)
    ended = asyncio.create_task(on.runs.result(run_id))
    while not (await asyncio.wait([ended], timeout=10))[0]:
        details = await on.client.get_workflow_handle(run_id).describe()
        progress(f"{details.history_length} events in segment {details.run_id[:8]}")
    assert ended.result().state == "answered", ended.result()
    return run_id


def _times(events: Sequence[Event]) -> tuple[list[list[float]], list[float]]:
    """Milliseconds from turn to turn: within each segment, and across two."""
    within: list[list[float]] = []
    across: list[float] = []
    last, seam = None, False
    for event in events:
        if isinstance(event, RunStarted):
            seam = last is not None
            within.append([])
        elif isinstance(event, ActivityScheduled) and event.activity == CALL_MODEL:
            if last is not None:
                (across if seam else within[-1]).append((event.at - last).total_seconds() * 1000)
            last, seam = event.at, False
    return within, across


if __name__ == "__main__":
    measure(main, __doc__, turns=2000, bytes=200)
