"""How long a run has thought and acted. While anything of it waits for a person, or for another run, it does not run.

What another run took that worked for it is added when that has ended.
"""

from datetime import datetime


class Stopwatch:
    """Read it whenever what waits changes, with the workflow's own time."""

    def __init__(self, seconds: float, now: datetime, *, waiting: bool) -> None:
        self._seconds, self._at, self._waiting = seconds, now, waiting

    def read(self, now: datetime, *, waiting: bool) -> float:
        """The seconds so far. `waiting`: whether anything waits from now on."""
        if not self._waiting:
            self._seconds += (now - self._at).total_seconds()
        self._at, self._waiting = now, waiting
        return self._seconds

    def add(self, seconds: float) -> None:
        """Seconds that somebody else worked."""
        self._seconds += seconds
