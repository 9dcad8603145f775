"""What a tool returned: the text of it that a model reads, and the files in it.

Files are those that are returned by themselves, or in a list or tuple beside texts and other values. Each stands in the
text by its name, type and size, where it was; a text file by its text. Deeper inside of other values a file is only
named, and its content goes nowhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perdure.core.files import heading, is_text
from perdure.files import File, FileError, checked
from perdure.tools.results import observe, projected


@dataclass(frozen=True)
class Returned:
    """`nothing`: it was None. `files`: pictures and PDFs, each one that models take."""

    text: str
    files: tuple[File, ...] = ()
    nothing: bool = False


def returned(result: Any, show: Callable[[Any], Any] | None) -> Returned:
    """A tool's result, or what its author shows of it. Never raises: the tool has acted."""
    value, note = projected(result, show)
    pieces = [value] if isinstance(value, File) else value
    if not isinstance(pieces, list | tuple) or not any(isinstance(each, File) for each in pieces):
        return Returned(observe(value) + note, nothing=result is None)
    told = [_told(each) if isinstance(each, File) else (observe(each), None) for each in pieces]
    files = tuple(file for _, file in told if file is not None)
    return Returned("\n".join(text for text, _ in told) + note, files)


def _told(file: File) -> tuple[str, File | None]:
    """The text that stands for a file, and the file, if a model can see it."""
    try:
        ref = checked(file)
    except FileError as error:
        return f"[file not shown: {error}]", None
    except Exception as error:  # what is in it was not even bytes
        return f"[file not shown: it cannot be read ({type(error).__name__})]", None
    if is_text(ref):
        return f"{heading(ref)}\n{file.content.decode('utf-8-sig')}", None
    return heading(ref), file
