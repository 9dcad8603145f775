"""What a vendor's prompt cache serves of a request, as the vendors document it, without a clock and without chance.

A prompt is a row of blocks, in the order in which the vendor reads them. A cache entry stands for the row up to one of
them: a digest, chained block by block, so that whatever changes also changes every entry behind it. Where a request
leaves entries, and where it looks for those of others, differs by vendor: `anthropic_cache.py`, `openai_cache.py`.

Two things are not as they are there. Nothing expires by time, so that the same requests always cost the same; what was
not used for longest is forgotten, when there is too much. And tokens are a fixed rule: four bytes of a block's JSON,
and for pictures and PDFs what `media.py` counts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from pydantic_core import to_json

MINIMUM: Final = 1_024  # tokens: OpenAI's, and Anthropic's for most models (of the others, 512 or 4,096)
_BYTES_A_TOKEN: Final = 4
_MOST_ENTRIES: Final = 50_000  # about 10 MB


@dataclass(frozen=True, slots=True)
class Block:
    """Something a model reads: a digest of its JSON, and the bytes that it counts for."""

    digest: bytes
    size: int


def block_of(content: object, size: int = 0) -> Block:
    """`size` is what it counts for in bytes, if that is not the length of its JSON: see perdure.testing.media."""
    encoded = to_json(content)
    return Block(blake2b(encoded, digest_size=16).digest(), size or len(encoded))


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as a cache sees it. `kept` and `sought` are places in `blocks`: entries left, and looked for.

    With each block stands what an entry depends on besides: role, settings.
    `scope` is what it shares no entry across, besides the API key. What is read comes in steps of `step` tokens.
    """

    scope: str
    blocks: Sequence[tuple[Block, str]]
    kept: Iterable[int]
    sought: Iterable[int]
    step: int = 1


@dataclass(frozen=True, slots=True)
class Used:
    """Input tokens: all of them, those read from the cache, those written to it."""

    total: int
    read: int = 0
    written: int = 0


class PromptCache:
    """The entries of one server, over all keys, scopes and protocols."""

    def __init__(self, most_entries: int = _MOST_ENTRIES) -> None:
        self._entries: OrderedDict[bytes, None] = OrderedDict()  # oldest use first
        self._most_entries = most_entries

    def __len__(self) -> int:
        return len(self._entries)

    def serve(self, key: str, prompt: Prompt) -> Used:
        """What this request costs, under this API key. Leaves its entries for those to come."""
        ends = _ends(key, prompt)
        found = [ends[index] for index in prompt.sought if ends[index][0] in self._entries]
        kept = [ends[index] for index in prompt.kept if ends[index][1] >= MINIMUM]
        read, longest = (max((tokens for _, tokens in those), default=0) for those in (found, kept))
        for digest, tokens in (*found, *kept):
            if tokens >= read:  # shorter ones were not needed
                self._use(digest)
        return Used(total=counted(prompt), read=read - read % prompt.step, written=max(0, longest - read))

    def _use(self, digest: bytes) -> None:
        self._entries[digest] = None
        self._entries.move_to_end(digest)
        if len(self._entries) > self._most_entries:
            self._entries.popitem(last=False)


def counted(prompt: Prompt) -> int:
    """The tokens of a whole prompt."""
    return sum(block.size for block, _ in prompt.blocks) // _BYTES_A_TOKEN


def _ends(key: str, prompt: Prompt) -> dict[int, tuple[bytes, int]]:
    """After each block that is kept or sought: the digest of the row so far, and its tokens."""
    row = blake2b(to_json([key, prompt.scope]), digest_size=16)
    ends: dict[int, tuple[bytes, int]] = {}
    start, size = 0, 0
    for place in sorted({*prompt.kept, *prompt.sought}):
        part = prompt.blocks[start : place + 1]
        row.update(b"".join([under.encode() + block.digest for block, under in part]))
        size += sum(block.size for block, _ in part)
        ends[place] = row.digest(), size // _BYTES_A_TOKEN
        start = place + 1
    return ends
