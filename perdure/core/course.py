"""How operators steer a run that did not ask them: what they said, and whether it is paused. Pure, like the loop.

1. What is said is heard before the model's next turn, in the order it was said, each as a note with its speaker's name.
2. What was said before an answer was given is heard: the run then goes on after that answer, as if it had none. Only
   the last turn, without tools, ends the run in any case.
3. Paused, a run starts nothing: no turn, no call. What is under way ends, and is recorded.
"""

from collections.abc import Sequence
from typing import Final

from perdure.core.contracts import Course, Ref, Steer, Steered
from perdure.core.digests import of_bytes

MOST_UNHEARD: Final = 10  # they are part of the state, and then of one question to the model
_MOST_KNOWN: Final = 100  # ids: that many words may come a second time, and are known


def notes(course: Course) -> tuple[Ref, ...]:
    """What the model is to hear."""
    return tuple(_note(said) for said in course.unheard)


def _note(said: Steered) -> Ref:
    text = f"An operator ({said.by}) says: {said.text}"
    return Ref(kind="note", id=said.id, text=text, digest=of_bytes(text)[:32])


def heard(course: Course, since: Sequence[Ref]) -> Course:
    """The course after the model was asked with `since`."""
    told = {ref.id for ref in since if ref.kind == "note" and ref.id}
    return course.model_copy(update={"unheard": tuple(said for said in course.unheard if said.id not in told)})


def steered(course: Course, by: Steered) -> Course:
    """The course after an operator's word."""
    known = (*course.known, by.id)[-_MOST_KNOWN:]
    match by.steer:
        case Steer.SAY:
            return course.model_copy(update={"known": known, "unheard": (*course.unheard, by)})
        case Steer.PAUSE:
            return course.model_copy(update={"known": known, "paused": by})
        case Steer.RESUME:
            return course.model_copy(update={"known": known, "paused": None})
