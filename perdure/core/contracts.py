"""Everything that crosses a process boundary, and the names it crosses by.

Two kinds of types live here. *Records* are written into a run's history once and read for as long as it is kept: the
workflow reads only their routing part (`Turn`), activities, traces and exporters the whole (`RecordedTurn`), from the
same payload. *Messages* carry references to records, never their content. Every field added later needs a default;
none may change its meaning. Declarations only: this module passes through the workflow sandbox unchecked.
"""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

T = TypeVar("T")

# Names on the wire. Activities verb_object; signals and updates imperative.
RUN: Final = "AgentRun"
CALL_MODEL: Final = "call_model"
RUN_TOOL: Final = "run_tool"
PROBE_TOOL: Final = "probe_tool"
CHECK_DECISION: Final = "check_decision"
COMPACT_TRANSCRIPT: Final = "compact_transcript"
EXPORT_SEGMENT: Final = "export_segment"
CHECK_STEERING: Final = "check_steering"
ASK_CRITIC: Final = "ask_critic"
DECIDE: Final = "decide"  # an update and a signal over one function
STEER: Final = "steer"  # likewise

MOST_SAID: Final = 4_000  # characters of an operator's own: they are recorded, and told to the model

TASK_QUEUE: Final = "perdure"
AGENT_ATTRIBUTE: Final = "PerdureAgent"  # search attribute, Keyword: the agent's name
STATE_ATTRIBUTE: Final = "PerdureState"  # search attribute, Keyword: see RunState
STANDING: Final = "perdure"  # memo key: a Standing, replaced whenever it changes
WAITING_PREFIX: Final = "perdure.waits."  # and a slot's number: memo keys of what waits, a Request each, or null

# Failure types: how an activity tells the workflow that retrying will not help.
NEEDS_PERSON: Final = "NeedsPerson"  # a person can mend it: a key, an account, a model name, a missing tool
NOT_RUN: Final = "NotRun"  # it failed before the tool was reached: surely nothing happened
TRANSCRIPT_MISMATCH: Final = "TranscriptMismatch"  # the history does not hold what the workflow refers to
ELSEWHERE: Final = "Elsewhere"  # the model has a rate, and is asked on another task queue: a Detour in the details
TOO_LONG: Final = "TooLong"  # the transcript, for the model: it is compacted, and asked again
STOPPED: Final = "Stopped"  # an operator stopped a run that was stuck


class Wire(BaseModel):
    """A frozen value on the wire. Unknown fields are ignored, so that an older reader takes a newer record."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="constants")


class RunState(StrEnum):
    """Where a run stands. Only `answered` is success."""

    THINKING = "thinking"
    ACTING = "acting"
    WAITING = "waiting"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    ANSWERED = "answered"
    LIMITED = "limited"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    FAILED = "failed"


FINAL_STATES: Final = frozenset(
    {RunState.ANSWERED, RunState.LIMITED, RunState.REFUSED, RunState.CANCELLED, RunState.FAILED}
)


class Effect(StrEnum):
    """What running a tool does to the world, and so what may follow when its result is lost.

    `read`: nothing; run again freely. `idempotent`: at most one effect per idempotency key; run again with the same
    key. `once`: may not be run again without asking: lost means outcome unknown.
    """

    READ = "read"
    IDEMPOTENT = "idempotent"
    ONCE = "once"


class Verdict(StrEnum):
    """The policy's judgement of one call."""

    RUN = "run"
    ASK = "ask"
    REFUSE = "refuse"


class Usage(Wire):
    """Tokens of one model call, or their sum. `input` counts all input, cached or not; `output` includes reasoning."""

    input: int = 0
    cached: int = 0
    cache_written: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})


# --- records: the start -----------------------------------------------------------------------------------------------


class FileRef(Wire):
    """Names a file: `size` in bytes, `sha256` (hex) of its content, `media_type` as its content shows it.

    The content is in the store; or, where there was none, a small file's is here, as base64: see perdure.files.
    """

    name: str
    media_type: str
    size: int
    sha256: str
    data: str = ""


class Start(Wire):
    """The workflow's one argument. `state` and `carried` are set when a run goes on in a new segment.

    The workflow hands `carried` from segment to segment without looking into it.
    """

    v: int = 1
    agent: str
    task: str
    state: "State | None" = None
    carried: "Carried | None" = None
    files: tuple[FileRef, ...] = ()  # that the task is about
    tools: tuple[str, ...] | None = None  # of the agent's, those that this run may have; None: all
    root: str = ""  # of its idempotency keys: the key of the call that it works for; "": its first segment
    limits: "Limits | None" = None  # its share of what is left of the budget of the run that it works for


class ToolSpec(Wire):
    """A tool as the model is offered it. `parameters` is the schema sent; `strict` asks the vendor to enforce it."""

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool = False
    order: tuple[str, ...] = ()  # of the parameters, for text mode: an object's keys may be recorded sorted


class Limits(Wire):
    """What a run may spend, besides turns: see perdure.tools.budget.Budget. None: as much as it takes.

    `tokens`: in and out. `money`: US dollars. `seconds`: of thinking and acting. With `ask`, an operator may give more.
    `turns` is set only where an operator gave more of them; those of the opening stand in `Opened`.
    """

    turns: int | None = None
    tokens: int | None = None
    money: Decimal | None = None
    seconds: float | None = None
    ask: bool = False


class Occasion(StrEnum):
    """What a critic is asked after."""

    ERRORS = "errors"  # a turn with calls that ended in an error
    TURNS = "turns"  # every so many turns
    ANSWER = "answer"  # a final answer, before it counts


class Reviewing(Wire):
    """When a run's critic is asked, and how often it is heard. `every`: turns; 0 for never."""

    errors: bool = False
    answer: bool = False
    every: int = 0
    notes: int = 0  # after errors and turns, at most
    returns: int = 0  # of an answer, at most


class Fallback(Wire):
    """A model that is asked when those before it are out. Prompt or tools that are None are those of the opening."""

    protocol: str
    model: str
    settings: dict[str, Any] = {}
    system: str | None = None
    tools: tuple[ToolSpec, ...] | None = None


class Opened(Wire):
    """What the workflow reads of an Opening. Without `limits` it is of a time that knew turns alone, and no repeats."""

    digest: str
    turns: int  # the budget
    stored: bool = False  # ended segments are kept in a store
    compact_at: int = 0  # tokens of a request, from which on the transcript is compacted; 0: when it does not fit
    reviewing: Reviewing | None = None
    limits: Limits | None = None


class Opening(Opened):
    """Prompt, tools and settings, as the run keeps them to its end: recorded with its first turn."""

    v: int = 1
    protocol: str  # "anthropic" | "openai-responses" | "openai-chat", or one of them behind "text+"
    model: str  # the provider's own name
    system: str
    tools: tuple[ToolSpec, ...] = ()
    settings: dict[str, Any] = {}  # max_tokens and what else the provider takes, by its own names
    answer: dict[str, Any] | None = None  # JSON Schema of the answer, if it has a form
    critic: "Opening | None" = None  # who the critic is and what it is told
    parallel: bool = True  # False: one call in a turn
    fallbacks: tuple[Fallback, ...] = ()  # asked in this order while the models before them are out


# --- records: a turn --------------------------------------------------------------------------------------------------


class Stop(StrEnum):
    """Why the model ended its turn, over all protocols."""

    ANSWER = "answer"  # text and no call
    CALLS = "calls"  # at least one call
    PAUSED = "paused"  # the provider wants its message back unchanged, to go on
    CUT = "cut"  # output limit reached, no whole call
    BLANK = "blank"  # nothing anyone could use; never sent back
    REFUSED = "refused"  # by the provider or its content filter
    UNREAD = "unread"  # nothing that can be taken: unreadable in text mode, or an answer not of its form; with advice


class Question(Wire):
    """A call that no worker runs: it is put to a person, who answers with one of `choices`, or, without any, freely."""

    text: str
    choices: tuple[str, ...] = ()


class Delegate(Wire):
    """A call that no worker runs: it is handed to another agent, in a run of its own that is told `task` alone."""

    agent: str
    task: str


class Call(Wire):
    """One call of a turn as the workflow sees it: admitted, judged, without its arguments.

    `id` and `name` are as sent back to the provider (unique, and legal); `digest` is the SHA-256 (hex) of the argument
    bytes. `title` is short and inert, for summaries. Times are seconds.
    """

    index: int
    id: str
    name: str
    verdict: Verdict
    reason: str = ""  # for ASK: why a person is asked; for REFUSE: advice to the model
    digest: str = ""
    title: str = ""
    effect: Effect = Effect.ONCE
    timeout: float = 60.0
    probe: bool = False
    question: Question | None = None
    delegate: Delegate | None = None


class AdmittedCall(Call):
    """A call with its argument bytes: parsed, validated, normalised and serialised once. `asked_name` if it differs."""

    arguments: str = "{}"
    asked_name: str = ""


class Turn(Wire):
    """What the workflow reads of a RecordedTurn. `answer` is set when `stop` is ANSWER or CUT, `advice` when UNREAD.

    An answer that has a form is canonical JSON. One that is not of its form is UNREAD, and kept as `answer` only where
    it is the run's last word.
    """

    digest: str
    stop: Stop
    calls: tuple[Call, ...] = ()
    answer: str = ""
    usage: Usage = Usage()
    opening: Opened | None = None
    advice: str = ""
    cost: Decimal | None = None  # US dollars; None: nobody knows


class RecordedTurn(Wire):
    """One turn: the assistant's message exactly as the provider sent it, and the calls it asks for, admitted."""

    v: int = 1
    digest: str
    stop: Stop
    calls: tuple[AdmittedCall, ...] = ()
    answer: str = ""
    usage: Usage = Usage()
    protocol: str
    model: str = ""  # as the provider reports it
    message: Any = None  # anthropic: content blocks; openai-responses: output items; openai-chat: the message
    opening: Opening | None = None  # with the run's first turn: what the model was offered, then and since
    advice: str = ""
    place: int = 0  # which of the run's models answered: see perdure.core.models
    passed: tuple[str, ...] = ()  # the models that were out when it was asked for, and what they said
    until: datetime | None = None  # when the first model is asked again
    cost: Decimal | None = None


# --- records: an observation ------------------------------------------------------------------------------------------


class Ending(StrEnum):
    """How one attempt at a call ended."""

    OK = "ok"
    ERROR = "error"  # the tool said no, or never ran: known, and told to the model
    UNKNOWN = "unknown"  # it may have happened
    ASK = "ask"  # the worker's policy asks for a grant that the call did not carry


class Spent(Wire):
    """What a run took that worked for another one: see Outcome."""

    usage: Usage = Usage()
    cost: Decimal | None = None
    seconds: float = 0.0


class Observed(Wire):
    """What the workflow reads of an Observation."""

    digest: str
    ending: Ending
    reason: str = ""  # for UNKNOWN and ASK; of a call that was handed to another run, how that ended, in short
    whole: str = ""  # digest of the text before it was cut under a name, which is another each time
    spent: Spent | None = None  # by the run that the call was handed to


class Observation(Observed):
    """What came of one call, as the model sees it. Bounded: see perdure.tools."""

    v: int = 1
    text: str = ""
    files: tuple[FileRef, ...] = ()


# --- records: a critique ----------------------------------------------------------------------------------------------


class Reviewed(Wire):
    """What the workflow reads of a Critique. `told`: it holds a note for the model."""

    digest: str
    told: bool
    usage: Usage = Usage()
    cost: Decimal | None = None


class Critique(Reviewed):
    """What a critic said of the work so far: that it stands (`approved`), or what to change. Bounded."""

    v: int = 1
    occasion: Occasion
    approved: bool
    text: str
    protocol: str
    model: str = ""  # as the provider reports it


# --- records: a transcript, compacted ---------------------------------------------------------------------------------


class Carried(Wire):
    """A transcript from which a run goes on, without what led to it. Bounded: see perdure.core.compaction.

    `entries` are those of perdure.core.transcript, as JSON, without the task, which every start repeats. `records`
    holds by activity id what the run's state still refers to and a new segment's history would not hold.
    """

    v: int = 1
    digest: str
    opening: Opening | None = None
    entries: tuple[dict[str, Any], ...] = ()
    records: dict[str, Any] = {}
    usage: Usage = Usage()  # of the summary, if the model wrote one
    cost: Decimal | None = None


# --- references -------------------------------------------------------------------------------------------------------


class Ref(Wire):
    """Names one thing that the history holds, or carries what the workflow itself decided.

    `turn`, `observation`: the result of activity `id`. `advice`: the reason of call `call` of turn `id`. `said`: the
    workflow's own `text` about call `call`. `note`: the workflow's own `text` to the model. `context`: a Carried, the
    result of activity `id`, or without an id the one that this segment started with. `critique`: a critic's note to the
    model, the result of activity `id`.
    """

    kind: Literal["turn", "observation", "advice", "said", "note", "context", "critique"]
    id: str = ""
    digest: str = ""
    call: int = -1
    text: str = ""
    ok: bool = True
    whole: str = ""  # as in Observed


# --- messages to activities -------------------------------------------------------------------------------------------


class Lane(Wire):
    """A task queue on which the models of one vendor are asked, at its rate. Without a name: the run's own.

    `patience`: seconds to wait there for a worker.
    """

    queue: str = ""
    patience: float = 0.0


class Detour(Wire):
    """Where a model is to be asked instead. `made`: attempts that count as made at it and the models before it.

    `passed`: those of them that were out, and what they said.
    """

    lane: Lane = Lane()
    made: int = 0
    passed: tuple[str, ...] = ()


class CallModel(Wire):
    """Think turn `turn`. The transcript is that of activity `previous`, extended by `since`.

    Without `previous` it begins anew: with the task, and the context that `since` names, if the run went on from one.

    `before` and `after` are the digests of the transcript without and with `since`. A turn in `since` that is blank
    stands there for the digest alone. Without `tools` the model must answer. A short task without files goes along with
    the first question, which spares the worker a look into the history.
    """

    v: int = 1
    agent: str
    turn: int
    previous: str = ""
    before: str = ""
    since: tuple[Ref, ...]
    after: str
    tools: bool = True
    task: str = ""
    only: tuple[str, ...] | None = None  # with the question that opens the run: the tools of Start
    detour: Detour | None = None  # that led here


class CompactTranscript(Wire):
    """Compact the transcript of activity `previous` (digest `digest`), or the context in `since` if there is none.

    `since` is what the model has not seen yet: it stays whole. With `carry` its records go along, for a new segment.
    The transcript's size is halved `halvings` times at least.
    """

    v: int = 1
    agent: str
    previous: str
    digest: str
    since: tuple[Ref, ...]
    carry: bool = True
    halvings: int = 0
    detour: Detour | None = None  # that led here


class AskCritic(Wire):
    """Ask the critic about turn `turn`, after `occasion`.

    The transcript is that of activity `previous` (digest `digest`), extended by `since`.
    """

    v: int = 1
    agent: str
    turn: int
    occasion: Occasion
    previous: str
    digest: str
    since: tuple[Ref, ...]
    detour: Detour | None = None  # that led here


class Grant(Wire):
    """A decision, checked: this call of this run with these bytes may run. Sealed with the workers' key."""

    request: str
    run_id: str
    key: str
    digest: str
    by: str
    verified: bool
    decided: datetime
    until: datetime
    seal: str = ""


class Delegated(Wire):
    """A run that works for a call of another one: its id, and its first segment."""

    run_id: str
    segment_id: str


class RunTool(Wire):
    """Run call `call` of turn `turn`, recorded by activity `turn_id`, if its argument bytes have `digest`.

    With `by` it was done, by that run, which has ended: what came of it is to be observed.
    """

    v: int = 1
    agent: str
    turn: int
    turn_id: str
    turn_digest: str
    call: int
    digest: str
    key: str  # the idempotency key
    segment_id: str = ""  # Temporal's run id when the call was sent: another one runs it only after a reset
    grant: Grant | None = None
    by: Delegated | None = None


# --- decisions --------------------------------------------------------------------------------------------------------


class RequestKind(StrEnum):
    APPROVAL = "approval"
    UNKNOWN = "unknown"  # a side effect's outcome
    STUCK = "stuck"  # something a person can mend
    QUESTION = "question"  # the model asks a person: see Question
    LIMIT = "limit"  # the budget is spent, and a person may give more


class Choice(StrEnum):
    """What a decision may say, by the kind of its request."""

    APPROVE = "approve"
    REJECT = "reject"
    HAPPENED = "happened"  # with what came of it
    RERUN = "rerun"  # it did not happen: run it again, same key
    GIVE_UP = "give_up"
    RETRY = "retry"
    STOP = "stop"
    ANSWER = "answer"  # a question, in the operator's words
    EXTEND = "extend"  # as much again of what is spent
    FINISH = "finish"  # one last turn without tools


CHOICES: Final[dict[RequestKind, tuple[Choice, ...]]] = {
    RequestKind.APPROVAL: (Choice.APPROVE, Choice.REJECT),
    RequestKind.UNKNOWN: (Choice.HAPPENED, Choice.RERUN, Choice.GIVE_UP),
    RequestKind.STUCK: (Choice.RETRY, Choice.STOP),
    RequestKind.QUESTION: (Choice.ANSWER, Choice.REJECT),
    RequestKind.LIMIT: (Choice.EXTEND, Choice.FINISH),
}


WORDED: Final = frozenset({Choice.HAPPENED, Choice.ANSWER})  # choices whose words are a result, not a reason


class Request(Wire):
    """Something that waits for a person. `activity` names what it is about; arguments stand in turn `turn_id`."""

    id: str
    kind: RequestKind
    reason: str
    since: datetime
    turn: int
    turn_id: str = ""
    call: int = -1
    tool: str = ""
    title: str = ""
    digest: str = ""


class Decision(Wire):
    """One operator's word on one request. `digest` repeats the request's: what was seen is what is decided on."""

    v: int = 1
    id: str = Field(max_length=200)
    request: str = Field(max_length=64)
    choice: Choice
    by: str = Field(max_length=200)
    digest: str = Field(default="", max_length=64)
    reason: str = Field(default="", max_length=MOST_SAID)
    result: str = Field(
        default="", max_length=MOST_SAID
    )  # with HAPPENED: what the tool would have returned; with ANSWER: the answer


class CheckDecision(Wire):
    decision: Decision
    request: Request
    key: str = ""  # of the call, for an approval


class Checked(Wire):
    """check_decision's answer. Not `accepted`: the request stays open, and `why` is told to who decided."""

    accepted: bool
    why: str = ""
    verified: bool = False
    decided: datetime
    grant: Grant | None = None


class Settled(Wire):
    """What decide answers. `again`: this very choice had been made before, and nothing changed."""

    request: str
    choice: Choice
    by: str
    decided: datetime
    again: bool = False
    verified: bool = False


# --- steering ---------------------------------------------------------------------------------------------------------


class Steer(StrEnum):
    """What an operator may do to a run that did not ask."""

    SAY = "say"  # the model hears it before its next turn
    PAUSE = "pause"  # nothing new starts
    RESUME = "resume"


class Steering(Wire):
    """One operator's word to a running run. `text`: what is said, or why it is paused or resumed.

    The same `id` twice is one word.
    """

    v: int = 1
    id: str = Field(min_length=1, max_length=64)
    steer: Steer
    by: str = Field(max_length=200)
    text: str = Field(default="", max_length=MOST_SAID)


class CheckSteering(Wire):
    steering: Steering


class Steered(Wire):
    """What steer answers, and what a run keeps of it. `again`: nothing changed, since it was so before."""

    id: str
    steer: Steer
    by: str
    text: str = ""
    at: datetime
    verified: bool = False
    again: bool = False


class Course(Wire):
    """How a run was steered: what the model has not heard yet, who paused it, and the latest ids, oldest first."""

    unheard: tuple[Steered, ...] = ()
    paused: Steered | None = None
    known: tuple[str, ...] = ()


# --- standing: what a list shows without a query ----------------------------------------------------------------------


class NotAnsweredError(ValueError):
    """A run that gave no answer was asked for one; the text says how it ended."""


class Outcome(Wire):
    """A run's end, and the workflow's result. `report` says, for a cancelled run, what did and did not happen.

    `answer` is JSON text where the agent declares the form of its answers (`Agent(answer=...)`).
    """

    v: int = 1
    state: RunState
    answer: str = ""
    reason: str = ""
    turns: int = 0
    usage: Usage = Usage()
    report: tuple[str, ...] = ()
    cost: Decimal | None = None  # US dollars; None: of one turn at least nobody knows
    seconds: float = 0.0  # of thinking and acting, as budgets count them

    def answer_as(self, form: type[T]) -> T:
        """The answer as a value of the type that the agent declares.

        Raises:
            NotAnsweredError: the run did not end `answered`.
            pydantic.ValidationError: the answer is not of this form.
        """
        if self.state is not RunState.ANSWERED:
            raise NotAnsweredError(f"the run ended {self.state.value!r} and not answered: {self.reason[:500]}")
        value: T = TypeAdapter(form).validate_json(self.answer)
        return value


class Standing(Wire):
    """What is seen of a run: what waits, what was settled last, how it ended (without the answer: see the result).

    In the memo, what waits stands in slots of its own (WAITING_PREFIX), so that a change costs only itself.
    """

    requests: tuple[Request, ...] = ()
    settled: tuple[Settled, ...] = ()
    outcome: Outcome | None = None
    began: datetime | None = None  # the run, if that is not when this segment did
    paused: Steered | None = None


# --- the run's whole state --------------------------------------------------------------------------------------------


class Sent(Wire):
    """How far a call is that waits for a person: what a new segment needs to wait on."""

    call: int
    sendings: int = 0
    doubt: str = ""
    grant: Grant | None = None
    by: Delegated | None = None  # the run that did it


class ExportSegment(Wire):
    """Keep a segment of the run in the store. `outcome` is set for the last one, which is about to end so."""

    segment_id: str
    outcome: Outcome | None = None


class Exported(Wire):
    size: int = 0  # bytes, compressed


class Reflected(Wire):
    """What came of a run's critic so far. `turn` is the latest one it was asked about.

    `proposed` is an answer that waits for its word.
    """

    turn: int = 0
    notes: int = 0
    returns: int = 0
    proposed: str | None = None


class Seen(Wire):
    """An action, by digest, and how many times in a row it brought the same result; `turn` is the latest of them."""

    action: str
    result: str
    times: int
    turn: int


class State(Wire):
    """A run between two steps, whole: what a new segment starts from. Changed by perdure.core.loop alone."""

    v: int = 1
    opened: Opened | None = None
    turn: int = 0  # turns taken
    turn_id: str = ""  # activity id of the latest turn
    digest: str = ""  # of the transcript up to the latest turn's input
    since: tuple[Ref, ...] = ()  # what the model has not seen yet
    calls: tuple[Call, ...] = ()  # of the latest turn, in order
    observed: tuple[Ref, ...] = ()  # for them, in the order they settled
    blanks: int = 0  # blank or unread turns in a row
    last: bool = False  # the budget is spent: the latest turn was the one without tools
    usage: Usage = Usage()
    requests: tuple[Request, ...] = ()  # open ones, oldest first
    decided: tuple[Settled, ...] = ()  # so that a late answer learns who was first
    outcome: Outcome | None = None
    sent: tuple[Sent, ...] = ()  # of calls that wait
    tries: int = 0  # at the next turn, so far in vain
    serial: int = 1  # numbers for activities that no turn numbers, given out
    began: datetime | None = None  # when its first segment did
    left: tuple[str, ...] = ()  # ended segments that are not in the store yet
    input: int = 0  # tokens of the latest request, since the transcript was compacted
    too_long: bool = False  # the transcript is, for the model
    squeezed: int = 0  # times that it was, in a row
    course: Course = Course()
    reflected: Reflected = Reflected()
    cost: Decimal = Decimal(0)  # of the turns whose cost is known
    unpriced: int = 0  # the others
    excused: int = 0  # of them: an operator gave more in spite of them
    seconds: float = 0.0  # of thinking and acting
    raised: Limits = Limits()  # what an operator gave more of: the new limits
    finishing: bool = False  # an operator gave no more
    seen: tuple[Seen, ...] = ()  # what was done before the latest turn, by latest turn: see perdure.core.repeats
    rejected: tuple[str, ...] = ()  # actions that an operator rejected
    lane: Lane = Lane()  # on which the model is asked: see workflows/lanes.py
    critic_lane: Lane = Lane()
    smallest: int = 0  # tokens of the first request after the transcript was compacted
    begun: float = 0.0  # seconds that the step took which went on in this segment: see `seconds`
    share: Limits | None = None  # the limits of Start


Start.model_rebuild()
