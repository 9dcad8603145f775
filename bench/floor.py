"""The floor: a workflow of two empty activities a step with tiny payloads, on a worker with default settings."""

import asyncio
import sys
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

TASK_QUEUE = "floor"
_LONG = timedelta(hours=1)  # its timers fire after the measurement, and ours are not slowed by them


@activity.defn
async def think() -> None: ...


@activity.defn
async def act() -> None: ...


@workflow.defn
class Floor:
    @workflow.run
    async def run(self, steps: int) -> None:
        for _ in range(steps):
            await workflow.execute_activity(think, start_to_close_timeout=_LONG)
            await workflow.execute_activity(act, start_to_close_timeout=_LONG)


async def serve(address: str) -> None:
    client = await Client.connect(address)
    async with Worker(client, task_queue=TASK_QUEUE, workflows=[Floor], activities=[think, act]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
