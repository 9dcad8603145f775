"""Ids and times as they are typed. An unset shell variable is an empty word, and must never name what waits."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import typer

_SHORTEST = 4  # characters: fewer, and a slip of the finger decides
_UNITS: Final = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def given(word: str | None) -> str | None:
    """An id to look at: not empty.

    Raises:
        typer.BadParameter: it is.
    """
    if word is not None and not word.strip():
        raise typer.BadParameter(f"{word!r} is empty: was a shell variable not set? `perdure list` shows ids")
    return word


def deciding(word: str) -> str:
    """The id of a request to decide on: at least four characters of it.

    Raises:
        typer.BadParameter: it is shorter.
    """
    given(word)
    if len(word.strip()) < _SHORTEST:
        raise typer.BadParameter(
            f"{word!r} is too short to decide on: give {_SHORTEST} or more characters of the id; see `perdure inbox`"
        )
    return word


def since(word: str | None) -> datetime | None:
    """A moment in the past: `90min`, `12h`, `7d`, `2w` ago, or a date or time as ISO 8601 (in this machine's zone).

    Raises:
        typer.BadParameter: it is neither.
    """
    if word is None:
        return None
    try:
        if ago := re.fullmatch(r"(\d+)(min|h|d|w)", word.strip()):
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(word.strip()).astimezone()
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{word!r} is no time: give 90min, 12h, 7d, 2w, or a date like 2026-11-01") from None


def at_most(characters: int) -> Callable[[str], str]:
    """A check of what an operator says: it is recorded, so it is bounded."""

    def check(text: str) -> str:
        if len(text) > characters:
            raise typer.BadParameter(
                f"it has {len(text):,} characters, and at most {characters:,} are recorded: give the gist, and where "
                "the rest can be found"
            )
        return text

    return check
