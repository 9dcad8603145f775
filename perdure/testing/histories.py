"""A run's record, told step by step on a clock of its own: what Temporal would have recorded, without Temporal.

history = History("leave-1", "leave_desk", "Book 3 days from 14 December.")
history.open()
history.think("I book it.", calls=[call("book_leave", {"days": 3}, ask="it has an effect")])
request = history.ask(call=0, reason="it has an effect")
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.core.contracts import (
    CALL_MODEL,
    CHECK_DECISION,
    CHECK_STEERING,
    RUN_TOOL,
    AdmittedCall,
    CallModel,
    CheckDecision,
    Checked,
    CheckSteering,
    Course,
    Decision,
    Effect,
    Ending,
    FileRef,
    Observation,
    Opening,
    Outcome,
    Question,
    RecordedTurn,
    Ref,
    Request,
    RequestKind,
    RunState,
    RunTool,
    Settled,
    Standing,
    Start,
    Steer,
    Steered,
    Steering,
    Stop,
    Usage,
    Verdict,
)
from perdure.core.course import heard, notes, steered
from perdure.core.digests import of_bytes, of_record
from perdure.core.runs import RunRow
from perdure.traces import events as e

_USAGE = Usage(input=900, cached=600, output=45)
_START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def call(
    tool: str,
    arguments: Mapping[str, Any] | str,
    *,
    ask: str = "",
    refuse: str = "",
    effect: Effect = Effect.READ,
    asked_name: str = "",
    question: Question | None = None,
) -> AdmittedCall:
    """A call as admission would record it. `arguments` as text are taken byte for byte."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return AdmittedCall(
        index=0,
        id="",
        name=tool,
        asked_name=asked_name,
        verdict=Verdict.ASK if ask else Verdict.REFUSE if refuse else Verdict.RUN,
        reason=ask or refuse,
        digest=of_bytes(text),
        title=f"{tool} {text[:40]}",
        effect=effect,
        arguments=text,
        question=question,
    )


class History:
    """A run's events, told in order. Each step takes `seconds` on the history's own clock."""

    def __init__(
        self,
        run_id: str,
        agent: str = "leave_desk",
        task: str = "Book 3 days.",
        *,
        at: datetime = _START,
        files: tuple[FileRef, ...] = (),
        parent: str = "",
    ) -> None:
        self.run_id, self.agent, self.task, self.parent = run_id, agent, task, parent
        self.now = at
        self.events: list[e.Event] = []
        self.requests: dict[str, Request] = {}
        self.settled: dict[str, Settled] = {}
        self.outcome: Outcome | None = None
        self.course = Course()
        self._since: list[Ref] = []
        self._turns: dict[int, tuple[str, tuple[AdmittedCall, ...]]] = {}
        start = Start(agent=agent, task=task, files=files)
        self._add(e.RunStarted, run_id, "segment-1", "segment-1", start, "ann@desk", "perdure", "", parent)

    @property
    def turn(self) -> int:
        return max(self._turns, default=0)

    def _add(self, kind: type[e.Event], *fields: Any, seconds: float = 0.0) -> None:
        self.now += timedelta(seconds=seconds)
        self.events.append(kind(len(self.events) + 1, self.now, *fields))

    def activity(
        self,
        activity_id: str,
        activity: str,
        asked: Any,
        result: Any = None,
        *,
        failure: tuple[str, str] | None = None,
        seconds: float = 1.0,
        attempt: int = 1,
        worker: str = "worker-1",
        last_failure: str = "",
    ) -> None:
        """One activity from scheduled to closed; open if there is neither a result nor a failure."""
        self._add(e.ActivityScheduled, activity_id, activity, asked.model_dump(mode="json"), "", 60.0)
        if result is None and failure is None:
            return
        self._add(e.ActivityStarted, activity_id, attempt, worker, last_failure, seconds=seconds)
        if failure:
            self._add(e.ActivityFailed, activity_id, *failure)
        elif result is not None:
            self._add(e.ActivityCompleted, activity_id, result.model_dump(mode="json"))

    def open(self, model: str = "claude-scripted", *, turns: int = 12) -> None:
        """What the first turn offers the model."""
        self._opening = Opening(
            digest=of_record(model), turns=turns, protocol="anthropic", model=model, system="You book."
        )

    def think(
        self,
        *said: str | dict[str, Any],
        calls: Sequence[AdmittedCall] = (),
        answer: str = "",
        usage: Usage = _USAGE,
        **tried: Any,
    ) -> None:
        """A turn: `said` are texts (thinking) or whole content blocks, in order, before the calls or the answer."""
        number = self.turn + 1
        admitted = tuple(
            one.model_copy(update={"index": index, "id": f"toolu_{number}_{index}"}) for index, one in enumerate(calls)
        )
        message = [self._block(part) for part in said]
        message += [{"type": "text", "text": answer}] if answer else []
        message += [{"type": "tool_use", "id": one.id, "name": one.name, "input": {}} for one in admitted]
        turn = RecordedTurn(
            digest=of_record(message),
            stop=Stop.CALLS if calls else Stop.ANSWER if answer else Stop.BLANK,
            calls=admitted,
            answer=answer,
            usage=usage,
            protocol="anthropic",
            model="claude-scripted",
            message=message,
            opening=None if number > 1 else self._opening,
        )
        self.activity(f"think-{number}", CALL_MODEL, self._question(number), turn, **{"seconds": 1.9, **tried})
        self._turns[number] = (f"think-{number}", admitted)
        self._since = [Ref(kind="turn", id=f"think-{number}", digest=turn.digest)]
        self._since += [
            Ref(kind="advice", id=f"think-{number}", call=one.index, ok=False)
            for one in admitted
            if one.verdict is Verdict.REFUSE
        ]

    def think_in_vain(self, kind: str, message: str, **tried: Any) -> None:
        """The model activity fails for good, as it does before a person is asked."""
        number = self.turn + 1
        self.activity(f"think-{number}", CALL_MODEL, self._question(number), failure=(kind, message), **tried)

    def _question(self, number: int) -> CallModel:
        previous = f"think-{number - 1}" if number > 1 else ""
        self._since += notes(self.course)
        self.course = heard(self.course, self._since)
        return CallModel(agent=self.agent, turn=number, previous=previous, since=tuple(self._since), after="0" * 32)

    @staticmethod
    def _block(part: str | dict[str, Any]) -> dict[str, Any]:
        return {"type": "thinking", "thinking": part, "signature": "c2ln"} if isinstance(part, str) else part

    def act(self, index: int, text: str, *, ok: bool = True, again: int = 0, **tried: Any) -> None:
        """Call `index` of the latest turn runs, and is observed."""
        activity_id = f"act-{self.turn}-{index}" + (f"r{again}" if again else "")
        ending = Ending.OK if ok else Ending.ERROR
        observation = Observation(digest=of_bytes(text)[:32], ending=ending, text=text)
        self.activity(activity_id, RUN_TOOL, self._run(index), observation, **{"seconds": 0.2, **tried})
        self._since.append(Ref(kind="observation", id=activity_id, digest=observation.digest, call=index, ok=ok))

    def start_acting(self, index: int) -> None:
        """Call `index` is sent to a worker, and nothing comes back yet."""
        self.activity(f"act-{self.turn}-{index}", RUN_TOOL, self._run(index))

    def lose(self, index: int, kind: str, message: str, *, again: int = 0, **tried: Any) -> None:
        """Call `index` is sent to a worker that does not come back."""
        activity_id = f"act-{self.turn}-{index}" + (f"r{again}" if again else "")
        self.activity(activity_id, RUN_TOOL, self._run(index), failure=(kind, message), **tried)

    def _run(self, index: int) -> RunTool:
        turn_id, calls = self._turns[self.turn]
        return RunTool(
            agent=self.agent,
            turn=self.turn,
            turn_id=turn_id,
            turn_digest="0" * 32,
            call=index,
            digest=calls[index].digest,
            key=f"key-{index}",
        )

    def say(self, index: int, text: str, *, ok: bool = False) -> None:
        """The workflow's own words on a call."""
        self._since.append(Ref(kind="said", call=index, text=text, ok=ok, digest=of_bytes(text)[:32]))

    def note(self, text: str) -> None:
        self._since.append(Ref(kind="note", text=text, digest=of_bytes(text)[:32]))

    def ask(
        self, *, reason: str, call: int = -1, kind: RequestKind = RequestKind.APPROVAL, request_id: str = ""
    ) -> Request:
        """A request now waits: for `call` of the latest turn, or (without one) for the next turn."""
        about: dict[str, Any] = {"turn": self.turn + (call < 0)}
        if call >= 0:
            turn_id, calls = self._turns[self.turn]
            one = calls[call]
            about |= {"turn_id": turn_id, "call": call, "tool": one.name, "title": one.title, "digest": one.digest}
        number = f"{self.run_id}/{len(self.requests) + len(self.settled)}"
        request = Request(id=request_id or of_bytes(number)[:8], kind=kind, reason=reason, since=self.now, **about)
        self.requests[request.id] = request
        self._publish()
        return request

    def decide(
        self,
        decision: Decision,
        *,
        via: str = "update",
        why_not: str = "",
        verified: bool = False,
        seconds: float = 60.0,
    ) -> Settled | None:
        """A decision arrives, and is checked. With `why_not` it is not accepted."""
        request = self.requests[decision.request]
        self._add(e.DecisionReceived, decision, via, "client@desk", seconds=seconds)
        checked = Checked(accepted=not why_not, why=why_not, verified=verified, decided=self.now)
        asked = CheckDecision(decision=decision, request=request)
        self.activity(f"check-{len(self.events)}-{request.id}", CHECK_DECISION, asked, checked, seconds=0.1)
        if why_not:
            self._add(e.DecisionAnswered, decision.id, None, why_not)
            return None
        settled = Settled(
            request=request.id, choice=decision.choice, by=decision.by, decided=checked.decided, verified=verified
        )
        self.settled[request.id] = settled
        del self.requests[request.id]
        if via == "update":
            self._add(e.DecisionAnswered, decision.id, settled)
        self._publish()
        return settled

    def leave(self, decision: Decision) -> None:
        """A decision is left as a signal, and no worker is up to take it."""
        self._add(e.DecisionReceived, decision, "signal", "client@desk")

    def steer(self, steering: Steering, *, via: str = "update", why_not: str = "") -> None:
        """An operator says something without being asked, and it is checked. With `why_not` it is not accepted."""
        self._add(e.SteeringReceived, steering, via, "client@desk")
        checked = Checked(accepted=not why_not, why=why_not, decided=self.now)
        self.activity(f"steer-{len(self.events)}", CHECK_STEERING, CheckSteering(steering=steering), checked)
        if why_not:
            return
        word = steering.model_dump(include={"id", "steer", "by", "text"})
        self.course = steered(self.course, Steered(**word, at=self.now))
        if steering.steer is not Steer.SAY:
            self._publish()

    def retry(self, by: str, reason: str) -> None:
        """The failed run is set back to before it ended."""
        while isinstance(self.events[-1], e.RunEnded | e.StandingChanged):
            self.events.pop()
        self.outcome = None
        self._add(e.RunRetried, by, reason)
        self._publish()

    def cancel(self, by: str, reason: str) -> None:
        self._add(e.CancelRequested, by, reason)

    def suspend(self, message: str) -> None:
        self._add(e.WorkflowTaskFailed, "non-deterministic", message, "worker-2")

    def end(self, state: RunState = RunState.ANSWERED, *, answer: str = "", reason: str = "", **more: Any) -> None:
        self.outcome = Outcome(state=state, answer=answer, reason=reason, turns=self.turn, **more)
        self.requests.clear()
        self._publish()
        match state:
            case RunState.FAILED:
                self._add(e.RunEnded, "failed", None, "RuntimeError", reason)
            case RunState.CANCELLED:
                self._add(e.RunEnded, "cancelled")
            case _:
                self._add(e.RunEnded, "completed", self.outcome.model_dump(mode="json"))

    def _publish(self) -> None:
        brief = self.outcome.model_copy(update={"answer": ""}) if self.outcome else None
        self._add(
            e.StandingChanged,
            Standing(
                requests=tuple(self.requests.values()),
                settled=tuple(self.settled.values()),
                outcome=brief,
                paused=None if brief else self.course.paused,
            ),
        )

    def row(self) -> RunRow:
        waiting = RunState.WAITING if self.requests else RunState.THINKING
        waiting = RunState.PAUSED if self.course.paused else waiting
        return RunRow(
            run_id=self.run_id,
            agent=self.agent,
            state=self.outcome.state if self.outcome else waiting,
            started=self.events[0].at,
            ended=self.now if self.outcome else None,
            requests=tuple(self.requests.values()),
            outcome=self.outcome.model_copy(update={"answer": ""}) if self.outcome else None,
            segment_id="segment-1",
            paused=None if self.outcome else self.course.paused,
            parent=self.parent,
        )
