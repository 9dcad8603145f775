"""Which of a run's models is asked, when the one before it is out: docs/adr/0016.

1. Trouble that passes is sat out with the model at hand: Temporal tries again, with Retry-After or its own growing
   pauses. After five attempts in vain the next model is asked, at once; where the vendor names a wait that is too long
   to sit out, or a person would have to mend its account, without waiting at all.
2. A request that is refused for what it holds is put to nobody else: that would hide a defect.
3. The model that answered is asked for the next turns as well, for to change costs a prompt computed anew. Ten minutes
   after the first one was found out, it is asked again.

4. A model whose vendor has a rate is asked on that vendor's task queue (activities/lanes.py): a detour leads there, and
   says how many attempts count as made, so that the order goes on where it was.

Nothing is remembered but what is recorded: the place that answered stands in the turn, and the number of the attempt
says who has had how many.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from perdure.core.contracts import Detour, Lane
from perdure.providers.protocol import ModelError
from perdure.temporal.journal import Answered

_ATTEMPTS: Final = 5  # about fifteen seconds of trouble
_ALL_ATTEMPTS: Final = 15  # those of a model activity: see workflows/calls.py
_SAT_OUT: Final = 30.0  # seconds that a vendor may ask for, with another model at hand
_REST: Final = timedelta(minutes=10)
_MOST_SAID: Final = 400  # characters of what one model said
_MOST_TOLD: Final = 1_000

T = TypeVar("T")


class DetourError(Exception):
    """The next model is asked on another task queue."""

    def __init__(self, detour: Detour) -> None:
        super().__init__(detour)
        self.detour = detour


async def of_chain(
    ask: Callable[[int], Awaitable[T]],
    models: Sequence[str],
    first: int,
    attempt: int,
    elsewhere: Callable[[int, bool], Lane | None],
    *,
    patient: bool = True,
) -> tuple[T, tuple[str, ...]]:
    """What the first model that is not out answers, and for each one before it what it said.

    Args:
        models: their names, by place.
        first: the place to begin at; after the last one the first one follows.
        attempt: from 1: of this activity, and those that count as made.
        elsewhere: where the model at a place is asked, if not here, once a model has been asked (or not) before it.
        patient: whether trouble that passes is sat out.

    Raises:
        ModelError: none answers now, or the request itself was refused.
        DetourError: the next one is asked elsewhere.
    """
    patience = max(min(_ATTEMPTS, _ALL_ATTEMPTS // len(models)), 1)
    moved, tried = divmod(attempt - 1, patience)
    out: list[tuple[str, ModelError]] = []
    for step in range(len(models)):
        place = (first + moved + step) % len(models)
        if lane := elsewhere(place, step > 0):
            made = (moved + step) * patience if step else attempt - 1
            if made >= _ALL_ATTEMPTS and out:
                break
            raise DetourError(Detour(lane=lane, made=made, passed=tuple(_said(*each) for each in out)))
        try:
            return await ask(place), tuple(_said(*each) for each in out)
        except ModelError as error:
            out.append((models[place], error))
            to_be_sat_out = patient and step == 0 and tried < patience - 1 and _passes_soon(error)
            if not error.outage or to_be_sat_out:
                break
    raise _of_all(out)


def after(detour: Detour | None, error: ModelError, attempt: int) -> ModelError:
    """What went wrong, with what was said before the detour. The attempts before it count: then no more are made."""
    if detour is None:
        return error
    told = " ".join(dict.fromkeys((error.message, *detour.passed)))[:_MOST_TOLD]
    is_over = error.kind == "retry" and attempt >= _ALL_ATTEMPTS
    return ModelError("person" if is_over else error.kind, told, error.retry_after, error.details, error.outage)


def preferred(answered: Answered, now: datetime) -> int:
    """The place to ask first: the one that answered last while the first one is let be."""
    return answered.place if answered.until and now < answered.until else 0


def rest(place: int, answered: Answered, now: datetime) -> datetime | None:
    """Until when the first model is let be, once the one at `place` has answered."""
    if place == 0:
        return None
    return answered.until if answered.until and now < answered.until else now + _REST


def _passes_soon(error: ModelError) -> bool:
    return error.kind == "retry" and (error.retry_after or 0.0) <= _SAT_OUT


def _said(name: str, error: ModelError) -> str:
    return f"{name}: {error.message}"[:_MOST_SAID]


def _of_all(out: Sequence[tuple[str, ModelError]]) -> ModelError:
    """One error for all: trouble that passes if any of it does, unless the last word was on the request itself."""
    *before, (_, last) = out
    if not before:
        return last
    passing = [error for _, error in out if error.kind == "retry"] if last.outage else []
    told = " ".join(_said(name, error) for name, error in reversed(out))[:_MOST_TOLD]
    waits = [error.retry_after for error in passing if error.retry_after is not None]
    return ModelError(
        "retry" if passing else last.kind,
        told,
        min(waits) if len(waits) == len(passing) and waits else None,
        last.details,
        last.outage,
    )
