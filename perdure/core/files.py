"""Files as models and people are told of them: by name, type and size. What they hold is read elsewhere.

A file's name is whatever a stranger called it, and so is its text: the one is shown inert, the other marked as data.
"""

import base64
from typing import Final

from perdure.core import inert
from perdure.core.contracts import FileRef
from perdure.core.marking import marked

_LONGEST_NAME: Final = 120  # characters


def described(file: FileRef) -> str:
    """`invoice.pdf (application/pdf, 48,213 bytes)`, on one line."""
    return f"{inert.line(file.name, _LONGEST_NAME)} ({inert.line(file.media_type, 60)}, {file.size:,} bytes)"


def is_text(file: FileRef) -> bool:
    return file.media_type.startswith("text/")


def heading(file: FileRef) -> str:
    """The line that stands before a file in a message."""
    return f"[file {described(file)}]"


def as_text(file: FileRef) -> str:
    """A text file as a model reads it: under its heading, marked as data. `file.data` must be there."""
    said = base64.b64decode(file.data).decode("utf-8-sig", errors="replace")
    return f"{heading(file)}\n{marked(file.sha256, said)}"


def unshown(file: FileRef) -> str:
    """What a model is told in place of a file that would not fit into a request any more."""
    return f"[file {described(file)} is not shown: with it, a request would hold more of files than models take]"


def listed(file: FileRef) -> str:
    """A file as a person is told of it, with the first digits of its digest."""
    return f"{described(file)} sha256 {inert.line(file.sha256[:12])}"
