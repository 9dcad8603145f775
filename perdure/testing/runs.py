"""Runs without Temporal: the console's port over histories in memory. For testing what reads runs and decides on them.

A *play* makes runs that go on: a generator that tells a history, yields each request that waits, and is sent the
decision that settled it::

    def leave_desk(history: History) -> Play:
        history.open()
        history.think("I book it.", calls=[call("book_leave", {"days": 3}, ask="it has an effect")])
        decision = yield history.ask(call=0, reason="it has an effect")
        ...
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from perdure.core.contracts import (
    CHOICES,
    FINAL_STATES,
    Choice,
    Course,
    Decision,
    Outcome,
    Request,
    RunState,
    Settled,
    Steer,
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
)
from perdure.files import File, checked
from perdure.testing.histories import History
from perdure.traces import events as e

Play = Generator[Request, Decision, None]


class InMemoryRuns:
    """The console's port over histories. `plays` are the agents that can be started, by name."""

    def __init__(
        self,
        histories: Iterable[History] = (),
        plays: Mapping[str, Callable[[History], Play]] | None = None,
        *,
        workers: Sequence[str] | None = ("worker-1",),
    ) -> None:
        self._workers = workers
        self._histories = {history.run_id: history for history in histories}
        self._plays = dict(plays or {})
        self._playing: dict[str, Play] = {}
        self._changed = asyncio.Event()

    async def served(self) -> frozenset[str] | None:
        return frozenset(self._plays) or None if self._workers else None

    async def workers(self) -> Sequence[str] | None:
        return self._workers

    async def start(
        self,
        agent: str,
        task: str,
        *,
        run_id: str | None = None,
        files: Sequence[File | str | Path] = (),
        tools: Sequence[str] | None = None,
    ) -> Started:
        given = [each if isinstance(each, File) else File.read(each) for each in files]
        run_id = run_id or f"{agent}-{uuid4().hex[:12]}"
        if run_id in self._histories:
            return Started(run_id, new=False)
        self._histories[run_id] = history = History(run_id, agent, task, files=tuple(map(checked, given)))
        if agent in self._plays:
            self._playing[run_id] = self._plays[agent](history)
            self._go_on(run_id, None)
        return Started(run_id, new=True)

    def _go_on(self, run_id: str, decision: Decision | None) -> None:
        playing = self._playing.get(run_id)
        if playing:
            try:
                playing.send(decision)  # type: ignore[arg-type]
            except StopIteration:
                del self._playing[run_id]
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def list(
        self, *, state: RunState | None = None, agent: str | None = None, limit: int = 50
    ) -> Sequence[RunRow]:
        rows = sorted(
            (history.row() for history in self._histories.values()), key=lambda row: row.started, reverse=True
        )
        return [row for row in rows if state in (None, row.state) and agent in (None, row.agent)][:limit]

    def _history(self, run_id: str) -> History:
        if run_id in self._histories:
            return self._histories[run_id]
        found = [
            history for id, history in self._histories.items() if run_id and (id.startswith(run_id) or run_id in id)
        ]
        if len(found) != 1:
            several = f"{len(found)} runs begin with" if found else "there is no run"
            raise RunNotFoundError(f"{several} {run_id!r}: `perdure list` shows them")
        return found[0]

    async def find(self, run_id: str) -> RunRow:
        return self._history(run_id).row()

    async def find_request(self, request_id: str) -> tuple[RunRow, Request]:
        rows = [history.row() for history in self._histories.values()]
        waiting = [(row, request) for row in rows for request in row.requests]
        found = [each for each in waiting if request_id and each[1].id.startswith(request_id)]
        if not found:
            self._refuse_settled(request_id)
        if len(found) != 1:
            count = len(found) or "no"
            raise RunNotFoundError(f"{count} requests wait under {request_id!r}: `perdure inbox` shows them")
        return found[0]

    def _refuse_settled(self, request_id: str) -> None:
        for history in self._histories.values():
            for settled in history.settled.values():
                if request_id and settled.request.startswith(request_id):
                    raise AlreadyDecidedError(history.run_id, settled)

    async def events(self, run_id: str) -> Sequence[e.Event]:
        return list(self._history(run_id).events)

    async def watch(self, run_id: str) -> AsyncIterator[e.Event]:
        history = self._history(run_id)
        seen = 0
        while True:
            changed = self._changed
            while seen < len(history.events):
                seen += 1
                yield history.events[seen - 1]
            if isinstance(history.events[-1], e.RunEnded):
                return
            await changed.wait()

    async def result(self, run_id: str) -> Outcome:
        history = self._history(run_id)
        async for _ in self.watch(history.run_id):
            pass
        assert history.outcome is not None, "a run that ended has an outcome"
        return history.outcome

    async def decide(self, run_id: str, decision: Decision) -> Settled:
        history = self._history(run_id)
        if earlier := history.settled.get(decision.request):
            if earlier.choice is decision.choice:
                return earlier.model_copy(update={"again": True})
            raise AlreadyDecidedError(history.run_id, earlier)
        request = history.requests.get(decision.request)
        if request is None:
            raise DecisionRefusedError(f"nothing waits under {decision.request!r} in this run: see `perdure inbox`")
        if decision.choice not in CHOICES[request.kind]:
            raise DecisionRefusedError(f"{decision.choice} does not answer a request of kind {request.kind}")
        if decision.choice is Choice.APPROVE and decision.digest != request.digest:
            raise DecisionRefusedError("what was approved is not what waits: look again, then decide")
        settled = history.decide(decision)
        assert settled is not None, "no reason was given not to accept it"
        self._go_on(history.run_id, decision)
        return settled

    async def steer(self, run_id: str, steering: Steering) -> Steered:
        history = self._history(run_id)
        if history.outcome:
            raise SteeringRefusedError("the run has ended or is about to: nothing more is heard")
        course = history.course
        again = steering.id in course.known or (steering.steer is not Steer.SAY and _is_so(course, steering.steer))
        if not again:
            history.steer(steering)
        self._tell()
        word = steering.model_dump(include={"id", "steer", "by", "text"})
        return Steered(**word, at=history.now, again=again)

    async def retry(self, run_id: str, *, by: str, reason: str = "") -> None:
        history = self._history(run_id)
        if history.row().state is not RunState.FAILED:
            raise SteeringRefusedError(f"run {run_id!r} has not failed: it is {history.row().state}")
        history.retry(by, reason)
        self._tell()

    async def cancel(self, run_id: str, *, reason: str = "", by: str = "") -> None:
        history = self._history(run_id)
        if history.outcome and history.outcome.state in FINAL_STATES:
            return
        history.cancel(by or "client@desk", reason)
        history.end(RunState.CANCELLED, reason=reason or "cancelled")
        self._playing.pop(history.run_id, None)
        self._go_on(history.run_id, None)

    def web_url(self, row: RunRow) -> str | None:
        return None


def _is_so(course: Course, steer: Steer) -> bool:
    return (course.paused is not None) == (steer is Steer.PAUSE)
