"""Runs: start one, see what waits, decide. The operator's verbs and an author's own code speak to Temporal through it.

Lists come from visibility and the memo, traces from the history: nothing here needs a query or a live worker.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Self, TypeVar
from uuid import uuid4

from temporalio.api.common.v1 import WorkflowExecution as Execution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import RequestCancelWorkflowExecutionRequest, ResetWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowHistory,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from perdure.core.contracts import (
    AGENT_ATTRIBUTE,
    DECIDE,
    FINAL_STATES,
    RUN,
    RUN_TOOL,
    STANDING,
    STATE_ATTRIBUTE,
    STEER,
    TASK_QUEUE,
    WAITING_PREFIX,
    Decision,
    FileRef,
    Outcome,
    Request,
    RunState,
    Settled,
    Standing,
    Start,
    Steered,
    Steering,
)
from perdure.core.runs import (
    AlreadyDecidedError,
    DecisionRefusedError,
    RunNotFoundError,
    RunRow,
    Started,
    SteeringRefusedError,
    UnreachableError,
    check_start,
)
from perdure.files import File, Files
from perdure.store import Store
from perdure.temporal import kept
from perdure.temporal.connect import client_store, connect
from perdure.temporal.embedded import running
from perdure.temporal.history import Decoder, decoded, moment, retry_told
from perdure.temporal.retrying import point_before_failure, refuse_what_might_be_repeated
from perdure.temporal.workers import served, workers
from perdure.traces.events import ActivityStarted, Event
from perdure.traces.turns import trace

A = TypeVar("A", Settled, Steered)

_log = logging.getLogger("perdure")

_AGENT = SearchAttributeKey.for_keyword(AGENT_ATTRIBUTE)
_PATIENCE = timedelta(seconds=10)  # for an update's answer, before the decision is left as a signal
_LOOK_AGAIN = 1.0  # seconds between looks at attempts that the history does not show yet
_RECONNECT = 1.0
_OURS = f"WorkflowType = '{RUN}' AND ExecutionStatus != 'ContinuedAsNew'"  # of a run, the segment it is in

# States that the search attribute tells while a run is open. Either may have requests that wait.
_PUBLISHED = (RunState.WAITING, RunState.PAUSED)

_CLOSED = {
    WorkflowExecutionStatus.FAILED: RunState.FAILED,
    WorkflowExecutionStatus.TIMED_OUT: RunState.FAILED,
    WorkflowExecutionStatus.TERMINATED: RunState.FAILED,
    WorkflowExecutionStatus.CANCELED: RunState.CANCELLED,
}


class Runs:
    """Everything one may do with runs: `runs = await Runs.connect()`, or give it a connected client."""

    def __init__(self, client: Client, *, task_queue: str = TASK_QUEUE, store: Store | None = None) -> None:
        """`store`: what ended segments are read from, and where files are kept (else where the environment says)."""
        self._client, self._task_queue, self._store = client, task_queue, store

    @classmethod
    async def connect(cls, *, task_queue: str = TASK_QUEUE) -> Self:
        """Connect as TEMPORAL_* variables and profiles say; else to the embedded server that is running.

        Raises:
            UnreachableError: nothing answers, with the next command.
        """
        return cls(await connect(), task_queue=task_queue, store=kept.store_for_reading())

    @property
    def client(self) -> Client:
        return self._client

    # --- starting -----------------------------------------------------------------------------------------------------

    async def start(
        self,
        agent: str,
        task: str,
        *,
        run_id: str | None = None,
        files: Sequence[File | str | Path] = (),
        tools: Sequence[str] | None = None,
    ) -> Started:
        """Start a run. With a `run_id` of your business (an invoice's number), at most one run ever has it.

        A second start with the same id returns the first run, running or ended however it did (also failed): nothing
        is started. After a failure, `retry` it, or choose another id.

        Args:
            files: what the task is about: paths, or their content. What is taken: see perdure.files.
            tools: of the agent's, those that this run may have; all, unless said. If the agent has no such tool, the
                run waits for a person, who learns which it has.

        Raises:
            StartRefusedError: agent, task, id or a tool's name are empty, too long, or no text.
            FileError: no model takes one of the files, or they are too large; without a store that is soon so.
            OSError, StoreError: a file cannot be read, or is not kept.
            UnreachableError: no server, or it refuses.
        """
        check_start(agent, task, run_id, tools)
        chosen = run_id or f"{agent}-{secrets.token_hex(4)}"
        refs = await self._keep(chosen, files) if files else ()
        try:
            with _reaching():
                await self._client.start_workflow(
                    RUN,
                    Start(v=1, agent=agent, task=task, files=refs, tools=None if tools is None else tuple(tools)),
                    id=chosen,
                    task_queue=self._task_queue,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    search_attributes=TypedSearchAttributes([SearchAttributePair(_AGENT, agent)]),
                    static_summary=agent,
                )
        except WorkflowAlreadyStartedError:
            return Started(chosen, new=False)
        return Started(chosen, new=True)

    async def _keep(self, run_id: str, files: Sequence[File | str | Path]) -> tuple[FileRef, ...]:
        whole = [each if isinstance(each, File) else await asyncio.to_thread(File.read, each) for each in files]
        return await Files(self._store or client_store()).keep(run_id, whole)

    async def served(self) -> frozenset[str] | None:
        """The agents that some worker serves now; None if that can't be known (no worker is up, say)."""
        with _reaching():
            return await served(self._client, self._task_queue)

    async def workers(self) -> Sequence[str] | None:
        """What the workers that are up call themselves."""
        with _reaching():
            return await workers(self._client, self._task_queue)

    async def result(self, run_id: str) -> Outcome:
        """Wait for a run's end.

        Raises:
            RunNotFoundError: there is no such run.
        """
        row = await self.find(run_id)
        try:
            with _reaching(row.run_id):
                outcome: Outcome = await self._client.get_workflow_handle(row.run_id, result_type=Outcome).result()
                return outcome
        except WorkflowFailureError as failure:
            ended = await self.find(row.run_id)
            return ended.outcome or Outcome(state=ended.state, reason=str(failure.cause))

    # --- seeing -------------------------------------------------------------------------------------------------------

    async def list(
        self, *, state: RunState | None = None, agent: str | None = None, limit: int = 50
    ) -> Sequence[RunRow]:
        """The runs started last, newest first, at most `limit`. Of running ones, what they are at is read now."""
        wanted = [_OURS]
        if agent:
            wanted.append(f"{AGENT_ATTRIBUTE} = {_quoted(agent)}")
        if state and (state in FINAL_STATES or state in _PUBLISHED):
            wanted.append(_state_query(state))
        elif state:
            wanted.append("ExecutionStatus = 'Running'")
        with _reaching():
            found = await self._newest(" AND ".join(wanted), limit)
        rows = await asyncio.gather(*(self._current_row(execution) for execution in found))
        gone_on = await asyncio.gather(*map(self._has_gone_on, rows))
        return [row for row, gone in zip(rows, gone_on, strict=True) if state in (None, row.state) and not gone]

    async def _has_gone_on(self, row: RunRow) -> bool:
        """Whether a failed run was retried since: it is listed as what it is now."""
        if row.state is not RunState.FAILED:
            return False
        with _reaching(row.run_id):
            return (await self._client.get_workflow_handle(row.run_id).describe()).run_id != row.segment_id

    async def _newest(self, query: str, limit: int) -> Sequence[WorkflowExecution]:
        """Those started last. The server gives open ones by start, then ended ones by *end*, each newest first.

        An ended run did not start after it ended, so one may stop at the first that ended before all those wanted
        were started.
        """
        opened = self._client.list_workflows(f"{query} AND ExecutionStatus = 'Running'", limit=limit)
        found = [execution async for execution in opened]
        async for execution in self._client.list_workflows(f"{query} AND ExecutionStatus != 'Running'"):
            found = sorted(found, key=lambda each: each.start_time, reverse=True)[:limit]
            if len(found) == limit and (execution.close_time or execution.start_time) < found[-1].start_time:
                break
            found.append(execution)
        return sorted(found, key=lambda each: each.start_time, reverse=True)[:limit]

    async def find(self, run_id: str) -> RunRow:
        """The run with this id, or the one whose id begins so.

        Raises:
            RunNotFoundError: none, or several; or a workflow that is no run of ours, which nothing here touches.
        """
        if not run_id.strip():
            raise RunNotFoundError(f"{run_id!r} names no run: see `perdure list`")
        try:
            with _reaching(run_id):
                described = await self._client.get_workflow_handle(run_id).describe()
        except RunNotFoundError:
            rows = await self._rows(f"{_OURS} AND WorkflowId STARTS_WITH {_quoted(run_id)}", 3)
        else:
            if described.workflow_type != RUN:
                raise RunNotFoundError(
                    f"{run_id!r} is a workflow of type {described.workflow_type!r}, no perdure run: see `perdure list`"
                )
            return await self._row(described)
        distinct = {row.run_id: row for row in rows}
        match list(distinct.values()):
            case [row]:
                return row
            case [] if (kept_row := await self._stored(run_id)) is not None:
                return kept_row
            case []:
                raise RunNotFoundError(f"no run's id begins with {run_id!r}: see `perdure list`")
            case several:
                names = ", ".join(repr(row.run_id) for row in several)
                raise RunNotFoundError(f"several runs' ids begin with {run_id!r} ({names}, ...): give more of it")

    async def _stored(self, run_id: str) -> RunRow | None:
        """A run that only the store still has. Found by its whole id."""
        segment_id, events = await kept.latest(self._store, run_id)
        if not events:
            return None
        seen = trace(kept.with_end(await decoded(self._client.data_converter, run_id, events)))
        ended = seen.ended or seen.last  # the server has it no more
        outcome, parent = seen.outcome, seen.parent
        return RunRow(run_id, seen.agent, seen.state, seen.started, ended, (), outcome, segment_id, parent=parent)

    async def find_request(self, request_id: str) -> tuple[RunRow, Request]:
        """The waiting request whose id begins so, and its run.

        Raises:
            RunNotFoundError: none waits, or several.
            AlreadyDecidedError: it was settled lately.
        """
        if not request_id.strip():
            raise RunNotFoundError(f"{request_id!r} names no request: see `perdure inbox`")
        found = [(row, request) async for row, request in self._waiting() if request.id.startswith(request_id)]
        if len(found) == 1:
            return found[0]
        if found:
            several = ", ".join(request.id for _, request in found[:5])
            raise RunNotFoundError(f"several requests begin with {request_id!r} ({several}): give more of it")
        await self._refuse_settled(request_id)
        raise RunNotFoundError(f"nothing waits under {request_id!r}: see `perdure inbox`")

    async def _waiting(self) -> AsyncIterator[tuple[RunRow, Request]]:
        """All that waits, however much it is."""
        query = f"{_OURS} AND ({' OR '.join(f'({_state_query(state)})' for state in _PUBLISHED)})"
        with _reaching():
            async for execution in self._client.list_workflows(query):
                row = await self._row(execution)
                for request in row.requests:
                    yield row, request

    async def _refuse_settled(self, request_id: str) -> None:
        with _reaching():
            async for execution in self._client.list_workflows(_OURS, limit=200):
                for settled in (await _standing(execution)).settled:
                    if settled.request.startswith(request_id):
                        raise AlreadyDecidedError(execution.id, settled)

    async def events(self, run_id: str) -> Sequence[Event]:
        """A run's history, decoded, and what its running activities are at, at the end.

        Raises:
            RunNotFoundError: there is no such run.
        """
        row = await self.find(run_id)
        handle = self._client.get_workflow_handle(row.run_id)
        with _reaching(row.run_id):
            known = await decoded(self._client.data_converter, row.run_id, await self._history(row))
            latest = known[-1].id if known else 0
            return [*known, *await self._attempts(handle, latest)] if row.ended is None else kept.with_end(known)

    async def _history(self, row: RunRow) -> Sequence[HistoryEvent]:
        """The events of all segments that server or store still have, oldest first."""
        segments: list[Sequence[HistoryEvent]] = []
        segment_id = row.segment_id
        while segment_id and (events := await self._segment(row.run_id, segment_id)):
            segments.append(events)
            segment_id = events[0].workflow_execution_started_event_attributes.continued_execution_run_id
        return [event for events in reversed(segments) for event in events]

    async def _segment(self, run_id: str, segment_id: str) -> Sequence[HistoryEvent]:
        """One segment's events: from the server, or where retention took it from there, from the store; or none."""
        try:
            return (await self._client.get_workflow_handle(run_id, run_id=segment_id).fetch_history()).events
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return await kept.segment(self._store, run_id, segment_id)

    async def history_json(self, run_id: str) -> str:
        """A run's history as Temporal's own JSON, as its UI and CLI save it; of several segments, one after another."""
        row = await self.find(run_id)
        with _reaching(row.run_id):
            return WorkflowHistory(row.run_id, await self._history(row)).to_json()

    async def watch(self, run_id: str) -> AsyncIterator[Event]:
        """Every event so far, then each as it comes, to the run's end. A server may go away for a while."""
        row = await self.find(run_id)
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        tasks = [
            asyncio.create_task(self._follow(row.run_id, queue)),
            asyncio.create_task(self._look(row.run_id, queue)),
        ]
        try:
            while (event := await queue.get()) is not None:
                yield event
            tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, run_id: str, queue: asyncio.Queue[Event | None]) -> None:
        decoder, seen = Decoder(self._client.data_converter, run_id), 0
        segment_id = await self._first_segment(run_id)
        try:
            while True:
                try:
                    handle = self._client.get_workflow_handle(run_id, run_id=segment_id)
                    after = ""
                    async for raw in handle.fetch_history_events(wait_new_event=True):
                        if raw.event_id <= seen:
                            continue
                        seen = raw.event_id
                        if event := await decoder.decode(raw):
                            await queue.put(event)
                        after = raw.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
                    if not after:
                        return
                    segment_id, seen = after, 0
                except RPCError as error:
                    if error.status is RPCStatusCode.NOT_FOUND:
                        raise RunNotFoundError(f"run {run_id!r} is gone from the server") from None
                    await asyncio.sleep(_RECONNECT)
        finally:
            await queue.put(None)

    async def _first_segment(self, run_id: str) -> str:
        """The oldest segment that the server still has."""
        segment_id = (await self.find(run_id)).segment_id
        while True:
            handle = self._client.get_workflow_handle(run_id, run_id=segment_id)
            try:
                first = await anext(aiter(handle.fetch_history_events(page_size=1)))
                before = first.workflow_execution_started_event_attributes.continued_execution_run_id
                await self._client.get_workflow_handle(run_id, run_id=before).describe() if before else None
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return segment_id
                raise
            if not before:
                return segment_id
            segment_id = before

    async def _look(self, run_id: str, queue: asyncio.Queue[Event | None]) -> None:
        """Attempts that failed or moved to another worker: the history tells of them only when the activity closes."""
        told: set[tuple[str, int, str]] = set()
        handle = self._client.get_workflow_handle(run_id)
        while True:
            await asyncio.sleep(_LOOK_AGAIN)
            with contextlib.suppress(RPCError):
                for attempt in await self._attempts(handle, 0):
                    mark = (attempt.activity_id, attempt.attempt, attempt.worker)
                    if attempt.attempt > 1 and mark not in told:
                        told.add(mark)
                        await queue.put(attempt)

    async def _attempts(self, handle: WorkflowHandle[object, object], latest: int) -> Sequence[ActivityStarted]:
        described = await handle.describe()
        decoder = Decoder(self._client.data_converter, handle.id)
        found = []
        for pending in described.raw_description.pending_activities:
            if pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
                continue  # between two attempts: nobody has it
            last = (await decoder.failure(pending.last_failure))[1] if pending.HasField("last_failure") else ""
            worker = pending.last_worker_identity
            at = moment(pending.last_started_time)
            found.append(ActivityStarted(latest, at, pending.activity_id, pending.attempt, worker, last))
        return found

    # --- deciding -----------------------------------------------------------------------------------------------------

    async def decide(self, run_id: str, decision: Decision) -> Settled | None:
        """Settle a request. None: no worker answered in time, so the decision is left as a signal for the next one.

        Raises:
            DecisionRefusedError: the run did not take it; the text says why, and who was first.
            RunNotFoundError: there is no such run, or it has ended.
        """
        try:
            return await self._updated(run_id, DECIDE, decision, Settled)
        except WorkflowUpdateFailedError as refused:
            raise DecisionRefusedError(str(refused.cause)) from None

    async def steer(self, run_id: str, steering: Steering) -> Steered | None:
        """Say something to a run, pause or resume it. None: no worker answered in time, so it is left as a signal.

        The same word twice (by its id) is harmless.

        Raises:
            SteeringRefusedError: the run did not take it; the text says why.
            RunNotFoundError: there is no such run, or it has ended.
        """
        try:
            return await self._updated(run_id, STEER, steering, Steered)
        except WorkflowUpdateFailedError as refused:
            raise SteeringRefusedError(str(refused.cause)) from None

    async def _updated(self, run_id: str, name: str, word: Decision | Steering, answer: type[A]) -> A | None:
        """The answer to an update; None: it was left as a signal."""
        run_id = (await self.find(run_id)).run_id
        handle = self._client.get_workflow_handle(run_id)
        try:
            with _reaching(run_id):
                answered: A = await handle.execute_update(
                    name, word, id=word.id, result_type=answer, rpc_timeout=_PATIENCE
                )
                return answered
        except (WorkflowUpdateRPCTimeoutOrCancelledError, TimeoutError):
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError from None  # the caller went away; that is no slow worker
            with _reaching(run_id):
                await handle.signal(name, word)
            return None

    async def retry(self, run_id: str, *, by: str, reason: str = "") -> None:
        """Take a failed run on from where it failed, under the same id. What was observed stays observed.

        Raises:
            SteeringRefusedError: it has not failed, or a call might be done twice; the text says which.
            RunNotFoundError: there is no such run.
        """
        row = await self.find(run_id)
        if row.state is not RunState.FAILED or row.ended is None:
            raise SteeringRefusedError(f"run {row.run_id!r} has not failed: it is {row.state}. Nothing was retried")
        if row.parent:
            raise SteeringRefusedError(
                f"run {row.run_id!r} worked for run {row.parent!r}, which was told that it failed, and has gone on: "
                "nobody would hear of it. Nothing was retried. If its task is still wanted, start a run of its own"
            )
        with _reaching(row.run_id):
            handle = self._client.get_workflow_handle(row.run_id, run_id=row.segment_id)
            raw = (await handle.fetch_history()).events
            told = await decoded(self._client.data_converter, row.run_id, raw)
            point = point_before_failure(raw, told)
            refuse_what_might_be_repeated(await self.events(row.run_id), told, point)
            await self._client.workflow_service.reset_workflow_execution(
                ResetWorkflowExecutionRequest(
                    namespace=self._client.namespace,
                    workflow_execution=Execution(workflow_id=row.run_id, run_id=row.segment_id),
                    reason=retry_told(by, reason),
                    workflow_task_finish_event_id=point,
                    request_id=f"retry-{row.segment_id}",
                )
            )

    async def cancel(self, run_id: str, *, reason: str = "", by: str = "") -> None:
        """Ask a run to stop: its tools are told, and it ends when all of them have.

        Args:
            by: whose word it is, as the trace shows it; the client's identity, unless said. Not proven by anything.

        Raises:
            RunNotFoundError: there is no such run, or it has ended.
        """
        row = await self.find(run_id)
        with _reaching(row.run_id):
            await self._client.workflow_service.request_cancel_workflow_execution(
                RequestCancelWorkflowExecutionRequest(
                    namespace=self._client.namespace,
                    workflow_execution=Execution(workflow_id=row.run_id),
                    identity=by or self._client.identity,
                    reason=reason,
                    request_id=uuid4().hex,
                ),
                retry=True,
            )

    def web_url(self, row: RunRow) -> str | None:
        """The run's page in Temporal's own UI, where the server is the embedded one."""
        embedded = running()
        if embedded is None or embedded.ui_url is None:
            return None
        return f"{embedded.ui_url}/namespaces/{self._client.namespace}/workflows/{row.run_id}/{row.segment_id}/history"

    # --- rows ---------------------------------------------------------------------------------------------------------

    async def _rows(self, query: str, limit: int) -> Sequence[RunRow]:
        with _reaching():
            found = [execution async for execution in self._client.list_workflows(query, limit=limit)]
        return await asyncio.gather(*(self._current_row(execution) for execution in found))

    async def _current_row(self, execution: WorkflowExecution) -> RunRow:
        row = await self._row(execution)
        if row.state in FINAL_STATES or row.state in _PUBLISHED:
            return row
        with _reaching(execution.id):
            handle = self._client.get_workflow_handle(execution.id, run_id=execution.run_id)
            return await self._row(await handle.describe())

    async def _row(self, execution: WorkflowExecution) -> RunRow:
        standing = await _standing(execution)
        return RunRow(
            run_id=execution.id,
            agent=execution.typed_search_attributes.get(_AGENT) or "?",
            state=_state(execution, standing),
            started=standing.began or execution.start_time,
            ended=execution.close_time,
            requests=standing.requests if execution.close_time is None else (),
            outcome=standing.outcome,
            segment_id=execution.run_id,
            paused=standing.paused if execution.close_time is None else None,
            parent=execution.parent_id or "",
        )


async def _standing(execution: WorkflowExecution) -> Standing:
    """What the memo says; nothing if nobody can read it, for it is written by whoever starts a run."""
    try:
        return await _recorded_standing(execution)
    except Exception as error:  # pydantic's, the converter's, or whatever a payload codec raises
        kind = type(error).__name__
        _log.warning("the memo of run %r cannot be read (%s): what waits there is not shown", execution.id, kind)
        return Standing()


async def _recorded_standing(execution: WorkflowExecution) -> Standing:
    standing: Standing = await execution.memo_value(STANDING, Standing(), type_hint=Standing)
    slots = [key for key in execution.raw_info.memo.fields if key.startswith(WAITING_PREFIX)]
    shown = [await execution.memo_value(slot) for slot in slots]
    waiting = [Request.model_validate(request) for request in shown if request is not None]
    return standing.model_copy(
        update={"requests": tuple(sorted(waiting, key=lambda each: (each.since, each.turn, each.call)))}
    )


def _state(execution: WorkflowExecution, standing: Standing) -> RunState:
    if standing.outcome:
        return standing.outcome.state
    if execution.status and execution.status in _CLOSED:
        return _CLOSED[execution.status]
    described = execution.raw_description if isinstance(execution, WorkflowExecutionDescription) else None
    if described and described.workflow_extended_info.cancel_requested:
        return RunState.CANCELLING
    if standing.paused:
        return RunState.PAUSED
    if standing.requests:
        return RunState.WAITING
    if described and any(each.activity_type.name == RUN_TOOL for each in described.pending_activities):
        return RunState.ACTING
    if described and described.pending_children:
        return RunState.ACTING
    return RunState.THINKING


def _state_query(state: RunState) -> str:
    if state in _PUBLISHED:
        return f"{STATE_ATTRIBUTE} = '{state}' AND ExecutionStatus = 'Running'"
    closed = [status.name.title().replace("_", "") for status, final in _CLOSED.items() if final is state]
    ended = " OR ".join([f"{STATE_ATTRIBUTE} = '{state}'", *(f"ExecutionStatus = '{name}'" for name in closed)])
    return f"({ended})"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextlib.contextmanager
def _reaching(run_id: str = "") -> Iterator[None]:
    """Say what an RPC's failure means to an operator."""
    try:
        yield
    except RPCError as error:
        match error.status:
            case RPCStatusCode.NOT_FOUND if run_id:
                raise RunNotFoundError(f"no open run {run_id!r}: see `perdure list`") from None
            case RPCStatusCode.INVALID_ARGUMENT if "search attribute" in error.message.lower():
                raise UnreachableError(f"{error.message}: start a worker once, or see `perdure doctor`") from None
            case _:
                raise UnreachableError(f"the Temporal server refused or went away: {error.message}") from error
