"""A line typed at the terminal, without blocking the loop: Ctrl-C, and a decision made elsewhere, must get through."""

import asyncio
import getpass
import os
import sys
import termios

from perdure.console.prompting import approval
from perdure.core.contracts import CHOICES, Choice, RequestKind


def at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


async def typed_line() -> str | None:
    """What is typed from now on, up to Enter; None at the input's end (Ctrl-D)."""
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()

    def take() -> None:
        if not typed.done():
            typed.set_result(os.read(fd, 4096))

    termios.tcflush(fd, termios.TCIFLUSH)  # what was typed before the question was shown answers nothing
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


def question(kind: RequestKind) -> str:
    if kind is RequestKind.APPROVAL:
        return "Approve? y, n, or why not:"
    return f"Which? {', '.join(choice.value for choice in CHOICES[kind])}:"


def understood(kind: RequestKind, line: str) -> tuple[Choice, str] | None:
    """The choice and its reason; None: ask again. What is no clear yes to an approval is a no, and its reason."""
    if kind is RequestKind.APPROVAL:
        choice, reason = approval(line)
    else:
        word, _, reason = line.partition(" ")
        choice = next((each for each in CHOICES[kind] if each.value == word), None)
    return (choice, reason.strip()) if choice else None
