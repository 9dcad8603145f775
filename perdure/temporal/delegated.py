"""How a run ended that worked for a call of another one: read from the server, whoever says so."""

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle, WorkflowHistoryEventFilterType
from temporalio.service import RPCError, RPCStatusCode

from perdure.core.contracts import RUN, Delegated, Outcome
from perdure.temporal.history import Decoder, decoded
from perdure.traces import events as e
from perdure.traces.turns import read, trace


class NotDelegatedError(Exception):
    """There is no such run, or it does not work for this call; the text says which."""


async def outcome_of(client: Client, by: Delegated, *, parent: str, root: str) -> Outcome:
    """How a run ended, over all its segments. Of one that was terminated, as far as its history tells.

    Args:
        parent: the run that it must work for.
        root: the idempotency key of the call that it must work for.

    Raises:
        NotDelegatedError: it does not.
    """
    try:
        await _refuse_others(client, by, parent, root)
        segment_id, ended = await _last_segment(client, by)
        if ended.status == "completed" and (outcome := read(Outcome, ended.result)):
            return outcome
        history = await client.get_workflow_handle(by.run_id, run_id=segment_id).fetch_history()
        seen = trace(await decoded(client.data_converter, by.run_id, history.events))
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise NotDelegatedError(f"the server holds no run {by.run_id!r} any more") from None
    assert seen.outcome is not None, "its end is among the events"
    return seen.outcome


async def _refuse_others(client: Client, by: Delegated, parent: str, root: str) -> None:
    handle: WorkflowHandle[object, object] = client.get_workflow_handle(by.run_id, run_id=by.segment_id)
    described = await handle.describe()
    first = await anext(aiter(handle.fetch_history_events(page_size=1)))
    started = await Decoder(client.data_converter, by.run_id).decode(first)
    ours = described.workflow_type == RUN and described.parent_id == parent
    if not (ours and isinstance(started, e.RunStarted) and started.start.root == root):
        raise NotDelegatedError(f"{by.run_id!r} is no run that works for this call")


async def _last_segment(client: Client, by: Delegated) -> tuple[str, e.RunEnded]:
    """The segment that ended the run, and how. Waits for it."""
    segment_id = by.segment_id
    while True:
        handle: WorkflowHandle[object, object] = client.get_workflow_handle(by.run_id, run_id=segment_id)
        closing = WorkflowHistoryEventFilterType.CLOSE_EVENT
        async for last in handle.fetch_history_events(wait_new_event=True, event_filter_type=closing):
            ended = await Decoder(client.data_converter, by.run_id).decode(last)
            assert isinstance(ended, e.RunEnded), f"{EventType.Name(last.event_type)} closes no run"
            if not ended.continued_by:
                return segment_id, ended
            segment_id = ended.continued_by
