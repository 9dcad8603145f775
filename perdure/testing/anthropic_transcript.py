"""Anthropic's messages, and what is learnt of each by itself: its blocks, whom it answers, how the cache sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from perdure.testing import known
from perdure.testing.media import counted_as
from perdure.testing.prompt_cache import Block, block_of
from perdure.testing.wire import observed


@dataclass(frozen=True, slots=True)
class Row:
    """A tool, or a block of the system text or of a message: its type, whether it is a breakpoint, what it costs."""

    kind: str | None
    mark: bool
    block: Block


def row_of(block: dict[str, Any]) -> Row:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    return Row(block.get("type"), bool(block.get("cache_control")), block_of(bare, counted_as(bare)))


class Message(known.Message):
    """A message whose shape is right."""

    @cached_property
    def blocks(self) -> list[dict[str, Any]]:
        content = self["content"]
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    @cached_property
    def calls(self) -> list[tuple[int, str]]:
        """Ids of the calls, each with its place among the blocks."""
        return [(number, block["id"]) for number, block in enumerate(self.blocks) if block["type"] == "tool_use"]

    @cached_property
    def results(self) -> list[tuple[int, str]]:
        """Ids of the calls that are answered, each with its place among the blocks."""
        return [(n, block["tool_use_id"]) for n, block in enumerate(self.blocks) if block["type"] == "tool_result"]

    @cached_property
    def answers(self) -> list[tuple[int, str]]:
        """The results as they usually come next: all of them, first, in the order of the calls."""
        return list(enumerate(call_id for _, call_id in self.calls))

    @cached_property
    def observations(self) -> list[str]:
        return [observed(block.get("content")) for block in self.of_kind("tool_result")]

    @cached_property
    def marks(self) -> Sequence[dict[str, Any]]:
        return [mark for mark in (block.get("cache_control") for block in self.blocks) if mark]

    @cached_property
    def rows(self) -> list[Row]:
        return [row_of(block) for block in self.blocks]

    def of_kind(self, *kinds: str) -> list[dict[str, Any]]:
        return [block for block in self.blocks if block["type"] in kinds]
