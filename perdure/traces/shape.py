"""A trace as values: run > turn > call > observation, with who decided what, and how often what was tried.

Nothing here is a judgement. `claims` are what the model said, true or not; `by` is who a decision says it is from,
and `verified` whether a worker could check that. Durations are seconds; times carry their zone.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

from perdure.core.contracts import (
    Choice,
    Effect,
    FileRef,
    Limits,
    Outcome,
    Request,
    RequestKind,
    RunState,
    Spent,
    Steer,
    Steered,
    Stop,
    Usage,
    Verdict,
)
from perdure.core.messages import Part
from perdure.traces.figures import Figure

CallState = Literal["pending", "waiting", "running", "ok", "error", "unknown", "rejected", "refused", "not_run"]


@dataclass(frozen=True)
class Execution:
    """One sending of an activity to the workers. `attempts` is 0 while the record does not tell of one."""

    activity_id: str
    scheduled: datetime
    ended: datetime | None = None
    attempts: int = 0
    worker: str = ""
    last_failure: str = ""  # of the attempt before the last
    failure: str = ""  # why it ended without a result, with its kind before it
    begun: datetime | None = None  # when the last attempt was handed to `worker`
    failure_kind: str = ""

    @property
    def took(self) -> float | None:
        return (self.ended - self.scheduled).total_seconds() if self.ended else None


@dataclass(frozen=True)
class Ruling:
    """A decision that reached the run, and what became of it. `accepted` is None while it is being checked."""

    id: str
    choice: Choice
    by: str
    at: datetime
    via: str  # "update" | "signal"
    client: str  # what the client calls itself
    reason: str = ""
    result: str = ""
    accepted: bool | None = None
    verified: bool = False
    why_not: str = ""


@dataclass(frozen=True)
class Spoken:
    """An operator's word to a run that did not ask. `accepted` is None while it is checked, or if it changed nothing.

    `turn`: before which the model heard it; None while it has not, and of pauses.
    """

    id: str
    steer: Steer
    by: str
    text: str
    at: datetime
    via: str  # "update" | "signal"
    client: str  # what the client calls itself
    accepted: bool | None = None
    verified: bool = False
    why_not: str = ""
    turn: int | None = None


@dataclass(frozen=True)
class Asked:
    """A request to a person. `until` is when it was settled or withdrawn; None while it waits."""

    request: Request
    until: datetime | None = None
    rulings: tuple[Ruling, ...] = ()

    @property
    def settled(self) -> Ruling | None:
        return next((ruling for ruling in self.rulings if ruling.accepted), None)

    @property
    def waited(self) -> float | None:
        return (self.until - self.request.since).total_seconds() if self.until else None


@dataclass(frozen=True)
class TracedCall:
    """A call, its exact argument bytes, and what came of it. `reason`: why it was gated, or the advice if refused."""

    index: int
    id: str
    tool: str
    asked_name: str  # what the model called it, if that is something else
    title: str
    arguments: str
    digest: str
    effect: Effect
    verdict: Verdict
    reason: str
    state: CallState
    observation: str | None = None
    asked: tuple[Asked, ...] = ()
    executions: tuple[Execution, ...] = ()
    key: str = ""  # the idempotency key that the tool was given, once it was sent
    files: tuple[FileRef, ...] = ()  # that the tool returned, as the model saw them
    choices: tuple[str, ...] = ()  # of a question
    by: str = ""  # the run that it was handed to
    spent: Spent | None = None  # by that, once it has ended

    @property
    def attempts(self) -> int:
        return sum(max(execution.attempts, 1) for execution in self.executions)


@dataclass(frozen=True)
class TracedCritique:
    """A critic's word on a turn. `told`: the model heard it; `approved`: there was nothing to change.

    `text` is what it said, true or not; it and the flags are empty until it has answered.
    """

    occasion: str
    text: str
    approved: bool
    told: bool
    protocol: str
    model: str
    usage: Usage
    executions: tuple[Execution, ...]
    cost: Decimal | None = None  # as of a turn


@dataclass(frozen=True)
class TracedTurn:
    """A turn. `heard` is what the run itself told the model before it; `stop` is None until the model has answered."""

    number: int
    started: datetime
    ended: datetime | None
    model: str
    heard: tuple[str, ...]
    claims: tuple[Part, ...]
    stop: Stop | None
    answer: str
    usage: Usage
    calls: tuple[TracedCall, ...]
    executions: tuple[Execution, ...]
    asked: tuple[Asked, ...]  # where the model could not be asked without a person's help
    said: tuple[Spoken, ...] = ()  # by operators, heard before it
    critique: TracedCritique | None = None
    protocol: str = ""  # that of the model that answered, where it is another than the run's first
    passed: tuple[str, ...] = ()  # models that were out, and what they said
    cost: Decimal | None = None  # US dollars; None: nobody knows, or the record is older than that

    @property
    def took(self) -> float | None:
        return (self.ended - self.started).total_seconds() if self.ended else None


@dataclass(frozen=True)
class Suspension:
    """A worker could not take the run on, and the server tries again for ever."""

    at: datetime
    cause: str
    message: str
    worker: str
    over: bool  # something happened since


@dataclass(frozen=True)
class Compaction:
    """What a summary of older turns took: the transcript had grown too long, or the run went on in a new segment."""

    usage: Usage
    cost: Decimal | None


@dataclass(frozen=True)
class Cancelling:
    at: datetime
    by: str
    reason: str


@dataclass(frozen=True)
class Retried:
    """A failed run was taken on from where it failed."""

    at: datetime
    by: str
    reason: str


@dataclass(frozen=True)
class Trace:
    """A run, whole. `waiting` is what waits for a person now; `unsupported` the answer's figures nothing observed.

    `usage` is of its own turns. `cost` is all that counts against its budget: also what runs took that it handed work
    to, whose tokens are `handed`.
    """

    run_id: str
    segment_id: str
    agent: str
    task: str
    state: RunState
    started: datetime
    ended: datetime | None
    by: str
    task_queue: str
    protocol: str
    model: str
    budget: int | None  # turns
    usage: Usage
    turns: tuple[TracedTurn, ...]
    asked: tuple[Asked, ...]  # about no turn that the record holds
    waiting: tuple[Asked, ...]
    outcome: Outcome | None
    unsupported: tuple[Figure, ...]
    suspensions: tuple[Suspension, ...]
    cancelling: Cancelling | None
    last: datetime  # of the newest event
    events: int
    turns_gone: int = 0  # the first ones, in segments that neither server nor store holds any more
    files: tuple[FileRef, ...] = ()  # that the task is about
    spoken: tuple[Spoken, ...] = ()  # all that operators said without being asked, heard or not
    paused: Steered | None = None
    retried: tuple[Retried, ...] = ()
    structured: bool = False  # the answer has a form, and is JSON of it
    tools: tuple[str, ...] | None = None  # of the agent's, those it was started with; None: all
    limits: Limits | None = None  # what the run may spend besides turns; None: the record is older than that
    cost: Decimal | None = None  # US dollars, of all replies; None where nobody knows that of one
    compactions: tuple[Compaction, ...] = ()
    parent: str = ""  # the run that it works for
    handed: Usage | None = None  # tokens of the runs that it handed work to; None: it handed on none

    @property
    def saw_files(self) -> bool:
        """Whether the model saw what no text here holds."""
        return bool(self.files) or any(call.files for turn in self.turns for call in turn.calls)

    @property
    def extended(self) -> bool:
        """Whether an operator gave the run more than its budget."""
        limits = (asked for asked in self.all_asked if asked.request.kind is RequestKind.LIMIT)
        return any(asked.settled is not None and asked.settled.choice is Choice.EXTEND for asked in limits)

    @property
    def all_asked(self) -> tuple[Asked, ...]:
        """Every request of the run, waiting or not."""
        of_turns = [asked for turn in self.turns for asked in turn.asked]
        of_calls = [asked for turn in self.turns for call in turn.calls for asked in call.asked]
        return (*self.asked, *of_turns, *of_calls)

    def call(self, request: Request) -> TracedCall | None:
        """The call that `request` is about, if it is about one."""
        turns = (turn for turn in self.turns if turn.number == request.turn)
        return next((call for turn in turns for call in turn.calls if call.index == request.call), None)

    def claims(self, request: Request) -> tuple[Part, ...]:
        """What the model said in the turn that `request` came of."""
        return next((turn.claims for turn in self.turns if turn.number == request.turn), ())
