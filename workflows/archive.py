"""The archive: segments that are over, or about to be, are kept in the store, where the run's workers have one."""

import asyncio
import contextlib
from collections.abc import Callable

from temporalio import workflow
from temporalio.exceptions import ActivityError

from perdure.core.contracts import ExportSegment, Outcome
from workflows import calls
from workflows.settle import cause


class Archive:
    """`left`: the segments before this one that are not kept yet. Nothing that happens here changes how a run ends."""

    def __init__(self, left: tuple[str, ...], number: Callable[[], int]) -> None:
        self._left, self._number = left, number
        self._beginning: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Keep what earlier segments left, beside the run's own work."""
        self._beginning = asyncio.create_task(self._keep_all(None))

    def left(self, *, stored: bool) -> tuple[str, ...]:
        """The segments to be kept, this one included."""
        return (*self._left, workflow.info().run_id) if stored else ()

    async def end(self, outcome: Outcome, *, stored: bool) -> None:
        """Keep all segments of a run that ends now, and so."""
        with contextlib.suppress(asyncio.CancelledError):
            if self._beginning:
                await self._beginning
            self._left = self.left(stored=stored)
            await self._keep_all(outcome)

    async def _keep_all(self, outcome: Outcome | None) -> None:
        for segment_id in self._left:
            await self._keep(ExportSegment(segment_id=segment_id, outcome=outcome))

    async def _keep(self, asked: ExportSegment) -> None:
        try:
            await calls.export_segment(asked, f"keep-{self._number()}")
        except ActivityError as error:
            workflow.logger.warning("a segment is not kept in the store", extra={"why": cause(error)})
            return
        self._left = tuple(each for each in self._left if each != asked.segment_id)
