"""Which turn answers a request.

The rule: **the number of assistant turns in the transcript selects the turn.** So the same request gets the same
reply, however often it is sent, through whichever server process, and many conversations share one script.

Two things need a memory, which is kept per conversation (model, system text, first user message):

- A turn that clients don't send back (blank, refusal) leaves the count where it was. The same body again is a retry
  and gets the same turn; a different body at the same count gets the next one.
- `error(..., times=2)` counts attempts at its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

from perdure.testing.script import Compute, Fault, Script, ScriptError, Seen, Turn, turn
from perdure.testing.wire import Asked, RefusalError


class Prompter:
    """Holds the scripts by model name, and finds the turn that is due."""

    def __init__(self, scripts: Sequence[Script], *, strict_models: bool) -> None:
        self._by_model = {script.model: script for script in scripts}
        if len(self._by_model) < len(scripts):
            raise ScriptError("two scripts answer to the same model name; give each Script its own model=")
        self._strict_models = strict_models
        self._bodies: dict[tuple[str, int], list[str]] = {}
        self._attempts: Counter[tuple[str, str, int]] = Counter()

    def script(self, model: str) -> Script:
        """The script for a model name; the one without a name answers to all others. Raises RefusalError (404)."""
        found = self._by_model.get(model)
        if found is None and not self._strict_models:
            found = self._by_model.get(None) or (next(iter(self._by_model.values())) if self._sole else None)
        if found is None:
            raise RefusalError(f"model: {model}", status=404, kind="not_found_error", code="model_not_found")
        return found

    @property
    def _sole(self) -> bool:
        return len(self._by_model) == 1

    def due(self, asked: Asked, body: dict[str, Any], encoded: bytes) -> tuple[Script, int, Turn]:
        """The script, the turn's number and the turn. Raises RefusalError when the script has none."""
        script = self.script(asked.model)
        before = partial(self._asked_before, asked, encoded)
        try:
            number, found = script.at(asked.turns, before() if script.waits(asked.turns) else 0)
            if isinstance(found, Turn):
                return script, number, found
            return script, number, _computed(found, _seen(asked, body, before))
        except ScriptError as wrong:
            raise RefusalError(f"scripted model: {wrong}") from wrong

    def fault(self, asked: Asked, script: Script, number: int, due: Turn) -> Fault | None:
        """The fault this attempt meets, if any. Counts the attempt."""
        if not due.faults:
            return None
        place = (script.name, asked.conversation, number)
        self._attempts[place] += 1
        return due.fault(self._attempts[place] - 1)

    def _asked_before(self, asked: Asked, encoded: bytes) -> int:
        bodies = self._bodies.setdefault((asked.conversation, asked.turns), [])
        body = blake2b(encoded, digest_size=16).hexdigest()
        if body not in bodies:
            bodies.append(body)
        return bodies.index(body)


def _computed(compute: Compute, seen: Seen) -> Turn:
    """A bug in a script's function is told to its author, and not as a 500, which clients would retry for ever."""
    try:
        return turn(compute(seen))
    except ScriptError:
        raise
    except Exception as wrong:
        raise ScriptError(f"the function for turn {seen.turn + 1} raised {wrong!r}") from wrong


def _seen(asked: Asked, body: dict[str, Any], before: Callable[[], int]) -> Seen:
    return Seen(
        model=asked.model,
        task=asked.task,
        turn=asked.turns,
        observations=asked.observations,
        latest=asked.latest,
        tools=asked.tools,
        body=body,
        asked=before,
        files=asked.files,
    )
