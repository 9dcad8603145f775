"""On which task queue a model is asked. Who sets no rate asks on the run's own, and nothing here happens.

The workflow knows of no vendors and no rates. It asks where it asked last; whoever is asked in the wrong place answers
at once where the right one is: a detour. In a lane where no worker came for long, the run's own queue is asked again,
for there is somebody who knows: the rate may be gone, or the line is long, and then the run goes back to its end.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

from perdure.core.contracts import ELSEWHERE, Detour, Lane

T = TypeVar("T")


def detour_of(error: ActivityError, lane: Lane, before: Detour | None = None) -> Detour | None:
    """Where to ask instead, if nothing else came of asking in `lane`, where `before` had led."""
    match error.cause:
        case ApplicationError(type=kind, details=[told, *_]) if kind == ELSEWHERE:
            return Detour.model_validate(told)
        case TimeoutError(type=TimeoutType.SCHEDULE_TO_START) if lane.queue:
            return (before or Detour()).model_copy(update={"lane": Lane()})
        case _:
            return None


async def wherever(ask: Callable[[str, Detour | None], Awaitable[T]], ids: Iterator[str]) -> tuple[T, str]:
    """What came of asking, and under which id, first on the run's own queue: for what seldom needs a model.

    Raises:
        ActivityError: nothing did.
    """
    detour: Detour | None = None
    while True:
        activity_id = next(ids)
        try:
            return await ask(activity_id, detour), activity_id
        except ActivityError as error:
            detour = detour_of(error, detour.lane if detour else Lane(), detour)
            if detour is None:
                raise
