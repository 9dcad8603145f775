"""Who serves a task queue. A worker's identity says which agents it serves, so that nobody has to ask it."""

import os
import re
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import RateLimitSource, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import Client

_RECENT = timedelta(minutes=1)  # a worker polls at least that often; the server remembers dead ones for five
_STATED = {RateLimitSource.RATE_LIMIT_SOURCE_WORKER, RateLimitSource.RATE_LIMIT_SOURCE_API}  # not the server's own
_BOUND = 120  # characters of an identity
_HOST_BOUND = 63


def identity(agents: Iterable[str]) -> str:
    """A worker's name for itself, in at most 120 characters: process, host, agents served, or as many as there is room.

    It stands in about eight events of every step.
    """
    names = sorted(agents)
    said = f"{os.getpid()}@{socket.gethostname()[:_HOST_BOUND]}"
    fitting = (_named(said, names, listed) for listed in range(len(names), 0, -1))
    return next((name for name in fitting if len(name) <= _BOUND), _named(said, names, 0))


def _named(said: str, names: Sequence[str], listed: int) -> str:
    more = [f"and {len(names) - listed} more"] if listed < len(names) else []
    return f"{said} [{', '.join((*names[:listed], *more))}]"


def agents_of(identity: str) -> frozenset[str] | None:
    """The agents that a worker with this identity serves; None if it does not say, or not of all."""
    said = re.search(r"\[(.*)\]$", identity)
    if said is None or re.search(r"(^|, )and \d+ more$", said[1]):
        return None
    return frozenset(name for name in said[1].split(", ") if name)


async def rate(client: Client, task_queue: str) -> float | None:
    """Activities a second that workers let the server hand out from a task queue, all of them together.

    None: no worker is there that does, or it is a server that does not say.
    """
    described = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
            report_config=True,
        )
    )
    said = described.effective_rate_limit if _polling(described) else None
    return said.requests_per_second if said and said.rate_limit_source in _STATED else None


async def workers(client: Client, task_queue: str) -> Sequence[str]:
    """The identities of the workers that poll for runs now."""
    described = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    return sorted(_polling(described))


def _polling(described: DescribeTaskQueueResponse) -> set[str]:
    since = datetime.now(UTC) - _RECENT
    return {p.identity for p in described.pollers if p.last_access_time.ToDatetime(tzinfo=UTC) > since}


async def served(client: Client, task_queue: str) -> frozenset[str] | None:
    """The agents that somebody serves now; None if that can't be known: no worker is there, or one does not say."""
    each = [agents_of(identity) for identity in await workers(client, task_queue)]
    known = [agents for agents in each if agents is not None]
    return frozenset().union(*known) if known and len(known) == len(each) else None
