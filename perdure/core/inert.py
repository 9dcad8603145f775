"""Untrusted text made inert and visible: what an operator reads is all that is there, and nothing else happens.

Task, arguments, observations, thoughts, names, reasons, errors and ids come from models, tools and strangers. Shown
raw they could erase a line, hide a payload behind padding, or turn its order around. One mapping for every view:

- what cannot be seen is named: a control as `\\x1b`, anything else as `<U+202E>`;
- padding is counted: `<5,000 spaces>`, `<300 blank lines>`, `<2,000 times '='>`;
- text that looks like such a name has its `<` named instead, so that it cannot pass for one of ours;
- what is left out is counted: `<1,200 more characters>`. Whoever sets a limit says how to see the rest.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

# Printable for Python, and yet nothing to see: fillers, joiners, selectors, the empty Braille cell.
_BLANK_LETTERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_WIDE_SPACE: Final = "\u3000"  # the ordinary space of Chinese and Japanese text, as wide as a letter
_EMOJI_SELECTOR: Final = "\ufe0f"  # ordinary right after a symbol; elsewhere a place to hide data in
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPACES: Final = 24  # more in a row are padding
_BREAKS: Final = 4
_REPEATS: Final = 200
_MARKS: Final = 3  # accents on one letter that a script may need; more bury the lines around them

_TOKENS: Final = re.compile(
    rf"""(?P<blank>[ \n]{{2,}})
    | (?P<repeat>(?P<unit>[^ \n])(?P=unit){{{_REPEATS},}})
    | (?P<ours><(?=U\+|[\d,]+[ ](?:spaces|blank|times|more)))
    | (?P<one>.)""",
    re.DOTALL | re.VERBOSE,
)
# What can only be judged token by token; most text holds none of it, and is long.
_SUSPECT: Final = re.compile(
    rf" {{{_SPACES},}}|[ \n]{{48,}}|(?:\n *){{{_BREAKS},}}|([^ \n])\1{{{_REPEATS},}}|<(?=U\+|[\d,]+ [sbtm])", re.DOTALL
)


def line(text: str, limit: int | None = None) -> str:
    """`text` on one line, line breaks as `\\n`. With `limit`, about so many characters and a count of the rest."""
    return _shown(text, limit, kept="")


def block(text: str, limit: int | None = None) -> str:
    """`text` with its line breaks (CR LF is one) and with tabs as four spaces; all else as in `line`."""
    return _shown(text.replace("\r\n", "\n").replace("\t", "    "), limit, kept="\n")


def _shown(text: str, limit: int | None, kept: str) -> str:
    if text.isascii() and (limit is None or len(text) <= limit) and _plain(text, kept):
        return text
    shown: list[str] = []
    length = 0
    for piece, start in _pieces(text, kept):
        length += len(piece)
        if limit is not None and length > limit and start:
            shown.append(f" <{len(text) - start:,} more characters>")
            break
        shown.append(piece)
    return "".join(shown)


def _plain(text: str, kept: str) -> bool:
    """Whether nothing in this ASCII text needs a second look."""
    return (text.replace(kept, "") if kept else text).isprintable() and not _SUSPECT.search(text)


def _pieces(text: str, kept: str) -> Iterator[tuple[str, int]]:
    """What to show, piece by piece, each with the place in `text` where it begins."""
    marks = 0
    for found in _TOKENS.finditer(text):
        token, start = found.group(), found.start()
        if found["blank"]:
            yield _blank(token, kept), start
        elif found["repeat"]:
            yield f"<{len(token):,} times {_named(found['unit'], kept)!r}>", start
        elif found["ours"]:
            yield "<U+003C>", start
        else:
            marks = marks + 1 if unicodedata.combining(token) else 0
            buried = marks > _MARKS or (marks and start == 0)
            selected = token == _EMOJI_SELECTOR and start and unicodedata.category(text[start - 1]) == "So"
            yield _name(token) if buried else token if selected else _named(token, kept), start


def _blank(run: str, kept: str) -> str:
    breaks = run.count("\n")
    if not breaks:
        return run if len(run) <= _SPACES else f"<{len(run):,} spaces>"
    if breaks == len(run) > _BREAKS:
        return f"\n<{breaks - 1:,} blank lines>\n" if kept else f"<{breaks:,} times '\\n'>"
    if breaks > _BREAKS or len(run) - breaks > 4 * _SPACES:
        return f"{kept}<{len(run):,} blank characters>{kept}"
    last = run.rpartition("\n")[2]
    shown = run[: len(run) - len(last)] + (last if len(last) <= 2 * _SPACES else f"<{len(last):,} spaces>")
    return shown if kept else shown.replace("\n", "\\n")


def _named(char: str, kept: str) -> str:
    """`char` if it can be seen as what it is, else its name."""
    if char in (kept, _WIDE_SPACE):
        return char
    hidden = not char.isprintable() or char in _BLANK_LETTERS or unicodedata.name(char, "").startswith("VARIATION")
    return _name(char) if hidden else char


def _name(char: str) -> str:
    code = ord(char)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return _SHORT.get(char, f"\\x{code:02x}")
    return f"<U+{code:04X}>"
