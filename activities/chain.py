"""Asking one of a run's models: in the order of activities/fallback.py, on the task queues of activities/lanes.py."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from temporalio import activity

from activities.fallback import DetourError, after, of_chain, preferred
from activities.lanes import Lanes, asked_elsewhere
from perdure.core.contracts import Detour, Lane, Opening
from perdure.core.models import at_place, names
from perdure.providers.protocol import ModelError
from perdure.temporal.journal import Answered

T = TypeVar("T")


async def along_chain(
    ask: Callable[[int], Awaitable[T]],
    opening: Opening,
    answered: Answered,
    detour: Detour | None,
    lanes: Lanes,
    *,
    patient: bool = True,
) -> tuple[T, tuple[str, ...]]:
    """What the first of an opening's models that is not out answers, and for each one before it what it said.

    Args:
        answered: who answered last.
        detour: that led here.
        patient: whether trouble that passes is sat out.

    Raises:
        ModelError: none answers now, or the request itself was refused.
        ApplicationError: of type ELSEWHERE, the next one is asked on another task queue.
    """
    before = detour or Detour()
    attempt = before.made + (activity.info().attempt if patient else 1)

    def lane(place: int, again: bool) -> Lane | None:
        return lanes.elsewhere(at_place(opening, place).protocol, again=again)

    first = preferred(answered, datetime.now(UTC))
    try:
        found, passed = await of_chain(ask, names(opening), first, attempt, lane, patient=patient)
    except ModelError as error:
        raise after(detour, error, attempt) from None
    except DetourError as error:
        passed = (*before.passed, *error.detour.passed)
        raise asked_elsewhere(error.detour.model_copy(update={"passed": passed})) from None
    return found, (*before.passed, *passed)
