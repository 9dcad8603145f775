"""Many runs at once on a worker that gets a part of a CPU, as in a container with a limit: is a call thought lost?

    python bench/starved.py

prints one JSON line. Who is slow is not dead: what is tried again was paid for, and maybe done, twice.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.ground import ground, measure, task
from perdure.traces.events import ActivityStarted

_PERIOD = 0.1  # seconds, as the kernel's scheduler has it for containers


async def main(runs: int, steps: int, size: int, share: float) -> dict[str, float]:
    async with ground() as on:

        async def one() -> list[ActivityStarted]:
            started = await on.runs.start("bench", task(steps, size))
            await on.runs.result(started.run_id)
            return [each for each in await on.runs.events(started.run_id) if isinstance(each, ActivityStarted)]

        await one()
        async with _starved(on.worker, share):
            calls = [call for each in await asyncio.gather(*(one() for _ in range(runs))) for call in each]
    return {
        "runs": runs,
        "steps": steps,
        "cpu_share": share,
        "calls": len(calls),
        "tried_again": sum(call.attempt > 1 for call in calls),
    }


@asynccontextmanager
async def _starved(pid: int, share: float) -> AsyncIterator[None]:
    async def stopping() -> None:
        try:
            while True:
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(_PERIOD * (1 - share))
                os.kill(pid, signal.SIGCONT)
                await asyncio.sleep(_PERIOD * share)
        finally:
            os.kill(pid, signal.SIGCONT)

    stops = asyncio.create_task(stopping())
    try:
        yield
    finally:
        stops.cancel()
        await asyncio.wait([stops])


if __name__ == "__main__":
    measure(main, __doc__, runs=200, steps=5, bytes=5000, share=0.35)
