"""What every activity needs: whose run it works for, a heartbeat, and how to say that a person is needed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

from perdure import Agent
from perdure.core.contracts import NEEDS_PERSON
from perdure.core.digests import of_record
from perdure.temporal.journal import Journal, Segment

R = TypeVar("R", bound=BaseModel)


def segment() -> Segment:
    """The run that this activity belongs to.

    Raises:
        ApplicationError: it was started by itself, outside of any run. Nothing here acts on such a message.
    """
    info = activity.info()
    if not info.workflow_id or not info.workflow_run_id:
        raise ApplicationError("this activity belongs to a run and is not to be started by itself", non_retryable=True)
    return Segment(info.workflow_id, info.workflow_run_id)


def needs_person(why: str) -> ApplicationError:
    """The run is to wait, visible in the inbox with this reason, until someone mends it."""
    return ApplicationError(why, type=NEEDS_PERSON, non_retryable=True)


def agent_of(agents: Mapping[str, Agent], name: str) -> Agent:
    """The agent by that name.

    Raises:
        ApplicationError: this worker does not serve it; a person is needed.
    """
    if name not in agents:
        raise needs_person(
            f"this worker serves no agent {name!r}; it serves: {', '.join(sorted(agents)) or 'none'}. Start a worker "
            "with the file that defines it, then answer this request with retry; or with stop."
        )
    return agents[name]


def recorded(journal: Journal, record: R) -> R:
    """`record` with its digest, kept for the turns to come. To be returned by the activity as it is."""
    content = record.model_dump(mode="json", exclude={"digest"})
    sealed = record.model_copy(update={"digest": of_record(content)})
    info = activity.info()
    size = len(sealed.model_dump_json())
    journal.remember(activity.client(), segment(), info.activity_id, sealed.model_dump(mode="json"), size)
    return sealed


@asynccontextmanager
async def heartbeating() -> AsyncIterator[None]:
    """Heartbeats while the block runs, whatever it does: the event loop itself stays free."""
    timeout = activity.info().heartbeat_timeout or timedelta(seconds=30)
    beating = asyncio.create_task(_beat(timeout.total_seconds() / 4))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(interval: float) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(interval)
