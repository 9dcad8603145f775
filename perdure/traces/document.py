"""A trace as JSON for programs: documented, stable, versioned.

`{"format": "perdure.trace", "v": 1, ...}`. Fields are added, never renamed or removed, within a version. Times are ISO
8601 with offset (UTC); durations are seconds; `arguments` is the exact text that was approved and ran, `digest` its
SHA-256; `claims` is what the model said, true or not. Absent things are null or empty, never left out. Written with
`ensure_ascii`, so that nothing in it can act on a terminal.

The whole is what `perdure.traces.shape` documents, by the same names, with `took` (seconds from first scheduling to the
result), `waited` (seconds a request waited) and `settled` (the decision that settled it) worked out; and `answer`, the
run's answer: a JSON value where the agent declares its form, else text.
"""

import json
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from pydantic import BaseModel

from perdure.core.contracts import FileRef
from perdure.core.runs import RunRow
from perdure.traces.shape import Asked, Trace
from perdure.traces.stats import AgentStats

VERSION = 1


def document(trace: Trace) -> dict[str, Any]:
    """The whole trace as JSON values."""
    return {"format": "perdure.trace", "v": VERSION, **plain(trace), "answer": answer(trace)}


def answer(trace: Trace) -> Any:
    """The run's answer: text, or a JSON value where its agent declares a form; "" while there is none."""
    said = trace.outcome.answer if trace.outcome else ""
    return json.loads(said) if trace.structured else said


def row(found: RunRow) -> dict[str, Any]:
    """One run of a list: `run_id, agent, state, started, ended, requests, outcome, segment_id, paused, parent`.

    The outcome is without its answer: lists are not told that, `show` is.
    """
    values: dict[str, Any] = plain(found)
    if found.outcome:
        del values["outcome"]["answer"]
    return values


def request(trace: Trace, asked: Asked) -> dict[str, Any]:
    """One item of the inbox: the request, its run and goal, the exact call, and what the model claims."""
    return {
        "run_id": trace.run_id,
        "agent": trace.agent,
        "parent": trace.parent,
        "task": trace.task,
        "claims": plain(trace.claims(asked.request)),
        "call": plain(trace.call(asked.request)),
        **plain(asked),
    }


def stats(found: AgentStats) -> dict[str, Any]:
    """What an agent's runs took, as `perdure.traces.stats` documents it; money is text, exact."""
    return {"format": "perdure.stats", "v": VERSION, **plain(found)}


def dumps(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=True, indent=indent)


def plain(value: Any) -> Any:
    """Any value of a trace as JSON values."""
    if isinstance(value, BaseModel):
        left_out = _CONTENT if isinstance(value, FileRef) else ()
        return {name: plain(getattr(value, name)) for name in type(value).model_fields if name not in left_out}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _names(value)}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dict):
        left_out = _CONTENT if value.keys() >= _OF_FILE else ()
        return {str(key): plain(each) for key, each in value.items() if key not in left_out}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


_CONTENT = ("data",)  # of a file: named, never shown
_OF_FILE = {"media_type", "name", "sha256", "size"}


def _names(value: Any) -> list[str]:
    worked_out = [
        name
        for name in ("took", "waited", "settled", "attempts")
        if isinstance(getattr(type(value), name, None), property)
    ]
    return [*(field.name for field in fields(value)), *worked_out]
