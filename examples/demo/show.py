"""The play: a run is started, its worker is killed in the middle of a call, a person decides, and the run answers.

Three things go on at once: the run's events are told as they come; somebody waits for the right moment to kill the
worker; and while a request waits, an operator is asked. All of it goes through what any client has: `Runs`.
"""

import asyncio
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from examples.demo import prompt
from examples.demo.kept import Folder, Play
from examples.demo.stage import Worker
from examples.demo.voice import Voice
from examples.leave_desk import RECORDS_TAKE, desk, leave_records
from examples.leave_desk_model import TASK
from perdure import Runs
from perdure.console.prompting import answered
from perdure.core.contracts import (
    CALL_MODEL,
    CHOICES,
    RUN_TOOL,
    WORDED,
    Choice,
    Decision,
    Outcome,
    Request,
    RequestKind,
)
from perdure.core.runs import DecisionRefusedError, RunNotFoundError
from perdure.traces import text
from perdure.traces.events import ActivityScheduled, ActivityStarted, Event, RunEnded, StandingChanged
from perdure.traces.lines import BLANK
from perdure.traces.narrate import Narration
from perdure.traces.shape import Execution
from perdure.traces.turns import trace
from workflows.calls import LOST_WORKER

_LOOK_AGAIN: Final = 0.2  # seconds
_INTO_THE_CALL: Final = 0.7  # seconds after which nobody can say that the call had not begun
_SILENCE: Final = round(LOST_WORKER.total_seconds())
_REPLACED: Final = 3  # workers that ended by another hand
_WAITED_FOR: Final = {CALL_MODEL: "the model thinks", RUN_TOOL: "tools run"}
_SHOWN: Final = {RequestKind.APPROVAL: "This is the call, byte for byte, and why it is gated:"}


class WorkerGoneError(Exception):
    """Workers end as soon as they start; the text holds the end of their log."""


class EndOfInputError(Exception):
    """Ctrl-D at a question: as with Ctrl-C, the person leaves."""


@dataclass
class Show:
    """One play, from where it stands to its end. `asks`: whether there is a person to ask."""

    voice: Voice
    folder: Folder
    runs: Runs
    play: Play
    worker: Worker
    asks: bool
    _narration: Narration = field(default_factory=Narration)
    _told: set[tuple[str, int, str]] = field(default_factory=set)  # attempts
    _deciding: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)  # by request

    async def run(self) -> Outcome:
        """Play to the run's end.

        Raises:
            WorkerGoneError, EndOfInputError: in an exception group.
        """
        self._keep(worker=self.worker.pid)
        started = await self.runs.start(desk.name, TASK, run_id=self.play.run_id)
        seam = 0 if started.new else (await self.runs.events(self.play.run_id))[-1].id
        self.voice.wait_for("the worker is starting")
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(self._look_after_worker())]
            if not self.play.killed:
                others.append(group.create_task(self._kill_in_mid_call()))
            async for event in self.runs.watch(self.play.run_id):
                self._tell(event)
                if seam and event.id >= seam:
                    seam = 0
                    self.voice.say("It had come this far. Now it goes on.")
                self._have_decided(group)
            for task in [*others, *self._deciding.values()]:
                task.cancel()
        return await self.runs.result(self.play.run_id)

    def _keep(self, **news: object) -> None:
        self.play = self.folder.keep(self.play.model_copy(update=news))

    def _tell(self, event: Event) -> None:
        if isinstance(event, ActivityStarted) and event.attempt > 1:
            if not self._is_news(event):
                return
            event = event if event.at.year > 1970 else replace(event, at=datetime.now(UTC))  # it is about to start
        lines = self._narration.feed(event)
        if isinstance(event, ActivityScheduled) and event.activity == CALL_MODEL:
            lines.insert(0, BLANK)
        if not isinstance(event, StandingChanged):  # what waits is shown whole, to who is asked
            self.voice.lines(lines)
        match event:
            case ActivityScheduled(activity=activity) if activity in _WAITED_FOR:
                self.voice.wait_for(_WAITED_FOR[activity])
            case ActivityStarted(attempt=attempt) if attempt > 1:
                self.voice.wait_for(f"worker {self.worker.pid} tries again")
            case StandingChanged() | RunEnded():
                self.voice.ready()

    def _is_news(self, started: ActivityStarted) -> bool:
        """An attempt is told once: it is looked up while it runs, and stands in the history when it has ended."""
        mark = (started.activity_id, started.attempt, started.worker)
        if mark in self._told or (started.at.year == 1970 and not self._is_ours(started.worker)):
            return False
        self._told.add(mark)
        return True

    # --- the worker ---------------------------------------------------------------------------------------------------

    async def _look_after_worker(self) -> None:
        """Replace a worker that somebody else killed, or that failed; not for ever."""
        for _ in range(_REPLACED):
            dead = await self._death()
            self.worker.start_another()
            self._keep(worker=self.worker.pid)
            self.voice.say(f"Worker {dead} has ended, and the demo did not do it. Worker {self.worker.pid} starts.")
        await self._death()
        raise WorkerGoneError(
            f"workers end one after the other. The end of {self.worker.log}:\n{self.folder.log_end()}"
        )

    async def _death(self) -> int:
        while not self.worker.gone:
            await asyncio.sleep(_LOOK_AGAIN)
        return self.worker.pid

    async def _kill_in_mid_call(self) -> None:
        """SIGKILL the worker while it runs `leave_records`, and start another."""
        while not (running := await self._running_here()):
            await asyncio.sleep(_LOOK_AGAIN)
        await asyncio.sleep(_INTO_THE_CALL)
        if not await self._running_here():
            return  # too late: this machine was busy, and the call has ended
        dead = self.worker.pid
        self.worker.kill()
        self.worker.start_another()
        self._keep(killed=True, worker=self.worker.pid)
        self.voice.say(
            f"Worker {dead} was in the middle of {leave_records.name} ({running.activity_id}), which takes "
            f"{RECORDS_TAKE:.0f} s on purpose. It has just been killed: SIGKILL, no goodbye.",
            f"Worker {self.worker.pid} starts in its place. Nobody tells the server: it notices by itself, after "
            f"{_SILENCE} s without a heartbeat, and has that one call made again. What was observed stays observed.",
        )
        self.voice.wait_for(f"the server notices after {_SILENCE} s of silence")

    async def _running_here(self) -> Execution | None:
        """The execution of `leave_records` that our worker is at, if it is."""
        seen = trace(await self.runs.events(self.play.run_id))
        calls = (call for turn in seen.turns for call in turn.calls)
        executions = (each for call in calls if call.tool == leave_records.name for each in call.executions)
        return next((each for each in executions if each.ended is None and self._is_ours(each.worker)), None)

    def _is_ours(self, identity: str) -> bool:
        return identity.startswith(f"{self.worker.pid}@")

    # --- the operator -------------------------------------------------------------------------------------------------

    def _have_decided(self, group: asyncio.TaskGroup) -> None:
        """Somebody is asked about each request that waits, and not any longer than it does."""
        waiting = self._narration.requests
        for id in [id for id in self._deciding if id not in waiting]:
            self._deciding.pop(id).cancel()
        for id in waiting.keys() - self._deciding.keys():
            self._deciding[id] = group.create_task(self._decide(waiting[id]))

    async def _decide(self, request: Request) -> None:
        seen = trace(await self.runs.events(self.play.run_id))
        asked = next((each for each in seen.waiting if each.request.id == request.id), None)
        if asked is None:
            return  # the history told of the past
        self.voice.say(f"The run waits for an operator. {_SHOWN.get(request.kind, 'This is why:')}")
        self.voice.lines(text.request(seen, asked, text.View(now=datetime.now(UTC))))
        choice, words, by = await self._asked(request) if self.asks else self._by_itself(request)
        decision = Decision(
            id=str(uuid.uuid4()),
            request=request.id,
            choice=choice,
            by=by,
            digest=request.digest,
            reason="" if choice in WORDED else words,
            result=words if choice in WORDED else "",
        )
        try:
            if await self.runs.decide(self.play.run_id, decision) is None:
                self.voice.say("No worker has answered yet. The decision is left with the run, for the next one.")
        except (DecisionRefusedError, RunNotFoundError) as refused:
            self.voice.say(f"That came too late: {refused}")

    def _by_itself(self, request: Request) -> tuple[Choice, str, str]:
        approval = request.kind is RequestKind.APPROVAL
        choice = Choice.APPROVE if approval else CHOICES[request.kind][-1]
        self.voice.say(f"Nobody to ask (no terminal, or --yes): the demo itself says {choice}, as any client would.")
        return choice, "", "demo"

    async def _asked(self, request: Request) -> tuple[Choice, str, str]:
        """Ends when a person has answered; cancelled when somebody else was faster."""
        self.voice.say("Or from another terminal:")
        self.voice.lines([text.next_command("inbox"), BLANK])
        while True:
            choice, words = await answered(request.kind, self._line)
            if choice:
                self.voice.lines([BLANK])
                return choice, words, prompt.operator()

    async def _line(self, question: str) -> str:
        prompt.forget_typed()
        self.voice.prompt(question.rstrip())
        line = await prompt.typed_line()
        self.voice.answered()
        if line is None:
            raise EndOfInputError
        return line
