"""The helm: where operators speak to a run that did not ask them. One function behind an update and a signal.

Words are taken one after another, in the order of the history, each checked by an activity before it counts. What
changes nothing is answered without one, and what is too much is refused before it leaves anything: whoever can signal
can fill neither the run's state nor, beyond the signals themselves, its history.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.core.contracts import CheckSteering, Course, Ref, State, Steer, Steered, Steering
from perdure.core.course import MOST_UNHEARD, heard, steered
from workflows import calls
from workflows.gate import refusal

_MOST_WHY: Final = 300  # characters of the reason for a pause: it stands in every list
_MOST_AT_ONCE: Final = 20  # words being checked, or waiting for it
_MOST_A_TURN: Final = 100  # words that are checked before the model takes a turn, or a new segment begins


class Helm:
    """The course of a run. `ended`: nothing more is heard. `changed` is called when it is paused or resumed."""

    def __init__(
        self, course: Course, ended: Callable[[], bool], changed: Callable[[], None], number: Callable[[], int]
    ) -> None:
        self.course = course
        self.held = 0  # what would go on, were the run not paused
        self._ended, self._changed, self._number = ended, changed, number
        self._lock = asyncio.Lock()
        self._arrived = self._taken = 0
        self._checks = 0  # since the latest turn

    def into(self, state: State) -> State:
        """The state with the course as it is now."""
        return state.model_copy(update={"course": self.course}) if state.course != self.course else state

    async def resumed(self) -> None:
        """Return at once, or, while the run is paused, as soon as it is resumed."""
        if self.course.paused is None:
            return
        self.held += 1
        try:
            await workflow.wait_condition(lambda: self.course.paused is None)
        finally:
            self.held -= 1

    async def checked(self) -> None:
        """Wait until what has arrived by now was checked. Not for more: a flood must not keep a run waiting."""
        arrived = self._arrived
        if self._taken < arrived:
            await workflow.wait_condition(lambda: self._taken >= arrived)

    def heard(self, since: tuple[Ref, ...]) -> None:
        """The model has taken a turn on `since`."""
        self.course = heard(self.course, since)
        self._checks = 0

    def refuse_unfit(self, steering: Steering) -> None:
        """Raise what is wrong with a word, as far as the run itself can tell. Changes nothing.

        Raises:
            ApplicationError: of type TooLate, NothingSaid or TooMuch.
        """
        if self._arrived - self._taken >= _MOST_AT_ONCE:
            raise refusal("TooMuch", f"{_MOST_AT_ONCE} words are being checked already: try again in a moment")
        self._refuse_unfit(steering)

    def _refuse_unfit(self, steering: Steering) -> None:
        if self._ended():
            raise _too_late()
        if self._before(steering):
            return
        if self._checks >= _MOST_A_TURN and steering.steer is not Steer.RESUME:  # who paused it must not keep it so
            raise refusal("TooMuch", f"{_MOST_A_TURN} words have come since the latest turn: wait for the next")
        if steering.steer is not Steer.SAY:
            return
        if not steering.text.strip():
            raise refusal("NothingSaid", "there are no words in what is said")
        if len(self.course.unheard) >= MOST_UNHEARD:
            raise refusal("TooMuch", f"{MOST_UNHEARD} things are said already that the model has not heard yet: wait")

    async def steer(self, steering: Steering) -> Steered:
        """Take one operator's word."""
        self._arrived += 1
        try:
            async with self._lock:
                return await self._take(steering)
        finally:
            self._taken += 1

    async def _take(self, steering: Steering) -> Steered:
        self._refuse_unfit(steering)
        if before := self._before(steering):
            return before
        self._checks += 1
        checked = await calls.check_steering(CheckSteering(steering=steering), f"steer-{self._number()}")
        if not checked.accepted:
            raise refusal("NotAllowed", checked.why)
        if self._ended():  # meanwhile
            raise _too_late()
        by = Steered(
            id=steering.id,
            steer=steering.steer,
            by=steering.by,
            text=steering.text if steering.steer is Steer.SAY else steering.text[:_MOST_WHY],
            at=checked.decided,
            verified=checked.verified,
        )
        self.course = steered(self.course, by)
        if by.steer is not Steer.SAY:
            self._changed()
        return by

    def _before(self, steering: Steering) -> Steered | None:
        """What it was before, if this word changes nothing: it came already, or the run is so."""
        paused = self.course.paused
        if steering.steer is Steer.PAUSE and paused:
            return paused.model_copy(update={"again": True})
        if steering.id in self.course.known or (steering.steer is Steer.RESUME and not paused):
            word = steering.model_dump(include={"id", "steer", "by", "text"})
            return Steered(**word, at=workflow.now(), again=True)
        return None


def _too_late() -> ApplicationError:
    return refusal("TooLate", "the run has ended or is about to: nothing more is heard")
