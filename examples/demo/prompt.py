"""A line typed at the terminal, without blocking the loop: Ctrl-C, and a decision made elsewhere, must get through."""

import asyncio
import getpass
import os
import sys
import termios


def at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def forget_typed() -> None:
    """Call before a question is shown: what was typed before answers nothing, what is typed from then on does."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def typed_line() -> str | None:
    """What is typed up to Enter; None at the input's end (Ctrl-D)."""
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()

    def take() -> None:
        if not typed.done():
            typed.set_result(os.read(fd, 4096))

    loop.add_reader(fd, take)
    try:
        line = await typed
    finally:
        loop.remove_reader(fd)
    return line.decode(errors="replace").strip() if line else None


def operator() -> str:
    """Who decides here: $PERDURE_OPERATOR or the login name, as for the operator's verbs."""
    try:
        return os.environ.get("PERDURE_OPERATOR") or getpass.getuser()
    except (KeyError, OSError):
        return "you"
