"""OpenAI's prompt cache: where a request leaves entries, and where it looks for them.

Sources of the rules: the vendor's guide on prompt caching, and its API's own description of `prompt_cache_options`.

- Tools, the answer's schema and the instructions come before the messages. `tool_choice` is no part of it. Requests
  with different `prompt_cache_key` share nothing.
- From GPT-5.6 on, an entry is left at the end of the latest message of a user or a tool, and looked for at the ends of
  the latest 80 of these; what is written is reported. (Breakpoints of one's own are not in the grammar here.)
- Before, any beginning that an earlier request had is read, in steps of 128 tokens, and nothing is said of writing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from perdure.testing.known import Message
from perdure.testing.prompt_cache import Prompt, block_of
from perdure.testing.wire import Cue

_NUMBERED: Final = re.compile(r"gpt-(\d+)(?:\.(\d+))?\b")
_WITH_BREAKPOINTS: Final = (5, 6)
_LATEST: Final = 80
_STEP: Final = 128


def prompt_of(
    body: dict[str, Any], *, first: Iterable[object], messages: Sequence[Message], heard: Sequence[int]
) -> Prompt:
    """A checked request, as the cache sees it.

    Args:
        body: the request.
        first: what the model reads before the messages.
        messages: messages, or input items.
        heard: which of them, by number, are a user's or a tool's.
    """
    before = [(block_of(each), "first") for each in first if each]
    blocks = [*before, *((each.block, "message") for each in messages)]
    scope = f"{body['model']} {body.get('prompt_cache_key')}"
    if not _has_breakpoints(body["model"]):
        everywhere = range(len(blocks))
        return Prompt(scope, blocks, kept=everywhere, sought=everywhere, step=_STEP)
    ends = [len(before) + index for index in heard]
    return Prompt(scope, blocks, kept=ends[-1:], sought=ends[-_LATEST:])


def written_tokens(cue: Cue) -> int:
    """What usage reports as written: before GPT-5.6, nothing."""
    return cue.used.written if _has_breakpoints(cue.model) else 0


def _has_breakpoints(model: str) -> bool:
    found = _NUMBERED.match(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _WITH_BREAKPOINTS
