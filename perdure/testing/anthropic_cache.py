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

from perdure.testing.anthropic_transcript import Message, Row, row_of
from perdure.testing.prompt_cache import Prompt

_PLACES: Final = 20
_RUNS: Final = ("tool_use", "tool_result")
_NEVER_MARKED: Final = ("thinking", "redacted_thinking")


def prompt_of(body: dict[str, Any]) -> Prompt:
    """A checked request, as the cache sees it."""
    placed = list(_rows(body))
    rows = [row for row, _ in placed]
    marks = {index for index, row in enumerate(rows) if row.mark}
    if body.get("cache_control"):
        marks |= {next(index for index in reversed(range(len(rows))) if rows[index].kind not in _NEVER_MARKED)}
    return Prompt(
        scope=body["model"],
        blocks=[(row.block, under) for row, under in placed],
        kept=marks,
        sought={place for mark in marks for place in _places(rows, mark)},
    )


def _rows(body: dict[str, Any]) -> Iterator[tuple[Row, str]]:
    for tool in body.get("tools", ()):
        yield row_of(tool), "tool"
    system = body.get("system") or []
    speed = _set(body, "speed")
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield row_of(block), f"system {speed}"
    settings = _set(body, "speed", "tool_choice", "thinking", "output_config")
    for message in Message.of(body["messages"]):
        under = f"{message['role']} {settings}"
        for row in message.rows:
            yield row, under


def _set(body: dict[str, Any], *names: str) -> str:
    defaults = {"tool_choice": {"type": "auto"}}
    return json.dumps([body.get(name, defaults.get(name)) for name in names], sort_keys=True)


def _places(rows: Sequence[Row], mark: int) -> Iterator[int]:
    """Where it is looked from this breakpoint, backwards."""
    places, behind = 0, None
    for index in range(mark, -1, -1):
        kind = rows[index].kind
        places += not (kind == behind and kind in _RUNS)
        if places > _PLACES:
            return
        yield index
        behind = kind
