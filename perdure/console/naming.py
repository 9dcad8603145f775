"""Ids as they are typed. An unset shell variable is an empty word, and must never name the one thing that waits."""

from collections.abc import Callable

import typer

_SHORTEST = 4  # characters: fewer, and a slip of the finger decides


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
