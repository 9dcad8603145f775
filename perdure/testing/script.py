"""What a scripted model says, turn by turn: plain frozen data, the same for every protocol.

A *script* is a list of turns, or one function that makes any turn. A *turn* is what the model says in one reply: text,
thoughts, calls, and the faults to show before it. How a turn looks on the wire is the business of the protocol files;
which turn answers a request is the business of `prompter.py`.

A turn is *kept* when a client sends it back in the next transcript. Blank replies and refusals are not kept: a client
that replayed them would be refused by the vendor. The prompter needs to know, because it finds its place by counting
the assistant's turns in the transcript.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias


class ScriptError(ValueError):
    """The script itself is wrong. The message names the turn, what is wrong with it, and the right form."""


class Absent:
    """Marks an argument nobody gave, where None is a value."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Think:
    text: str
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """`raw` is the argument string as it goes over the wire (None: JSON null); absent means `arguments`, encoded."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    raw: str | Absent | None = ABSENT


@dataclass(frozen=True, slots=True)
class Refuse:
    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Block:
    content: Mapping[str, Any]


BlankForm: TypeAlias = Literal["empty", "null", "text"]


@dataclass(frozen=True, slots=True)
class Blank:
    form: BlankForm


@dataclass(frozen=True, slots=True)
class Delay:
    seconds: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Overrides the stop reason; None leaves it out, as a cut stream does."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """The model ran out of tokens here; a call directly before is cut inside its arguments."""


@dataclass(frozen=True, slots=True)
class Error:
    status: int
    kind: str | None = None
    message: str | None = None
    retry_after: float | None = None
    should_retry: bool | None = None
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Raw:
    body: str
    status: int = 200
    content_type: str = "text/html"
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    code: str
    message: str
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    after_bytes: int
    clean: bool = False
    times: int | None = None


Content: TypeAlias = Say | Think | Call | Refuse | Pause | Block | Blank
Fault: TypeAlias = Error | Raw | Failed | Cut
Part: TypeAlias = Content | Fault | Delay | Stop | Truncate
_CONTENT: Final = (Say, Think, Call, Refuse, Pause, Block, Blank)
_FAULTS: Final = (Error, Raw, Failed, Cut)


def say(text: str) -> Say:
    """The model says `text`."""
    return Say(text)


def think(text: str, *, redacted: bool = False) -> Think:
    """The model thinks: a signed block (Anthropic), an encrypted reasoning item (Responses), nothing (Chat)."""
    return Think(text, redacted)


def call(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    /,
    *,
    id: str | None = None,
    raw: str | Absent | None = ABSENT,
    **named: Any,
) -> Call:
    """The model calls a tool. Arguments by name, or as one mapping when a name is `id` or `raw`.

    `id` replaces the id made from script, turn and index. `raw` is the argument string as sent by the OpenAI
    protocols, None for JSON null; Anthropic, which sends objects, parses it and falls back to `{}`.
    """
    return Call(name, {**(arguments or {}), **named}, id, raw)


def refuse(text: str = "I can't help with that.") -> Refuse:
    """The provider refuses: `stop_reason: refusal`, a refusal part, or `content_filter`. Not kept."""
    return Refuse(text)


def pause(name: str = "web_search", /, **input: Any) -> Pause:
    """Anthropic only: a server tool is at work and the turn is paused; the client sends it back as it is."""
    return Pause(name, input)


def block(content: Mapping[str, Any] | None = None, /, **more: Any) -> Block:
    """A content block or output item of any type, sent as it is; Chat puts it in the message under its type's name."""
    return Block({**(content or {}), **more})


def blank(form: BlankForm = "empty") -> Blank:
    """Nothing said: no content (`empty`), `null`, or one blank text block (`text`). Not kept."""
    return Blank(form)


def delay(seconds: float) -> Delay:
    """The reply takes this long; 0 or more seconds."""
    return Delay(seconds)


def stop(reason: str | None) -> Stop:
    """Gives the reply this stop reason; None sends none, as if the stream had been cut cleanly.

    For Responses a status, or the reason why it is incomplete: `stop("content_filter")`.
    """
    return Stop(reason)


def truncate() -> Truncate:
    """The reply ends for lack of tokens (`max_tokens`, `length`, `incomplete`), inside the call before it if any."""
    return Truncate()


def error(
    status: int,
    kind: str | None = None,
    message: str | None = None,
    *,
    retry_after: float | None = None,
    should_retry: bool | None = None,
    times: int | None = None,
) -> Error:
    """An HTTP error in the vendor's shape. `kind` is the vendor's error type or code, else taken from the status.

    `times`: how many attempts fail before the rest of the turn is given; by default one, or all when nothing follows.
    """
    return Error(status, kind, message, retry_after, should_retry, times)


def raw(body: str, *, status: int = 200, content_type: str = "text/html", times: int | None = None) -> Raw:
    """Any body at all: HTML from a proxy, `{}`, half a JSON document."""
    return Raw(body, status, content_type, times)


def failed(code: str = "server_error", message: str = "The model failed.", *, times: int | None = None) -> Failed:
    """A failure inside a 200: `status: failed` (Responses), an error object or stream event (the others)."""
    return Failed(code, message, times)


def cut(after_bytes: int = 40, *, clean: bool = False, times: int | None = None) -> Cut:
    """The connection drops after so many bytes of the body; `clean` ends a stream without an error instead."""
    return Cut(after_bytes, clean, times)


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply: its content, and the faults shown before it, attempt by attempt."""

    content: tuple[Content, ...] = ()
    faults: tuple[Fault, ...] = ()
    seconds: float = 0
    stop: str | Absent | None = ABSENT
    truncated: bool = False

    @property
    def kept(self) -> bool:
        """Whether a client sends this turn back in later transcripts."""
        if any(isinstance(part, Refuse) for part in self.content):
            return False
        spoken = any(isinstance(part, Call | Pause | Block) or _said(part) for part in self.content)
        return spoken or not self.content

    def fault(self, attempt: int) -> Fault | None:
        """The fault to show at this attempt (0 = first), or None when the reply is due."""
        for fault in self.faults:
            times = fault.times if fault.times is not None else 1
            if attempt < times:
                return fault
            attempt -= times
        return None if self.content or not self.faults else self.faults[-1]


def _said(part: Content) -> bool:
    return isinstance(part, Say) and bool(part.text.strip())


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A picture or PDF that a request carries. `name` is empty where the protocol has no place for one."""

    name: str
    media_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a request shows, for replies that are computed: `lambda seen: say(seen.observations[-1])`.

    `task` is the first user text; `observations` are the texts of all tool results in order, without the marks around
    them, `latest` those of the last message; `turn` counts the assistant's turns so far; `tools` are the names on offer
    now, none under `tool_choice: none`. `asked()` counts the different requests that came before at this place of the
    conversation: ask it when the reply before was one that clients don't send back. `body` is the request, to be read
    only: its messages stand in later ones too. `files` are the pictures and PDFs of the whole request, in order; text
    files are text.
    """

    model: str
    task: str
    turn: int
    observations: Sequence[str]
    latest: Sequence[str]
    tools: Sequence[str]
    body: Mapping[str, Any]
    asked: Callable[[], int]
    files: Sequence[SeenFile] = ()


Reply: TypeAlias = Turn | Part | str | Sequence[Part]
Compute: TypeAlias = Callable[[Seen], Reply]


def turn(reply: Reply) -> Turn:
    """A turn of any of the short forms: a text, one part, or a list of parts. Raises ScriptError."""
    if isinstance(reply, Turn):
        return reply
    parts = (say(reply),) if isinstance(reply, str) else tuple(reply) if isinstance(reply, list | tuple) else (reply,)
    for part in parts:
        if not isinstance(part, (*_CONTENT, *_FAULTS, Delay, Stop, Truncate)):
            raise ScriptError(f"{part!r} is no part of a turn; use say(), call(), think(), error(), ...")
    if not parts:
        raise ScriptError("a turn is empty; write blank() for a model that says nothing")
    stops = [part.reason for part in parts if isinstance(part, Stop)]
    return Turn(
        content=tuple(part for part in parts if isinstance(part, _CONTENT)),
        faults=tuple(part for part in parts if isinstance(part, _FAULTS)),
        seconds=sum(part.seconds for part in parts if isinstance(part, Delay)),
        stop=stops[-1] if stops else ABSENT,
        truncated=any(isinstance(part, Truncate) for part in parts),
    )


class Script:
    """The turns of one model. Immutable, so any number of conversations may run through it at once.

    `turns`: a list of replies, each a text, a part, a list of parts, or a function of `Seen`; or one function for
    every turn. `model`: the model name it answers to; None answers to any. `name` goes into the ids it issues.
    """

    def __init__(self, turns: Sequence[Reply | Compute] | Compute, *, model: str | None = None, name: str = "") -> None:
        self.model = model
        self.name = name or model or "script"
        self._compute = turns if callable(turns) else None
        self._turns: tuple[Turn | Compute, ...] = () if callable(turns) else tuple(_numbered(turns))
        self._places = _places(self._turns)

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns that are known beforehand."""
        return [each for each in self._turns if isinstance(each, Turn)]

    def waits(self, place: int) -> bool:
        """Whether requests with this many assistant turns can get different turns, so that they need telling apart."""
        return place < len(self._places) and len(self._places[place]) > 1

    def at(self, place: int, asked: int) -> tuple[int, Turn | Compute]:
        """The number and the turn for a request with `place` assistant turns, `asked` before. Raises ScriptError."""
        if self._compute is not None:
            return place, self._compute
        if place >= len(self._places):
            raise ScriptError(f"script {self.name!r} has no turn left: {place} were played, write another one")
        numbers = self._places[place]
        number = numbers[min(asked, len(numbers) - 1)]
        return number, self._turns[number]


def _numbered(turns: Sequence[Reply | Compute]) -> list[Turn | Compute]:
    made: list[Turn | Compute] = []
    for number, reply in enumerate(turns, 1):
        try:
            made.append(reply if callable(reply) else turn(reply))
        except ScriptError as wrong:
            raise ScriptError(f"turn {number}: {wrong}") from None
    return made


def _places(turns: Sequence[Turn | Compute]) -> list[range]:
    """Groups turns by the assistant turns a transcript shows when they are due: unkept ones share the next one's."""
    places, start = [], 0
    for number, each in enumerate(turns):
        if not isinstance(each, Turn) or each.kept:
            places.append(range(start, number + 1))
            start = number + 1
    return [*places, range(start, len(turns))] if start < len(turns) else places
