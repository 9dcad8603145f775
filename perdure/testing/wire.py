"""What the three protocols share: refusals, what a request asks, and the ids and seals the server issues.

The server remembers nothing about what it said. Whatever it must recognise later carries its own proof instead: a
thought's signature is a keyed digest of its text, and a call's id ends in a digest of the thoughts it was issued with.
So a transcript can be checked by any server process, also after a restart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from pydantic import TypeAdapter, ValidationError

from perdure.core.marking import unmarked
from perdure.testing.prompt_cache import Prompt, Used
from perdure.testing.script import Failed, Say, SeenFile, Turn

if TYPE_CHECKING:
    from perdure.testing.known import Known

_KEY: Final = b"perdure scripted model"
NO_MARK: Final = "0" * 8  # of what was issued alone
_TOLD: Final = re.compile(
    r"^Observation: (?:error: )?"
    r"(?:<data-(?P<tag>[0-9a-f]+)>\n(?P<marked>.*?)\n</data-(?P=tag)>$|(?P<bare>.*?)(?:\n\n|\Z))",
    re.DOTALL | re.MULTILINE,
)
_CALL_ID: Final = re.compile(r"(?:srvtoolu|toolu|call|fc|msg)_[0-9a-f]{16}([0-9a-f]{8})")


def digest(*facts: object, size: int = 16) -> str:
    """`size` hex digits standing for these JSON values; the same in every process."""
    encoded = json.dumps(facts, separators=(",", ":"), sort_keys=True).encode()
    return blake2b(encoded, key=_KEY, digest_size=32).hexdigest()[:size]


def issue_id(prefix: str, mark: str, *facts: object) -> str:
    """An id made of what it names, ending in the eight-digit `mark` of what must come with it."""
    return f"{prefix}_{digest(prefix, *facts)}{mark}"


def mark_of(id: object) -> str | None:
    """The mark inside an id of ours; None for the ids of others."""
    found = _CALL_ID.fullmatch(id) if isinstance(id, str) else None
    return found.group(1) if found else None


def seal(*facts: object) -> str:
    """Opaque data that `sealed` recognises without remembering it."""
    nonce = digest("nonce", *facts, size=40)
    return nonce + digest("seal", nonce, size=40)


def sealed(data: object) -> bool:
    return isinstance(data, str) and len(data) == 80 and data[40:] == digest("seal", data[:40], size=40)


class RefusalError(Exception):
    """The request is refused, as the vendor would. Becomes the vendor's error body."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str | None = None, param: str | None = None,
        code: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message, self.status, self.kind, self.param, self.code = message, status, kind, param, code


@dataclass(frozen=True, slots=True)
class Asked:
    """What a valid request shows, whatever its protocol.

    `turns` counts the assistant's turns; `conversation` is what stays the same through one conversation: the system
    text and the first user message.
    """

    model: str
    conversation: str
    task: str
    turns: int
    stream: bool
    tools: Sequence[str]
    observations: Sequence[str]
    latest: Sequence[str]
    files: Sequence[SeenFile] = ()


@dataclass(frozen=True, slots=True)
class Cue:
    """Where a reply stands: the script it comes from, its number there, and what the request cost."""

    script: str
    number: int
    model: str
    used: Used
    body: Mapping[str, Any] = field(default_factory=dict)


class Dialect(Protocol):
    """One wire protocol: its grammar, and how a turn looks in it."""

    name: str
    path: str

    @property
    def known(self) -> Known[Any]:
        """What it took before."""
        ...

    def admit(self, headers: Mapping[str, str]) -> str:
        """The key the request carries. Raises RefusalError."""
        ...

    def check(self, body: dict[str, Any], issued: set[str]) -> None:
        """Raises RefusalError where the vendor would answer 400. `issued`: digests of unknown blocks we sent."""
        ...

    def ask(self, body: dict[str, Any]) -> Asked:
        """Reads a checked request."""
        ...

    def prompt(self, body: dict[str, Any]) -> Prompt:
        """A checked request as the vendor's prompt cache sees it."""
        ...

    def render(self, turn: Turn, cue: Cue) -> dict[str, Any]:
        """The body of the reply."""
        ...

    def fail(self, failure: Failed, cue: Cue) -> dict[str, Any]:
        """The body of a failure that comes with status 200."""
        ...

    def stream(self, reply: dict[str, Any], cue: Cue) -> Iterator[tuple[str | None, object]]:
        """The same reply as server-sent events: (event name, data)."""
        ...

    def error(self, refusal: RefusalError) -> dict[str, Any]:
        """The vendor's error body."""
        ...


Misshape: TypeAlias = tuple[tuple[str | int, ...], str, str]


def validated(shape: TypeAdapter[Any], body: object, noise: frozenset[str]) -> Misshape | None:
    """The first place where `body` does not have this shape: path, pydantic's error type, message. None if it has.

    `noise`: union tags that pydantic puts into paths and vendors don't.
    """
    try:
        shape.validate_python(body)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
        untyped = first["type"] == "union_tag_not_found"  # pydantic names our function, the vendors the key
        message = "Unable to extract tag using discriminator 'type'" if untyped else first["msg"]
        return tuple(step for step in first["loc"] if step not in noise), first["type"], message
    return None


def stopped(turn: Turn, sequences: object) -> tuple[Turn, str | None]:
    """The turn as its vendor ends it at the first stop sequence in its text, and the sequence that was met."""
    wanted = [sequences] if isinstance(sequences, str) else sequences if isinstance(sequences, list) else []
    for place, part in enumerate(turn.content):
        met = {part.text.find(each): each for each in wanted if each in part.text} if isinstance(part, Say) else {}
        if met and isinstance(part, Say):
            said = (Say(part.text[: min(met)]),) if min(met) else ()
            return replace(turn, content=turn.content[:place] + said, truncated=False), met[min(met)]
    return turn, None


def told_in(content: object) -> Iterator[str]:
    """The observations that perdure's text mode tells in a user's message."""
    for found in _TOLD.finditer(text_of(content)):
        yield found["marked"] or found["bare"] or ""


def text_of(content: object) -> str:
    """The text in a message's content, whatever its form."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(part.get("text") or part.get("content")) for part in content if isinstance(part, dict))
    return ""


def task_of(content: object) -> str:
    """The first text of a user's message: what comes after it are files."""
    return next(iter(_texts(content)), "")


def observed(content: object) -> str:
    """The texts of a tool's result, without the marks around them."""
    return "\n".join(map(unmarked, _texts(content)))


def _texts(content: object) -> list[str]:
    if isinstance(content, list):
        return [text for part in content if (text := text_of([part]))]
    return [text_of(content)]


def tokens(text: object) -> int:
    """A deterministic estimate: four characters a token, at least one."""
    return max(1, len(text if isinstance(text, str) else json.dumps(text)) // 4)


def object_in(arguments: str) -> bool:
    """Whether an argument string is a JSON object."""
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False
