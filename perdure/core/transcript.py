"""The transcript, rebuilt from a run's own record. Model, trace and exporter all read through here.

A model activity is sent references (`CallModel.since`), not content. Each names one recorded thing by activity id and
digest; `previous` names the model activity before, so the whole conversation is a linked list through the history, and
an event that the workflow had not seen yet is never part of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.core.contracts import CallModel, Observation, Opening, RecordedTurn, Ref
from perdure.core.digests import of_bytes
from perdure.core.marking import marked


class RecordGapError(Exception):
    """The record does not hold what a reference names (yet): read more of the history, or give up."""


@dataclass(frozen=True)
class Task:
    """The user's task: the first message."""

    text: str


@dataclass(frozen=True)
class Assistant:
    """A turn, to be sent back as it was received."""

    turn: RecordedTurn


@dataclass(frozen=True)
class Result:
    """The observation on one call, for the provider's own form of a tool result. What a tool said is marked as data."""

    call_id: str
    name: str
    text: str
    is_error: bool


@dataclass(frozen=True)
class Heard:
    """What the model hears after a turn: results in call order, then notes, in one message where the vendor has one."""

    results: tuple[Result, ...] = ()
    notes: tuple[str, ...] = ()


Entry = Task | Assistant | Heard


@dataclass(frozen=True)
class Record:
    """A run's decoded history as the transcript needs it: who was asked what, and what came back, by activity id."""

    task: str
    asked: Mapping[str, CallModel]
    results: Mapping[str, Any]  # decoded JSON

    def result(self, activity_id: str) -> Any:
        try:
            return self.results[activity_id]
        except KeyError:
            raise RecordGapError(f"no result of activity {activity_id!r} in the record") from None


def chain(record: Record, asked: CallModel) -> list[CallModel]:
    """Every model call that led to `asked`, oldest first, itself last.

    Raises:
        RecordGapError: an earlier call is not in the record.
    """
    found = [asked]
    while found[-1].previous:
        earlier = record.asked.get(found[-1].previous)
        if earlier is None:
            raise RecordGapError(f"model activity {found[-1].previous!r} is not in the record")
        found.append(earlier)
    return found[::-1]


def opening(record: Record, calls: Sequence[CallModel]) -> Opening | None:
    """The run's opening, as it stands in the first turn of a chain; None while that is only asked for."""
    return RecordedTurn.model_validate(record.result(calls[1].previous)).opening if len(calls) > 1 else None


def entries(record: Record, asked: CallModel) -> tuple[Entry, ...]:
    """What `asked` adds to the transcript."""
    turn: RecordedTurn | None = None
    results: list[Result] = []
    notes: list[str] = []
    said: list[Entry] = [] if asked.previous else [Task(record.task)]
    for ref in asked.since:
        match ref.kind:
            case "turn":
                turn = RecordedTurn.model_validate(record.result(ref.id))
                if turn.stop != "blank":
                    said.append(Assistant(turn))
            case "note":
                notes.append(ref.text)
            case "observation" | "advice" | "said":
                assert turn is not None, "a turn comes before what was observed on its calls"
                results.append(_result(record, turn, ref))
    if results or notes:
        said.append(Heard(tuple(results), tuple(notes)))
    return tuple(said)


def _result(record: Record, turn: RecordedTurn, ref: Ref) -> Result:
    call = turn.calls[ref.call]
    match ref.kind:
        case "advice":
            return Result(call.id, call.name, call.reason, is_error=True)
        case "said":
            return Result(call.id, call.name, ref.text, is_error=not ref.ok)
        case _:
            seen = Observation.model_validate(record.result(ref.id))
            return Result(call.id, call.name, marked(call.id, seen.text), is_error=seen.ending != "ok")


def recorded_digest(record: Record, ref: Ref) -> str:
    """The digest that stands in the record for `ref`; for the workflow's own words, that of the words."""
    match ref.kind:
        case "note" | "said":
            return of_bytes(ref.text)[:32]
        case "advice":
            return ref.digest  # part of the turn, whose own digest is chained
        case _:
            digest: str = record.result(ref.id)["digest"]
            return digest
