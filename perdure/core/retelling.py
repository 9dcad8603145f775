"""A transcript for one of a run's models, when others took some of its turns: theirs are retold, without reasoning."""

from collections.abc import Iterator, Sequence

from perdure.core.compaction import readdressed, retold
from perdure.core.contracts import Stop
from perdure.core.transcript import Assistant, Entry, Heard


def for_place(told: Sequence[Entry], place: int) -> Iterator[Entry]:
    """Entries for the model at `place`: another one's turn is retold, and what it had not ended is begun anew.

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
                    yield retold(turn)
            case Heard() if foreign:
                yield readdressed(entry)
            case _:
                yield entry
