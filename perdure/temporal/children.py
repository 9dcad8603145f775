"""Child processes that end with their parent, and what else one needs to start a server beside oneself.

On Linux the kernel ends the child when its parent dies, however it dies (PR_SET_PDEATHSIG). The signal belongs to the
*thread* that started the child, so only the main thread may start one. Elsewhere a killed parent leaves its child
behind; it is then found again through the state folder.
"""

import asyncio
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

_PR_SET_PDEATHSIG = 1

# Runs between fork and the program proper, as a program of its own: code in a forked copy of a threaded interpreter
# (subprocess's preexec_fn) may deadlock. SIGKILL, because nothing is left that could insist; SQLite survives it.
_LAUNCHER = f"""
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):  # died before it could be asked for
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def spawn(command: Sequence[str], *, log: Path) -> "subprocess.Popen[bytes]":
    """Starts `command` (an absolute path first) in a session of its own, so that Ctrl-C reaches only our code.

    Output goes to the end of `log`. Raises RuntimeError outside the main thread, OSError when it cannot be started.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("start it from the main thread: a child ends with the thread that started it")
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command]
    with log.open("ab") as out:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )


def end(child: "subprocess.Popen[bytes]", *, grace: float) -> None:
    """Asks, waits `grace` seconds, then insists. Returns when the process is gone; blocks until then."""
    child.terminate()
    try:
        child.wait(grace)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def command_line(pid: int) -> str | None:
    """The arguments of a living process, joined by spaces; None when there is no such process (or only its corpse)."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip() or None
    except OSError:
        if Path("/proc/self").exists():
            return None
    told = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return told.stdout.strip() or None


def free_ports(preferred: Sequence[int]) -> list[int]:
    """As many ports of 127.0.0.1 as are asked for, all free a moment ago; 0, or one in use, becomes another one."""
    with ExitStack() as held:
        return [_hold(port, held) for port in preferred]


def _hold(port: int, held: ExitStack) -> int:
    taken = held.enter_context(socket.socket())
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ports of a server just stopped are free for the next
    try:
        taken.bind(("127.0.0.1", port))
    except OSError:
        taken.bind(("127.0.0.1", 0))
    chosen: int = taken.getsockname()[1]
    return chosen


@asynccontextmanager
async def sole_starter(folder: Path, *, within: float) -> AsyncIterator[None]:
    """One process at a time, among all that start something in `folder`. Raises TimeoutError after `within` seconds."""
    limit = time.monotonic() + within
    with (folder / "starting.lock").open("w") as lock:
        while not _locked(lock.fileno()):
            if time.monotonic() > limit:
                raise TimeoutError(f"another process has been starting a server in {str(folder)!r} for {within:.0f} s")
            await asyncio.sleep(0.05)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
