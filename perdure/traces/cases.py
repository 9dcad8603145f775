"""A run as something to learn from: a case for the scripted model, or a conversation in the form models are trained on.

Both read the record as the model's own activity does (`perdure.core.transcript`). A case holds what the model said and
what people decided; what tools returned is not in it, since its tools run again. A conversation holds what the model
was sent, and no thoughts: the form has no place for them. Signatures and encrypted thoughts are in neither.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml

from perdure.core import transcript
from perdure.core.contracts import WORDED, AdmittedCall, CallModel, RecordedTurn, Stop
from perdure.core.files import heading
from perdure.core.messages import Part, thoughts
from perdure.core.transcript import Assistant, Entry, Heard, Record, Result, Retold, Task
from perdure.providers.openai_client import observed
from perdure.traces.events import Event, record
from perdure.traces.shape import Trace
from perdure.traces.turns import read, trace

_NOT_SHOWN: Final = "thinking that the provider does not show"
_WIDTH: Final = 118  # columns of a script's file


class NothingToLearnError(ValueError):
    """A run whose model never answered: there is nothing to learn from it."""


def case(events: Sequence[Event]) -> dict[str, Any]:
    """A run as a case: `model`, `name`, `task`, `decisions` and `turns`, as `perdure.testing.script_file` reads them.

    Played against the same agent, the same calls come out, with the same argument bytes.

    Raises:
        NothingToLearnError: its model never answered.
    """
    known = record(events)
    seen = trace(events)
    made: dict[str, Any] = {"model": seen.model, "name": seen.run_id, "task": seen.task}
    if decisions := list(_decisions(seen)):
        made["decisions"] = decisions
    return {**made, "turns": [_turn(turn) for _, turn in _answered(known)]}


def case_text(events: Sequence[Event]) -> str:
    """`case` as the text of a file. What cannot be seen is written out: nothing in it can act on a terminal."""
    return _dumped(case(events))


def _dumped(made: dict[str, Any]) -> str:
    plain: str = yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return plain if plain.replace("\n", "").isprintable() else yaml.safe_dump(made, sort_keys=False, width=_WIDTH)


def conversation(events: Sequence[Event]) -> dict[str, Any]:
    """`{"messages": [...], "tools": [...]}`, in the form of OpenAI's chat: system, user, assistant with calls, tool.

    Arguments are the bytes that were admitted, with every default filled in. The last message is the model's.

    Raises:
        NothingToLearnError: its model never answered.
    """
    known = record(events)
    answered = _answered(known)
    opening = next((turn.opening for _, turn in answered if turn.opening), None)
    if opening is None:
        raise NothingToLearnError("its record does not hold what its model was offered")
    messages = [{"role": "system", "content": opening.system}] if opening.system else []
    for place, (asked, _) in enumerate(answered):
        told = _told(known, asked) if place else _begun(known, asked)
        messages += [message for entry in told for message in _messages(entry)]
    messages += _messages(Assistant(answered[-1][1]))
    while messages and messages[-1]["role"] != "assistant":  # the last turn said nothing
        messages.pop()
    if not messages:
        raise NothingToLearnError("its model never said anything")
    shown = [
        {"name": each.name, "description": each.description, "parameters": each.parameters} for each in opening.tools
    ]
    return {"messages": messages, "tools": [{"type": "function", "function": each} for each in shown]}


def _begun(known: Record, asked: CallModel) -> Sequence[Entry]:
    """What the first question held; of a context, that from which the record itself begins."""
    return transcript.entries(known, asked) if known.carried else (Task(known.task, known.files), *_told(known, asked))


def _told(known: Record, asked: CallModel) -> Sequence[Entry]:
    """What a question added, whose context, if it begins a segment, is what stands before it here anyway."""
    return transcript.told(known, [ref for ref in asked.since if ref.kind != "context"])


def _before(asked: CallModel) -> str:
    """The question before, also across the seam of two segments."""
    return asked.previous or next((ref.id for ref in asked.since if ref.kind == "turn"), "")


def _answered(known: Record) -> list[tuple[CallModel, RecordedTurn]]:
    """The turns of the conversation, oldest first: the latest one that was answered, and all that led to it."""
    turns = {id: turn for id in known.asked if (turn := read(RecordedTurn, known.results.get(id)))}
    if not turns:
        raise NothingToLearnError("its model never answered")
    latest = max(turns, key=lambda id: known.asked[id].turn)
    found = [latest]
    while (previous := _before(known.asked[found[-1]])) in turns:
        found.append(previous)
    return [(known.asked[id], turns[id]) for id in reversed(found)]


# --- a case -----------------------------------------------------------------------------------------------------------


def _turn(turn: RecordedTurn) -> list[Any]:
    """A turn as the parts of a script."""
    parts = [_part(part) for part in thoughts(turn.protocol, turn.message)]
    match turn.stop:
        case Stop.BLANK:
            return [{"blank": "empty"}]
        case Stop.REFUSED:
            return [{"refuse": turn.answer or "(no words)"}]
        case Stop.CUT:
            return [*parts, {"truncate": None}]
        case Stop.PAUSED:
            return [*parts, {"stop": "pause_turn"}]
        case _:
            return parts


def _part(part: Part) -> Any:
    match part.kind:
        case "thinking":
            return {"think": part.text}
        case "redacted":
            return {"think": {"text": _NOT_SHOWN, "redacted": True}}
        case "call":
            return {"call": {"name": part.name, **_arguments(part.text)}}
        case "unknown":
            return {"block": json.loads(part.text)}
        case _:
            return {"say": part.text}


def _arguments(text: str) -> dict[str, Any]:
    """Arguments spelled out where writing them again gives the same JSON, else as the very text."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return {"raw": text}
    written = (json.dumps(given, ensure_ascii=False, separators=form) for form in ((", ", ": "), (",", ":")))
    return {"arguments": given} if isinstance(given, dict) and text in written else {"raw": text}


def _decisions(seen: Trace) -> Iterator[dict[str, Any]]:
    """What people decided on the calls, in the order in which they were asked."""
    for asked in sorted(seen.all_asked, key=lambda each: each.request.since):
        if ruling := asked.settled:
            wanted = asked.request
            words = ruling.result if ruling.choice in WORDED else ruling.reason
            place = {"kind": wanted.kind.value, "turn": wanted.turn, "call": wanted.call}
            yield {**place, "choice": ruling.choice.value, **({"words": words} if words else {})}


# --- a conversation ---------------------------------------------------------------------------------------------------


def _messages(entry: Entry) -> list[dict[str, Any]]:
    match entry:
        case Task(text, files):
            return [{"role": "user", "content": "\n".join((text, *map(heading, files)))}]
        case Assistant(turn):
            return _assistant(turn)
        case Retold(text, calls):
            return _retold(text, calls)
        case Heard(results, notes):
            told = [{"role": "user", "content": "\n\n".join(notes)}] if notes else []
            return [*map(_result, results), *told]


def _assistant(turn: RecordedTurn) -> list[dict[str, Any]]:
    """Words and calls; nothing where a turn holds neither."""
    said = "".join(part.text for part in thoughts(turn.protocol, turn.message) if part.kind in ("text", "refusal"))
    return _retold(said, turn.calls)


def _retold(text: str, calls: Sequence[AdmittedCall]) -> list[dict[str, Any]]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [_called(call) for call in calls]
    return [message] if text or calls else []


def _called(call: AdmittedCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _result(result: Result) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": result.call_id, "content": observed(result)}
