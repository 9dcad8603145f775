"""Making a transcript small: what is given up first, what last, what never.

1. Every turn is retold without its reasoning: signatures and encrypted items are of use to the vendor alone, and only
   beside the latest turn, which is no part of what is compacted. Its calls get other ids: by one of its own a vendor
   could know the call again, and miss the thinking beside it.
2. Observations are cleared, oldest first. The call stays, with how much it brought, so that it can be made again.
3. Whole turns go, oldest first, a call never without its result; a note says how many and what was called in them.

The task is never touched, and neither are an operator's words: decisions of turns that go are kept in the note.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from perdure.core.contracts import AdmittedCall, RecordedTurn, Verdict
from perdure.core.digests import of_bytes
from perdure.core.files import described
from perdure.core.labels import TEXT_MODE
from perdure.core.messages import thoughts
from perdure.core.transcript import Assistant, Entry, Heard, Result, Retold, Task, stored

_WORTH_CLEARING = 300  # bytes of an observation; a note in its place takes about a third
_MOST_SAID = 20_000  # characters of operators' words that a note keeps, newest last
_MOST_NAMED = 40  # tools
_DICE: Final = 20  # characters of an id that is a vendor's own

Told = Retold | Heard


@dataclass(frozen=True)
class Compaction:
    """A compacted transcript, without the task: what is `kept`, and which whole turns are `gone`."""

    kept: tuple[Told, ...]
    gone: tuple[Told, ...] = ()

    def told(self, summary: str = "") -> tuple[Told, ...]:
        """What the model is told: a note on what is gone, with a summary if somebody wrote one, then what is kept."""
        return (_note(self.gone, summary), *self.kept) if self.gone else self.kept


def size_of(entries: Sequence[Entry]) -> int:
    """Bytes of the entries as JSON, retold, without the task."""
    return sum(_size(entry) for entry in _all_retold(entries))


def compacted(entries: Sequence[Entry], most: int) -> Compaction:
    """The entries in at most about `most` bytes of JSON, a note apart. The same entries give the same."""
    told = list(_all_retold(entries))
    sizes = [_size(entry) for entry in told]
    total = sum(sizes)
    for place, entry in enumerate(told):
        if total <= most:
            break
        told[place] = _cleared(entry)
        total -= sizes[place]
        sizes[place] = _size(told[place])
        total += sizes[place]
    seam = _seam(told, sizes, most)
    return Compaction(tuple(told[seam:]), tuple(told[:seam]))


def _all_retold(entries: Sequence[Entry]) -> Iterator[Told]:
    """The entries without the task, which every start repeats. What was retold before stays as it is."""
    fresh = False
    for entry in entries:
        match entry:
            case Assistant(turn):
                fresh = True
                yield retold(turn)
            case Retold():
                fresh = False
                yield entry
            case Heard():
                yield readdressed(entry) if fresh else entry
            case Task():
                pass


def readdressed(heard: Heard) -> Heard:
    """What was observed on the calls of a turn that is retold."""
    return replace(heard, results=tuple(replace(each, call_id=another_id(each.call_id)) for each in heard.results))


def another_id(call_id: str) -> str:
    """What stands for a call's id where its turn is retold. Short ids are no vendor's own: they stay."""
    return f"call_{of_bytes(call_id)[:_DICE]}" if len(call_id) >= _DICE else call_id


def retold(turn: RecordedTurn) -> Retold:
    """A turn in no vendor's form. A thought that text mode had written out is part of its words."""
    in_text = turn.protocol.startswith(TEXT_MODE) and bool(turn.calls)
    protocol = turn.protocol if in_text else turn.protocol.removeprefix(TEXT_MODE)
    kinds = ("text", "thinking") if in_text else ("text",)
    words = [part.text for part in thoughts(protocol, turn.message) if part.kind in kinds]
    return Retold("\n\n".join(words), tuple(_briefly(call) for call in turn.calls))


def _briefly(call: AdmittedCall) -> AdmittedCall:
    return AdmittedCall(
        index=call.index, id=another_id(call.id), name=call.name, verdict=Verdict.RUN, arguments=call.arguments
    )


def _cleared(entry: Told) -> Told:
    if isinstance(entry, Retold):
        return entry
    return replace(entry, results=tuple(_cleared_result(result) for result in entry.results))


def _cleared_result(result: Result) -> Result:
    size = len(result.text.encode())
    if result.said or (size <= _WORTH_CLEARING and not result.files):
        return result
    what = ", ".join((f"{size:,} bytes of text", *map(described, result.files))) if result.files else f"{size:,} bytes"
    text = f"[{what} were observed here, and cleared since to save room. Call again if they are needed.]"
    return replace(result, text=text, files=())


def _seam(told: Sequence[Told], sizes: Sequence[int], most: int) -> int:
    """Where what is kept begins: at a turn, so that all from there on fits."""
    total, seam = 0, len(told)
    for place in range(len(told) - 1, -1, -1):
        total += sizes[place]
        if total > most:
            return seam
        if isinstance(told[place], Retold) or place == 0:
            seam = place
    return seam


def _note(gone: Sequence[Told], summary: str) -> Heard:
    """What is to be known of turns that are not shown any more."""
    turns = [entry for entry in gone if isinstance(entry, Retold)]
    heard = [entry for entry in gone if isinstance(entry, Heard)]
    called = Counter(call.name for turn in turns for call in turn.calls)
    named = ", ".join(f"{name} ({count})" for name, count in called.most_common(_MOST_NAMED))
    said = "\n".join(f"- {each.name}: {each.text}" for entry in heard for each in entry.results if each.said)
    earlier = [note for entry in heard for note in entry.notes if note.startswith(_GONE)]
    lines = [
        *earlier,
        f"{_GONE} {len(turns)} earlier turns are not shown any more. Tools called in them: {named or 'none'}.",
        *([f"What operators, or the run itself, said of calls in them:\n{said[-_MOST_SAID:]}"] if said else []),
        *([f"A summary of them, which you wrote yourself:\n{summary[:_MOST_SAID]}"] if summary else []),
    ]
    return Heard(notes=("\n".join(lines)[-2 * _MOST_SAID :],))


def as_text(told: Sequence[Told], most: int) -> str:
    """Turns as a text to be summarised: at most `most` characters, the newest."""
    lines: list[str] = []
    for entry in told:
        if isinstance(entry, Retold):
            lines += [f"you: {entry.text}"] if entry.text else []
            lines += [f"you called {call.name}({call.arguments})" for call in entry.calls]
        else:
            lines += [f"{each.name} brought: {each.text}" for each in entry.results]
            lines += list(entry.notes)
    return "\n".join(lines)[-most:]


_GONE = "[To save room:]"


def _size(entry: Told) -> int:
    return len(json.dumps(stored([entry]), ensure_ascii=False).encode())
