"""Files in a message: under a line that names each, in the parts that a vendor has for them.

A text file is text, on every protocol, marked as data. What is a vendor's own is how a picture and a PDF are carried.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from perdure.core.contracts import FileRef
from perdure.core.files import as_text, heading, is_text, unshown

Part = dict[str, Any]
PDF: Final = "application/pdf"


def parts(files: Sequence[FileRef], text: Callable[[str], Part], media: Callable[[FileRef], Part]) -> Iterator[Part]:
    """The parts of a message that carry files.

    Args:
        text: makes a part of text.
        media: makes a part of a picture or a PDF.
    """
    for file in files:
        if not file.data:
            yield text(unshown(file))
        elif is_text(file):
            yield text(as_text(file))
        else:
            yield text(heading(file))
            yield media(file)


def data_url(file: FileRef) -> str:
    return f"data:{file.media_type};base64,{file.data}"
