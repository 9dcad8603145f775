r"""Values as models write them in a text, read exactly or not at all.

What is read is JSON, and what departs from it without becoming ambiguous: other quotes, line breaks inside of them,
Python's True, False and None, bare keys, a comma before a closing bracket. Everything is turned into JSON text piece by
piece, numbers and escapes as they stand, so that no digit and no character is lost on the way.
"""

import json
import re
from typing import Final

_DEEPEST: Final = 60  # levels
_QUOTES: Final = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\u201c": "\u201d",
    "\u2018": "\u2019",
    "\u201e": "\u201c\u201d",
    "\u00ab": "\u00bb",
}
OPENERS: Final = "".join(_QUOTES)
QUOTES: Final = "".join({*_QUOTES, *"".join(_QUOTES.values())})
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.+-])")
_WORD: Final = re.compile(r"(?:true|false|null|True|False|None)(?!\w)")
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_KEY: Final = re.compile(r"[A-Za-z_][\w.-]*(?=\s*:)")
_ESCAPE: Final = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})")
_SPACE: Final = re.compile(r"\s*")


class FormError(Exception):
    """A text that cannot be read exactly. The message says what is wrong, for the model."""


def skipped(text: str, at: int) -> int:
    """The next place that is not white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def shown(text: str, at: int) -> str:
    """What stands there, in short, for a message."""
    return repr(text[at : at + 30]) if at < len(text) else "the end of the message"


def value(text: str, at: int, depth: int = 0) -> tuple[str, int]:
    """The value that begins at `at`, as JSON text, and where it ends.

    Raises:
        FormError: nothing that can be read exactly begins there.
    """
    if depth > _DEEPEST:
        raise FormError(f"the arguments are nested more than {_DEEPEST} deep")
    opener = text[at : at + 1]
    if opener in _QUOTES:
        return quoted(text, at)
    return _container(text, at, depth) if opener in ("{", "[") else scalar(text, at)


def scalar(text: str, at: int) -> tuple[str, int]:
    """A number or a word of JSON's.

    Raises:
        FormError: neither begins there.
    """
    if found := _NUMBER.match(text, at) or _WORD.match(text, at):
        return _WORDS.get(found[0], found[0]), found.end()
    raise FormError(f"a value is expected where {shown(text, at)} stands; texts go between double quotes")


def quoted(text: str, at: int) -> tuple[str, int]:
    """The string that begins at `at`, as JSON text, and where it ends.

    Raises:
        FormError: it has no end, or an escape that means nothing.
    """
    opener = text[at]
    closers = _QUOTES[opener]
    if opener in "\"'" and text.startswith(opener * 3, at):
        closers = opener * 3
        ends = re.compile(re.escape(closers))
    else:
        ends = re.compile(f"[{re.escape(closers)}]")
    plain = re.compile(rf"[^\\{re.escape(closers)}]+")
    said, here = [], at + (3 if len(closers) == 3 else 1)
    while here < len(text):
        if run := plain.match(text, here):
            said.append(json.dumps(run[0], ensure_ascii=False)[1:-1])
            here = run.end()
        elif end := ends.match(text, here):
            return f'"{"".join(said)}"', end.end()
        elif text[here] == "\\":
            piece, here = _escape(text, here)
            said.append(piece)
        else:  # a quote inside of three
            said.append(json.dumps(text[here])[1:-1])
            here += 1
    raise FormError(f"the text that begins with {shown(text, at)} is never closed by {closers[0]}")


def _escape(text: str, at: int) -> tuple[str, int]:
    if found := _ESCAPE.match(text, at):
        return found[0], found.end()
    escaped = text[at + 1 : at + 2]
    if escaped and escaped in QUOTES:
        return json.dumps(escaped, ensure_ascii=False)[1:-1], at + 2
    raise FormError(f"{shown(text, at)}: a backslash in a text is written twice")


def _container(text: str, at: int, depth: int) -> tuple[str, int]:
    """An object or a list."""
    opener, closer = text[at], "}" if text[at] == "{" else "]"
    items: list[str] = []
    here = skipped(text, at + 1)
    while text[here : here + 1] != closer:
        key = ""
        if opener == "{":
            key, here = _key(text, here)
        item, here = value(text, here, depth + 1)
        items.append(key + item)
        here = skipped(text, here)
        if text[here : here + 1] == ",":
            here = skipped(text, here + 1)
        elif text[here : here + 1] != closer:
            raise FormError(f"a comma or {closer} is expected where {shown(text, here)} stands")
    return opener + ",".join(items) + closer, here + 1


def _key(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] in _QUOTES:
        key, here = quoted(text, at)
    elif found := _KEY.match(text, at):
        key, here = json.dumps(found[0], ensure_ascii=False), found.end()
    else:
        raise FormError(f"a name in double quotes is expected where {shown(text, at)} stands")
    here = skipped(text, here)
    if text[here : here + 1] != ":":
        raise FormError(f"a colon is expected where {shown(text, here)} stands")
    return key + ":", skipped(text, here + 1)
