"""What every activity needs: whose run it works for, a heartbeat, and how to say that a person is needed."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from perdure import Agent
from perdure.core.contracts import NEEDS_PERSON, NOT_RUN, RUN
from perdure.core.digests import as_canonical, of_canonical
from perdure.temporal.journal import Journal, Segment

EXPECTED = ApplicationErrorCategory.BENIGN  # our own log tells of it, in a line; no stack trace beside it
_ATTEMPTS_ELSEWHERE = 4
_MOST_RECORDED = 1_800_000  # bytes; Temporal refuses payloads above 2 MiB, whatever encodes them on the way

R = TypeVar("R", bound=BaseModel)


def segment() -> Segment:
    """The run that this activity belongs to.

    Raises:
        ApplicationError: it was started by itself, or by some other workflow. Nothing here acts on such a message.
    """
    info = activity.info()
    if not info.workflow_id or not info.workflow_run_id or info.workflow_type != RUN:
        raise ApplicationError("this activity belongs to a run and is not to be started by itself", non_retryable=True)
    return Segment(info.workflow_id, info.workflow_run_id)


def needs_person(why: str) -> ApplicationError:
    """The run is to wait, visible in the inbox with this reason, until someone mends it."""
    return ApplicationError(why, type=NEEDS_PERSON, non_retryable=True, category=EXPECTED)


def not_here(why: str) -> ApplicationError:
    """This worker cannot; during a deploy another one may. After a few attempts a person is asked."""
    return trouble(why, NOT_RUN) if activity.info().attempt < _ATTEMPTS_ELSEWHERE else needs_person(why)


def trouble(why: str, kind: str, delay: timedelta | None = None) -> ApplicationError:
    """Temporal is to try again, after `delay` if somebody named one."""
    return ApplicationError(why, type=kind, next_retry_delay=delay, category=EXPECTED)


def agent_of(agents: Mapping[str, Agent], name: str) -> Agent:
    """The agent by that name.

    Raises:
        ApplicationError: this worker does not serve it; a person is needed.
    """
    if name not in agents:
        raise not_here(
            f"this worker serves no agent {name!r}; it serves: {', '.join(sorted(agents)) or 'none'}. Start a worker "
            "with the file that defines it, then answer this request with retry; or with stop."
        )
    return agents[name]


def recorded(journal: Journal, record: R) -> R:
    """`record` with its digest, kept for the turns to come. To be returned by the activity as it is.

    Raises:
        ApplicationError: it is too large for the history, and trying again would not make it smaller.
    """
    content = record.model_dump(mode="json", exclude={"digest"})
    canonical = as_canonical(content)
    if len(canonical) > _MOST_RECORDED:
        raise needs_person(
            f"what is to be recorded is {len(canonical):,} bytes, and the history takes {_MOST_RECORDED:,}. Lower the "
            "agent's max_tokens, then answer this request with retry; or with stop."
        )
    digest = of_canonical(canonical)
    content["digest"] = digest
    journal.remember(activity.client(), segment(), activity.info().activity_id, content, len(canonical))
    return record.model_copy(update={"digest": digest})


@asynccontextmanager
async def heartbeating(*details: Any) -> AsyncIterator[None]:
    """Heartbeats while the block runs, whatever it does: the event loop itself stays free.

    `details` go with each: the next attempt finds them in its `activity.info().heartbeat_details`.
    """
    timeout = activity.info().heartbeat_timeout or timedelta(seconds=30)
    beating = asyncio.create_task(_beat(timeout.total_seconds() / 8, details))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(interval: float, details: Sequence[Any]) -> None:
    while True:
        await asyncio.sleep(interval)  # first: most activities end before, and cost no heartbeat
        activity.heartbeat(*details)
