"""python worker.py [agents...]: host the workflows and the activities. Composition root and sandbox; no logic."""

import asyncio
import gc
import os
import pkgutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any

import structlog
from temporalio.client import Client
from temporalio.worker import PollerBehaviorAutoscaling, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxMatcher, SandboxRestrictions

import activities as deeds
import perdure
import workflows
from activities.grants import grant_key
from activities.lanes import PATIENCE, Lanes
from perdure import Agent
from perdure.console.logs import log_to_stderr
from perdure.core.contracts import TASK_QUEUE
from perdure.core.runs import UnreachableError
from perdure.providers.rates import queue_of, rates_from_env
from perdure.providers.registry import warm
from perdure.store import Store, StoreError, store_from_env
from perdure.temporal.connect import connect
from perdure.temporal.embedded import state_folder
from perdure.temporal.journal import Journal
from perdure.temporal.runner import without_contexts
from perdure.temporal.search_attributes import SearchAttributesMissingError, ensure_search_attributes
from perdure.temporal.shared_code import share_code
from perdure.temporal.workers import identity
from perdure.tools.discovery import AgentLoadError, load

log = structlog.get_logger("perdure")

_STICKY = timedelta(seconds=3)  # how long a killed worker's runs wait before another worker takes them
_HEARTBEATS = timedelta(seconds=5)  # the longest between two that are sent: with one a tool learns that it is cancelled
_GRACE = timedelta(seconds=30)  # for tools to finish when the worker is stopped
_AT_ONCE = 200  # activities
_TASKS_AT_ONCE = 32  # workflow tasks: a thread each, and more of them only keep each other and the calls waiting


def sandbox(*, whole: bool = False) -> SandboxedWorkflowRunner:
    """The determinism boundary as a value: of ours, a workflow may import perdure.core and nothing else.

    Workflow code is watched always. `whole` takes the rules of perdure.core into the sandbox too, so that it sees a
    clock or a dice roll in them; that costs each run a copy of them, and is what every test's replay uses.
    """
    rooms = {room.name for room in pkgutil.iter_modules(perdure.__path__)}
    beside = SandboxMatcher(access={"activities", "client", "worker", "examples"})  # in the wheel they are in it
    effects = SandboxMatcher(
        access={"activities", "client", "anthropic", "openai", "httpx", "httpx2", "fsspec", "structlog"},
        children={"perdure": SandboxMatcher(access=rooms - {"core", "_app"}, children={"_app": beside})},
    )
    pure = {"perdure.core.contracts", "perdure.core.steps"} if whole else {"perdure.core"}
    passed = SandboxRestrictions.default.passthrough_modules | pure
    return SandboxedWorkflowRunner(
        restrictions=replace(SandboxRestrictions.default, invalid_modules=effects, passthrough_modules=passed)
    )


def build(
    client: Client,
    agents: Mapping[str, Agent],
    *,
    task_queue: str = TASK_QUEUE,
    key: bytes | None = None,
    max_cached_workflows: int = 1000,
    journal: Journal | None = None,
    store: Store | None = None,
    rates: Mapping[str, float] | None = None,
    patience: timedelta = PATIENCE,
) -> AbstractAsyncContextManager[Any]:
    """A worker for these agents. A bug in workflow code fails its run; drift suspends it until a fix is deployed.

    Args:
        rates: model calls per second, by vendor, over all workers of the task queue.
        patience: how long a run waits for a worker that holds to a rate, before it asks whether there still is one.
    """
    share_code(workflows.__name__)
    lanes = Lanes({vendor: queue_of(task_queue, vendor) for vendor in rates or {}}, patience)
    served = deeds.activities(agents, key or grant_key(state_folder()), journal, store, lanes)
    asking = [deed for deed in served if deed.__name__ in deeds.ASKING]
    limited = [
        Worker(
            client,
            task_queue=lanes.queues[vendor],
            activities=asking,
            max_task_queue_activities_per_second=rate,
            graceful_shutdown_timeout=_GRACE,
            max_concurrent_activities=_AT_ONCE,
            max_heartbeat_throttle_interval=_HEARTBEATS,
        )
        for vendor, rate in (rates or {}).items()
    ]
    ordinary = Worker(
        client,
        task_queue=task_queue,
        workflows=workflows.WORKFLOWS,
        activities=served,
        workflow_runner=without_contexts(sandbox(), client.data_converter),
        max_concurrent_workflow_tasks=_TASKS_AT_ONCE,
        workflow_task_poller_behavior=PollerBehaviorAutoscaling(),  # whom a poll waits for is not written to a queue
        sticky_queue_schedule_to_start_timeout=_STICKY,
        graceful_shutdown_timeout=_GRACE,
        max_cached_workflows=max_cached_workflows,
        max_concurrent_activities=_AT_ONCE,
        max_heartbeat_throttle_interval=_HEARTBEATS,
    )
    return Crew(ordinary, *limited) if limited else ordinary


class Crew(AbstractAsyncContextManager["Crew"]):
    """Workers that begin and end together."""

    def __init__(self, *workers: Worker) -> None:
        self._workers = workers

    async def __aenter__(self) -> "Crew":
        for each in self._workers:
            await each.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Their running activities have the same time to finish, not one after the other."""
        await asyncio.gather(*(each.__aexit__(kind, error, at) for each in self._workers))


async def main(specs: Sequence[str] = ()) -> int:
    """Serve until SIGTERM or SIGINT, then let running tools finish. 0, or 1 with what is wrong on stderr."""
    log_to_stderr()
    try:
        rates = rates_from_env()
        agents, key, store = load(specs), grant_key(state_folder()), store_from_env()
        await asyncio.to_thread(warm, {each for agent in agents.values() for each in agent.protocols})
        client = await connect(identity=identity(agents))
        await ensure_search_attributes(client)
    except (AgentLoadError, SearchAttributesMissingError, StoreError, UnreachableError, ValueError) as error:
        print(f"perdure worker: {error}", file=sys.stderr)
        return 1
    stopped = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    told = {"rates": dict(rates)} if rates else {}
    log.info("serving", agents=sorted(agents), task_queue=TASK_QUEUE, namespace=client.namespace, **told)
    async with build(client, agents, key=key, store=store, rates=rates):
        await stopped.wait()
    return 0


def run(specs: Sequence[str]) -> int:
    """`main`, on the fastest event loop there is."""
    gc.freeze()  # what was imported stays; collecting it again and again costs more than it frees
    gc.set_threshold(20_000, 20, 20)
    try:
        from uvloop import new_event_loop
    except ImportError:  # not on Windows
        return asyncio.run(main(specs))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main(specs))


if __name__ == "__main__":
    code = run(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # an interpreter that used temporalio may abort while it exits, after all work is done
