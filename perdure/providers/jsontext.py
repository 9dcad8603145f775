"""JSON in and out, the same bytes every time.

Recorded messages come back from history through a converter that sorts keys. A prompt must not differ by a byte from
the one that the provider has cached, so keys are sorted here too, always: cold and warm give the same.
"""

import json
import math
import re
from typing import Any, Final

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"
_DEEPEST: Final = 100  # levels; serialisers on a record's way to the history give up at about twice as many


def dumped(value: Any) -> bytes:
    """The value as canonical JSON: sorted keys, no spaces, valid UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", errors="replace")  # our own text may hold a lone surrogate, which no vendor takes


def loaded(body: bytes | str) -> Any:
    """The value of a JSON text. Lone surrogates and invalid UTF-8 become U+FFFD: recorded data must be valid UTF-8.

    Raises:
        ValueError: not JSON, as NaN and numbers that overflow are not, or nested too deeply to record.
    """
    text = body if isinstance(body, str) else body.decode("utf-8-sig", errors="replace")
    try:
        value = json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if r"\ud" in text.lower():  # maybe half a pair; a whole pair is one character by now
        value = json.loads(_LONE_SURROGATE.sub(_REPLACEMENT, json.dumps(value, ensure_ascii=False)))
    if _deeper_than(_DEEPEST, value):
        raise ValueError("nested too deeply")
    return value


def object_in(text: Any) -> dict[str, Any] | None:
    """The JSON object in a text; None if it holds none. Arguments may be sent back to a vendor in no other form."""
    try:
        value = loaded(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects in a list, in order; nothing if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: Any) -> str:
    """The value if it is a string, else nothing: servers that imitate a vendor leave out what they don't know."""
    return value if isinstance(value, str) else ""


def count_of(counts: Any, *path: str) -> int:
    """A token count somewhere in a usage object, or 0 where it is missing."""
    for key in path:
        counts = counts.get(key) if isinstance(counts, dict) else None
    return int(counts) if isinstance(counts, int | float) and counts > 0 else 0


def _deeper_than(levels: int, value: Any) -> bool:
    level = [value]
    for _ in range(levels):
        inside = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [child for children in inside for child in children]
    return any(isinstance(each, dict | list) for each in level)


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:40]} does not fit a float")
    return number
