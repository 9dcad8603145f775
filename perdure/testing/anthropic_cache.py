"""Anthropic's prompt cache: where a request leaves entries, and where it looks for them.

Sources of the rules: the vendor's pages on prompt caching, and on tool use with it.

- The row is tools, then system, then messages. A change of `speed` is one of everything from the system text on; one of
  `tool_choice`, thinking or effort is one of all messages. Another model shares nothing.
- An entry is left at each breakpoint and nowhere else. A top-level `cache_control` is one at the last block that can
  carry it: thinking can't.
- From each breakpoint it is looked for entries at most 20 places backwards, itself included. Several calls in a row are
  one place, and so are several results in a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from perdure.testing.anthropic_grammar import blocks_of
from perdure.testing.media import counted_as
from perdure.testing.prompt_cache import Block, Prompt

_PLACES: Final = 20
_RUNS: Final = ("tool_use", "tool_result")
_NEVER_MARKED: Final = ("thinking", "redacted_thinking")


def prompt_of(body: dict[str, Any]) -> Prompt:
    """A checked request, as the cache sees it."""
    rows = list(_rows(body))
    blocks = [block for block, _ in rows]
    marks = {index for index, block in enumerate(blocks) if block.get("cache_control")}
    if body.get("cache_control"):
        marks |= {max(index for index, block in enumerate(blocks) if block.get("type") not in _NEVER_MARKED)}
    return Prompt(
        scope=body["model"],
        blocks=[Block(_bare(block), under, counted_as(_bare(block))) for block, under in rows],
        kept=marks,
        sought={place for mark in marks for place in _places(blocks, mark)},
    )


def _rows(body: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for tool in body.get("tools", ()):
        yield tool, "tool"
    system = body.get("system") or []
    speed = _set(body, "speed")
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield block, f"system {speed}"
    settings = _set(body, "speed", "tool_choice", "thinking", "output_config")
    for message in body["messages"]:
        for block in blocks_of(message):
            yield block, f"{message['role']} {settings}"


def _set(body: dict[str, Any], *names: str) -> str:
    defaults = {"tool_choice": {"type": "auto"}}
    return json.dumps([body.get(name, defaults.get(name)) for name in names], sort_keys=True)


def _bare(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _places(blocks: Sequence[dict[str, Any]], mark: int) -> Iterator[int]:
    """Where it is looked from this breakpoint, backwards."""
    places, behind = 0, None
    for index in range(mark, -1, -1):
        kind = blocks[index].get("type")
        places += not (kind == behind and kind in _RUNS)
        if places > _PLACES:
            return
        yield index
        behind = kind
