"""The demo as a process of its own, on a pseudo-terminal or off, with all that it ever started kept in mind."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perdure import _home
from perdure.temporal.children import command_line

_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")
_NOWHERE = "127.0.0.1:9"
_PATIENCE = 90.0  # seconds, on a busy machine


@dataclass
class Playing:
    """A demo that runs. `shown` is what it has printed, without styles; `started` every process it was seen to have."""

    process: "subprocess.Popen[bytes]"
    terminal: int  # our end: of a pseudo-terminal, or of a pipe
    shown: str = ""
    started: set[int] = field(default_factory=set)

    def until(self, words: str) -> None:
        """Read on until `words` have been printed."""
        while words not in self.shown:
            assert self._read(), f"it ended without {words!r}:\n{self.shown}"

    def end(self) -> int:
        """Read to the end. Returns the exit code."""
        while self._read():
            pass
        return self.process.wait(_PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self.terminal], [], [], 0.1)
        self.started |= offspring(self.process.pid)
        if not ready:
            assert time.monotonic() < self._deadline, f"nothing more came:\n{self.shown}"
            return True
        chunk = b""
        with suppress(OSError):  # a pseudo-terminal whose other end is closed
            chunk = os.read(self.terminal, 65536)
        self._deadline = time.monotonic() + _PATIENCE
        self.shown += _STYLE.sub("", chunk.decode(errors="replace"))
        return bool(chunk)

    _deadline: float = field(default_factory=lambda: time.monotonic() + _PATIENCE)

    def type(self, line: str) -> None:
        os.write(self.terminal, f"{line}\n".encode())

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def hang_up(self) -> None:
        """Close the terminal, as one closes a window."""
        self.started |= offspring(self.process.pid)
        os.close(self.terminal)
        self.terminal = -1
        self.tell(signal.SIGHUP)
        self.process.wait(_PATIENCE)

    def left_behind(self) -> set[int]:
        """Processes of its own that live, after a moment for the kernel to end them."""
        limit = time.monotonic() + 20
        while (alive := {pid for pid in self.started if command_line(pid)}) and time.monotonic() < limit:
            time.sleep(0.1)
        return alive


def offspring(pid: int) -> set[int]:
    """Children and their children."""
    found: set[int] = set()
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, listed.read_text().split()):
                found |= {child} | offspring(child)
    return found


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def play(state: Path, tmp_path: Path) -> Iterator[Callable[..., Playing]]:
    """Starts the demo in a hostile place: a foreign Temporal, proxies that lead nowhere, no key."""
    hostile = {"TEMPORAL_ADDRESS": _NOWHERE, "TEMPORAL_NAMESPACE": "foreign", "HTTP_PROXY": f"http://{_NOWHERE}"}
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    environ = {**kept, **hostile, "PERDURE_STATE": str(state), "TERM": "xterm", "COLUMNS": "100"}
    started: list[Playing] = []

    def begin(*options: str, terminal: bool = False, **more: str) -> Playing:
        ours, theirs = pty.openpty() if terminal else os.pipe()
        process = subprocess.Popen(
            _home.command("examples.demo", *options),
            stdin=theirs if terminal else subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env=environ | more,
            cwd=tmp_path,
        )
        os.close(theirs)
        started.append(Playing(process, ours))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
        if each.terminal >= 0:
            os.close(each.terminal)


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the processes that a demo started are read from /proc")
