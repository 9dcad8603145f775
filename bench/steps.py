"""What a step costs: bytes of history, time, the worker's CPU. A step is a turn with one call.

    python bench/steps.py --steps 100 --bytes 5000

prints one JSON line. The floor, a plain workflow of two empty activities a step, runs in the same call, interleaved:
compare within one line, not across machines or moments.
"""

import statistics
import time
import uuid
from collections.abc import Awaitable, Callable

from bench.floor import TASK_QUEUE, Floor
from bench.ground import Ground, cpu_ms, ground, measure, progress, task

_Cost = tuple[float, float]  # ms, worker's CPU ms, per step


async def main(steps: int, size: int, rounds: int) -> dict[str, float]:
    async with ground() as on:
        await _ours(on, 3, 100)  # both warm
        await _floor(on, 3)
        ours, floors, run_id = [], [], ""
        for number in range(rounds):
            cost, run_id = await _ours(on, steps, size)
            ours.append(cost)
            floors.append(await _floor(on, min(steps, 200)))
            progress(f"round {number + 1} of {rounds}: {ours[-1][0]:.1f} ms a step, floor {floors[-1][0]:.1f}")
        described = await on.client.get_workflow_handle(run_id).describe()
        info = described.raw_description.workflow_execution_info
        return {
            "steps": steps,
            "observation_bytes": size,
            "events": info.history_length,
            "history_bytes": info.history_size_bytes,
            "ms_per_step": _median(ours, 0),
            "worker_cpu_ms_per_step": _median(ours, 1),
            "floor_ms_per_step": _median(floors, 0),
            "floor_worker_cpu_ms_per_step": _median(floors, 1),
            "rounds": rounds,
        }


async def _ours(on: Ground, steps: int, size: int) -> tuple[_Cost, str]:
    run_id = f"steps-{uuid.uuid4().hex[:8]}"

    async def run() -> None:
        await on.runs.start("bench", task(steps, size), run_id=run_id)
        outcome = await on.runs.result(run_id)
        assert outcome.state == "answered", outcome

    return await _cost(run, on.worker, steps), run_id


async def _floor(on: Ground, steps: int) -> _Cost:
    async def run() -> None:
        await on.client.execute_workflow(Floor.run, steps, id=f"floor-{uuid.uuid4().hex[:8]}", task_queue=TASK_QUEUE)

    return await _cost(run, on.floor, steps)


async def _cost(run: Callable[[], Awaitable[None]], pid: int, steps: int) -> _Cost:
    cpu, began = cpu_ms(pid), time.perf_counter()
    await run()
    return (time.perf_counter() - began) * 1000 / steps, (cpu_ms(pid) - cpu) / steps


def _median(costs: list[_Cost], which: int) -> float:
    return round(statistics.median(cost[which] for cost in costs), 2)


if __name__ == "__main__":
    measure(main, __doc__, steps=100, bytes=5000, rounds=3)
