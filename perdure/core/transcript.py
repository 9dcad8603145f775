"""The transcript, rebuilt from a run's own record. Model, trace and exporter all read through here.

A model activity is sent references (`CallModel.since`), not content. Each names one recorded thing by activity id and
digest; `previous` names the model activity before, so the whole conversation is a linked list through the history, and
an event that the workflow had not seen yet is never part of it. The list ends at the run's first question, or at a
context: a transcript compacted before, on which the run went on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from perdure.core.contracts import (
    AdmittedCall,
    CallModel,
    Carried,
    Critique,
    FileRef,
    Observation,
    Opening,
    RecordedTurn,
    Ref,
)
from perdure.core.digests import beginning, of_bytes, of_transcript
from perdure.core.marking import marked

_CRITIC = (
    "A critic has read the work so far. It is a model as well, and it decides nothing: weigh what it says against the "
    "task and the observations. Its note:\n\n{}"
)


class RecordGapError(Exception):
    """The record does not hold what a reference names (yet): read more of the history, or give up."""


@dataclass(frozen=True)
class Task:
    """The user's task: the first message, with the files that it is about."""

    text: str
    files: tuple[FileRef, ...] = ()


@dataclass(frozen=True)
class Assistant:
    """A turn, to be sent back as it was received."""

    turn: RecordedTurn


@dataclass(frozen=True)
class Retold:
    """An earlier turn in no vendor's own form: what was said and asked for, without reasoning and signatures."""

    text: str = ""
    calls: tuple[AdmittedCall, ...] = ()


@dataclass(frozen=True)
class Result:
    """The observation on one call, for the provider's own form of a tool result.

    What a tool said is marked as data. What the run or an operator said is not: `said`.
    """

    call_id: str
    name: str
    text: str
    is_error: bool
    said: bool = False
    files: tuple[FileRef, ...] = ()


@dataclass(frozen=True)
class Heard:
    """What the model hears after a turn: results in call order, then notes, in one message where the vendor has one."""

    results: tuple[Result, ...] = ()
    notes: tuple[str, ...] = ()


Entry = Task | Assistant | Retold | Heard

_Retold, _Heard = TypeAdapter(Retold), TypeAdapter(Heard)


@dataclass(frozen=True)
class Record:
    """A run's decoded history as the transcript needs it: who was asked what, and what came back, by activity id."""

    task: str
    asked: Mapping[str, CallModel]
    results: Mapping[str, Any]  # decoded JSON
    carried: Carried | None = None  # what the segment started with
    files: tuple[FileRef, ...] = ()  # of the task

    def result(self, activity_id: str) -> Any:
        try:
            return self.results[activity_id]
        except KeyError:
            raise RecordGapError(f"no result of activity {activity_id!r} in the record") from None

    def context(self, ref: Ref) -> Carried:
        if ref.id:
            return Carried.model_validate(self.result(ref.id))
        if self.carried is None:
            raise RecordGapError("this segment was started with no context")
        return self.carried


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


def opening(record: Record, calls: Sequence[CallModel], asked_by: str) -> Opening | None:
    """The run's opening: that of the context, or in the run's first turn; None while that is only asked for.

    A context has none where the run went on in a new segment before its first turn.

    Args:
        asked_by: activity id of the chain's last call.
    """
    contexts = [ref for ref in calls[0].since if ref.kind == "context"]
    if contexts and (carried := record.context(contexts[0]).opening):
        return carried
    first = record.result(calls[1].previous) if len(calls) > 1 else record.results.get(asked_by)
    return RecordedTurn.model_validate(first).opening if first else None


def entries(record: Record, asked: CallModel) -> tuple[Entry, ...]:
    """What `asked` adds to the transcript."""
    begin: tuple[Entry, ...] = () if asked.previous else (Task(record.task, record.files),)
    return (*begin, *told(record, asked.since))


def told(record: Record, since: Sequence[Ref]) -> tuple[Entry, ...]:
    """The entries that references name."""
    turn: RecordedTurn | None = None
    heard = _Hearing()
    said: list[Entry] = []
    for ref in since:
        match ref.kind:
            case "context":
                said += restored(record.context(ref).entries)
            case "turn":
                turn = RecordedTurn.model_validate(record.result(ref.id))
                if turn.stop != "blank":
                    said.append(Assistant(turn))
            case "note":
                heard.notes.append(ref.text)
            case "critique":
                heard.notes.append(_CRITIC.format(Critique.model_validate(record.result(ref.id)).text))
            case "observation" | "advice" | "said":
                assert turn is not None, "a turn comes before what was observed on its calls"
                heard.results.append(_result(record, turn, ref))
    return (*said, *heard.entry())


@dataclass
class _Hearing:
    results: list[Result] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def entry(self) -> Iterator[Heard]:
        if self.results or self.notes:
            yield Heard(tuple(self.results), tuple(self.notes))


def _result(record: Record, turn: RecordedTurn, ref: Ref) -> Result:
    call = turn.calls[ref.call]
    match ref.kind:
        case "advice":
            return Result(call.id, call.name, call.reason, is_error=True)
        case "said":
            return Result(call.id, call.name, ref.text, is_error=not ref.ok, said=True)
        case _:
            seen = Observation.model_validate(record.result(ref.id))
            text, failed = marked(call.id, seen.text), seen.ending != "ok"
            return Result(call.id, call.name, text, is_error=failed, files=seen.files)


def stored(told: Sequence[Retold | Heard]) -> tuple[dict[str, Any], ...]:
    """Entries as JSON, for a `Carried`. What stands at its default is left out."""
    return tuple(_stored(each) for each in told)


def _stored(each: Retold | Heard) -> dict[str, Any]:
    form: TypeAdapter[Any] = _Heard if isinstance(each, Heard) else _Retold
    stored: dict[str, Any] = form.dump_python(each, mode="json", exclude_defaults=True)
    return stored


def restored(told: Sequence[dict[str, Any]]) -> tuple[Retold | Heard, ...]:
    return tuple(
        _Heard.validate_python(each) if each.keys() & {"results", "notes"} else _Retold.validate_python(each)
        for each in told
    )


def digest(record: Record, before: str, asked: CallModel) -> str:
    """The digest of the transcript `before` and what `asked` adds, as the record has it."""
    begun = beginning(record.task, (file.sha256 for file in record.files))
    return of_transcript(before, begun, [_recorded_digest(record, ref) for ref in asked.since])


def _recorded_digest(record: Record, ref: Ref) -> str:
    """The digest that stands in the record for `ref`; for the workflow's own words, that of the words."""
    match ref.kind:
        case "note" | "said":
            return of_bytes(ref.text)[:32]
        case "advice":
            return ref.digest  # part of the turn, whose own digest is chained
        case "context":
            return record.context(ref).digest
        case _:
            recorded: str = record.result(ref.id)["digest"]
            return recorded
