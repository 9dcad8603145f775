"""Messages that were taken before: at each turn a client sends its whole transcript again, and only the end is new.

A message is known again by its JSON: `true` is not `1` there, and the order of keys counts, as in a vendor's cache.
What was learnt of it by itself (its shape is right, whom it answers, its pictures, what it costs) stays with it and is
read; what spans messages is walked at every request. Known is only what stood in a request that was taken, so whatever
is refused is refused in the same words, however often it was sent and whatever was sent before.

So that not even the JSON of a long transcript is parsed at each turn, what is known is recognised in the bytes of the
body, as SDKs and perdure write them; from where it differs, or wholly where it is written otherwise, it is parsed.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, Generic, Self, TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from perdure.testing.media import Media, counted_as, media_in
from perdure.testing.prompt_cache import Block, block_of
from perdure.testing.wire import Asked, Misshape, told_in, validated

_MOST_BYTES: Final = 32_000_000  # of JSON, as the largest request
_OBJECTS: Final = 1_000  # bytes that the objects of a short message take, about
_HERE: Final = uuid.uuid4().hex.encode()  # no client knows it
MOST_MESSAGES: Final = 100_000  # Anthropic's limit: above it, what is wrong with a request is their number


class Message(dict[str, Any]):
    """A message, or item, as it was sent. Read-only: it stands in every request that sends it again."""

    key: bytes  # its JSON, and the comma behind
    taken = False
    after: Message | None = None  # what came behind it in the latest transcript that held it

    @classmethod
    def of(cls, sent: object) -> list[Self]:
        """A request's messages as these, all of them if not all are; none where the request has one text instead."""
        if not isinstance(sent, list):
            return []
        return sent if sent and isinstance(sent[0], cls) else [cls(each) for each in sent]

    @cached_property
    def media(self) -> tuple[Media, ...]:
        """The pictures and documents inside."""
        return tuple(media_in(self))

    @cached_property
    def told(self) -> tuple[str, ...]:
        """The observations that perdure's text mode tells in it as the user's words."""
        return tuple(told_in(self.get("content"))) if self.get("role") == "user" else ()

    @cached_property
    def block(self) -> Block:
        """The whole of it, as a prompt cache sees it."""
        return block_of(self, counted_as(self))


Kind = TypeVar("Kind", bound=Message)


class Known(Generic[Kind]):
    """The latest messages of requests that were taken, over all conversations in one protocol.

    They are kept in two halves: when the younger one is full it becomes the older one, and what nobody sent meanwhile
    is forgotten with the one before.
    """

    def __init__(self, kind: type[Kind], within: str, most_bytes: int = _MOST_BYTES) -> None:
        """`within`: the key of the messages in a body."""
        self.within = within
        self._kind = kind
        self._most = most_bytes // 2
        self._young: dict[bytes, Kind] = {}
        self._old: dict[bytes, Kind] = {}
        self._bytes = 0  # of the younger half
        self._first: dict[bytes, Kind] = {}  # what transcripts began with, by its own beginning

    def parsed(self, raw: bytes) -> Any:
        """A body, with each of its messages as one of these. Raises ValueError where it is no JSON."""
        body = self._parsed_behind(raw)
        body = from_json(raw, allow_inf_nan=False) if body is None else body
        if isinstance(body, dict) and isinstance(sent := body.get(self.within), list):
            body[self.within] = [self._one(each) if type(each) is dict else each for each in sent]
        return body

    def take(self, body: dict[str, Any]) -> None:
        """The request was taken."""
        messages = self._kind.of(body[self.within])
        if not messages:
            return
        for each, after in zip(messages, [*messages[1:], None], strict=True):
            each.after = after
            if each.key not in self._young:
                each.taken = True
                self._young[each.key] = each
                self._bytes += len(each.key) + _OBJECTS
        self._first[_beginning(messages[0].key, 0)] = messages[0]
        if self._bytes > self._most:
            self._young, self._old, self._first, self._bytes = {}, self._young, {}, 0

    def _one(self, sent: dict[str, Any]) -> Kind:
        key = to_json(sent) + b","
        found = self._young.get(key) or self._old.get(key)
        if found is None:
            found = self._kind(sent)
            found.key = key
        return found

    def _parsed_behind(self, raw: bytes) -> Any:
        """The same, if it goes on as a transcript did before: only what is new is parsed. None if it does not.

        What is known is cut out of the array and a word of ours put there, which shows that it was the right array.
        """
        opening = f'"{self.within}":['.encode()
        start = at = raw.find(opening) + len(opening)
        found: Message | None = self._first.get(_beginning(raw, at))
        known: list[Message] = []
        while found is not None and raw.startswith(found.key, at):
            known.append(found)
            at += len(found.key)
            found = found.after
        if not known:
            return None
        try:
            body = from_json(b'%b"%b",%b' % (raw[:start], _HERE, raw[at:]), allow_inf_nan=False)
        except ValueError:  # told by the whole body, whose places are the client's
            return None
        match body:
            case {self.within: [first, *new]} if first == _HERE.decode():
                return {**body, self.within: [*known, *new]}
        return None


def _beginning(raw: bytes, at: int) -> bytes:
    return raw[at : raw.find(b"}", at)]


def misshaped(shape: TypeAdapter[Any], body: dict[str, Any], noise: frozenset[str], within: str) -> Misshape | None:
    """As `validated`, but looks only at those of the messages (`within` the body) that were not taken before."""
    sent = body.get(within)
    if not isinstance(sent, list) or not 0 < len(sent) <= MOST_MESSAGES:
        return validated(shape, body, noise)
    places = [place for place, each in enumerate(sent) if not (isinstance(each, Message) and each.taken)]
    places = places or [len(sent) - 1]  # for no messages at all would be another shape
    wrong = validated(shape, {**body, within: [sent[place] for place in places]}, noise)
    if wrong is None:
        return None
    path, kind, message = wrong
    match path:
        case (first, int(number), *rest) if first == within:
            path = (within, places[number], *rest)
    return path, kind, message


def told_in_text(asked: Asked, messages: Sequence[Message]) -> Asked:
    """`asked`, with the observations that perdure's text mode tells as the user's words."""
    if asked.observations:
        return asked
    last = max((index for index, each in enumerate(messages) if each.get("role") == "assistant"), default=-1)
    told = [(index, text) for index, each in enumerate(messages) for text in each.told]
    latest = [text for index, text in told if index > last]
    return replace(asked, observations=[text for _, text in told], latest=latest)
