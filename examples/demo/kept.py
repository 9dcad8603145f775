"""What the demo keeps between two starts: a folder of its own, and in it one small file while a play is unfinished.

A finished play leaves no file, so the next start begins anew. The file is written before the run is started, under an
id chosen here: starting twice under one id starts once.
"""

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from perdure.temporal.embedded import state_folder


class DemoHeldError(Exception):
    """Another demo plays in this folder."""


class Play(BaseModel):
    """A play that is not finished. `model` is "scripted" or a real one's name; a run keeps the model it began with."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    model: str
    began: datetime
    killed: bool = False  # the worker was: once a play is enough
    worker: int = 0  # process id of the latest one


def new_play(model: str) -> Play:
    return Play(run_id=f"leave-{secrets.token_hex(3)}", model=model, began=datetime.now(UTC))


@dataclass(frozen=True)
class Folder:
    """Where everything of the demo lies. Its server is not the one of `perdure dev`: the demo meets nobody's runs."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "hr.sqlite"

    @property
    def worker_log(self) -> Path:
        return self.path / "worker.log"

    @property
    def _play(self) -> Path:
        return self.path / "play.json"

    def unfinished(self) -> Play | None:
        try:
            return Play.model_validate_json(self._play.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def keep(self, play: Play) -> Play:
        """At once or not at all: the demo may be killed here, too."""
        fresh = self._play.with_suffix(".new")
        fresh.write_text(play.model_dump_json(indent=2) + "\n", encoding="utf-8")
        fresh.replace(self._play)
        return play

    def finish(self) -> None:
        self._play.unlink(missing_ok=True)

    def clear(self) -> None:
        """For a new play: no bookings, no old log. The server's runs stay."""
        for name in ("hr.sqlite", "hr.sqlite-wal", "hr.sqlite-shm", "hr.sqlite-journal", "worker.log"):
            (self.path / name).unlink(missing_ok=True)

    def log_end(self) -> str:
        """The worker's last words."""
        return "\n".join(self.worker_log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])

    def bookings(self) -> list[str]:
        """What stands in the bookings table, a line each."""
        if not self.database.exists():
            return []
        with closing(sqlite3.connect(self.database)) as hr:
            rows = hr.execute("SELECT number, employee, first_day, last_day, days, key FROM bookings").fetchall()
        return [f"LV-{n}: {who}, {days} days, {first} to {last}; key {key}" for n, who, first, last, days, key in rows]


@contextmanager
def demo_folder() -> Iterator[Folder]:
    """The folder, for one demo at a time. Raises DemoHeldError when another holds it."""
    path = state_folder() / "demo"
    path.mkdir(mode=0o700, exist_ok=True)
    with (path / "demo.lock").open("a+") as lock:
        try:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoHeldError(
                f"another demo is playing in {str(path)!r}. End that, or give this one PERDURE_STATE=/another/folder"
            ) from None
        os.environ["PERDURE_STATE"] = str(path)  # for the worker, and for what finds the server again
        yield Folder(path)
