"""A transcript for one of a run's models, when others took some of its turns: theirs are retold, without reasoning."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from perdure.core.compaction import retold
from perdure.core.contracts import Stop
from perdure.core.digests import of_bytes
from perdure.core.transcript import Assistant, Entry, Heard

_DICE: Final = 20  # characters of an id that is a vendor's own


def for_place(told: Sequence[Entry], place: int) -> Iterator[Entry]:
    """Entries for the model at `place`: another one's turn is retold, and what it had not ended is begun anew.

    Its calls get other ids. By one of its own a vendor could know the call again, and miss the thinking beside it.
    A turn and what was observed on its calls must be among the same entries.
    """
    foreign = False
    for entry in told:
        match entry:
            case Assistant(turn):
                foreign = turn.place != place
                if not foreign:
                    yield entry
                elif turn.stop is not Stop.PAUSED:
                    said = retold(turn)
                    calls = (call.model_copy(update={"id": another_id(call.id)}) for call in said.calls)
                    yield replace(said, calls=tuple(calls))
            case Heard(results) if foreign:
                heard = (replace(result, call_id=another_id(result.call_id)) for result in results)
                yield replace(entry, results=tuple(heard))
            case _:
                yield entry


def another_id(call_id: str) -> str:
    """What stands for a call's id where another model is shown it. Short ids are no vendor's own: they stay."""
    return f"call_{of_bytes(call_id)[:_DICE]}" if len(call_id) >= _DICE else call_id
