"""Where a model is asked: a vendor with a rate has a task queue of its own, and is asked nowhere else: docs/adr/0022.

The server counts what it hands out, so an attempt on such a queue is good for one request. Whoever is asked on another
queue, or has made its one request, answers at once where to ask instead; the workflow knows of no rates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.own import EXPECTED
from perdure.core.contracts import ELSEWHERE, Detour, Lane
from perdure.providers.registry import vendor

PATIENCE: Final = timedelta(minutes=10)  # a line may be long; a run that loses its place in it is only asked again


@dataclass(frozen=True)
class Lanes:
    """The task queues of the vendors that have a rate on this worker, by vendor."""

    queues: Mapping[str, str] = field(default_factory=dict)
    patience: timedelta = PATIENCE

    def elsewhere(self, protocol: str, *, again: bool = False) -> Lane | None:
        """Where a model that speaks `protocol` is asked; None for here and now.

        Args:
            again: in this attempt a model has been asked already.
        """
        here, queue = activity.info().task_queue, self.queues.get(vendor(protocol))
        if queue is None:
            return Lane() if here in self.queues.values() else None
        if here == queue and not again:
            return None
        return Lane(queue=queue, patience=self.patience.total_seconds())


def asked_elsewhere(detour: Detour) -> ApplicationError:
    """The model was not asked: it is to be asked there."""
    there = (
        f"on task queue {detour.lane.queue!r}, at its vendor's rate"
        if detour.lane.queue
        else "on the run's own task queue, at no rate"
    )
    return ApplicationError(f"asked {there}", detour, type=ELSEWHERE, non_retryable=True, category=EXPECTED)
