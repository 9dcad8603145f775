"""Many runs at once on one worker: do all finish, how many a second, in how much memory?

    python bench/burst.py

prints one JSON line; the floor runs the same number of plain workflows of the same length in the same call, in turns
before and after ours. Runs a second are over all rounds. Nobody pays for who came before: the server's timers of a
burst fire up to twenty seconds after it (the floor's, after the measurement), and cost as much as a sixth of it.
"""

import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable

from bench.floor import TASK_QUEUE, Floor
from bench.ground import Ground, cpu_ms, ground, measure, peak_mb, progress, task

_SETTLED = 22  # seconds


async def main(runs: int, steps: int, size: int, rounds: int) -> dict[str, float]:
    async with ground() as on:
        await _ours(on, 2, 1, size)
        await _floor(on, 2, 1)
        ours, floors = [], []
        spent = {on.worker: -cpu_ms(on.worker), on.floor: -cpu_ms(on.floor)}
        for number in range(rounds):
            for mine in (True, False) if number % 2 else (False, True):
                await asyncio.sleep(_SETTLED)
                if mine:
                    ours.append(await _ours(on, runs, steps, size))
                else:
                    floors.append(await _floor(on, runs, steps))
            progress(f"round {number + 1} of {rounds}: {ours[-1]:.1f} runs a second, floor {floors[-1]:.1f}")
        spent = {pid: (before + cpu_ms(pid)) / runs / rounds for pid, before in spent.items()}
        return {
            "runs": runs,
            "steps": steps,
            "observation_bytes": size,
            "finished": runs * rounds,
            "runs_per_s": round(statistics.harmonic_mean(ours), 2),
            "floor_runs_per_s": round(statistics.harmonic_mean(floors), 2),
            "worker_cpu_ms_per_run": round(spent[on.worker], 1),
            "floor_worker_cpu_ms_per_run": round(spent[on.floor], 1),
            "worker_peak_mb": round(peak_mb(on.worker)),
            "floor_worker_peak_mb": round(peak_mb(on.floor)),
            "rounds": rounds,
        }


async def _ours(on: Ground, runs: int, steps: int, size: int) -> float:
    async def one() -> None:
        started = await on.runs.start("bench", task(steps, size))
        outcome = await on.runs.result(started.run_id)
        assert outcome.state == "answered", outcome

    return await _runs_per_s(one, range(runs))


async def _floor(on: Ground, runs: int, steps: int) -> float:
    async def one() -> None:
        run_id = f"floor-{uuid.uuid4().hex[:8]}"
        handle = await on.client.start_workflow(Floor.run, steps, id=run_id, task_queue=TASK_QUEUE)
        await handle.describe()  # as Runs.result does
        await handle.result()

    return await _runs_per_s(one, range(runs))


async def _runs_per_s(one: Callable[[], Awaitable[None]], runs: Iterable[int]) -> float:
    began = time.perf_counter()
    done = await asyncio.gather(*(one() for _ in runs))
    return len(done) / (time.perf_counter() - began)


if __name__ == "__main__":
    measure(main, __doc__, runs=200, steps=5, bytes=5000, rounds=2)
