"""Exporting: what a segment's history holds is kept in the store, so that traces outlive the server's retention."""

from dataclasses import dataclass

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.own import heartbeating, segment, trouble
from perdure.core.contracts import EXPORT_SEGMENT, Exported, ExportSegment
from perdure.store import Store, StoreError
from perdure.temporal.kept import keep


@dataclass(frozen=True)
class Exports:
    store: Store | None

    @activity.defn(name=EXPORT_SEGMENT)
    async def export_segment(self, asked: ExportSegment) -> Exported:
        """Keep a segment of the run that asks; of no other."""
        run_id = segment().workflow_id
        if self.store is None:
            raise ApplicationError("this worker has no store: set PERDURE_STORE, as for the others", non_retryable=True)
        async with heartbeating():
            handle = activity.client().get_workflow_handle(run_id, run_id=asked.segment_id)
            history = await handle.fetch_history()
            try:
                return Exported(size=await keep(self.store, run_id, asked.segment_id, history))
            except StoreError as error:
                raise trouble(str(error), "StoreTrouble") from None
