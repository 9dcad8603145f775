"""What a tool returns, as the text a model reads: stable, valid, never empty, bounded.

A text stays as it is; everything else becomes JSON. The same value gives the same text in every process: sets are
sorted, no memory address is shown. Nothing that people return makes this raise, nor does what they show of it.
"""

import base64
import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

MOST_BYTES: Final = 64_000  # UTF-8, as recorded
LEAST_LIMIT: Final = 500  # UTF-8 bytes: beside the note of what was left out, something is to be read
_NOTE = 200  # bytes that a note takes at most
_MOST_DRAWN = 10_000  # items taken from an iterator, which may never end
_DEEPEST = 60
_HEAD = 3 / 4  # of what is kept of a text too long
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # also lone surrogates
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def shown(result: Any, show: Callable[[Any], Any] | None) -> str:
    """The text of a tool's result, or of what its author shows of it; whole, of any length.

    The tool has acted when this is asked for: a projection that fails costs its brevity, never the result.
    """
    value, note = projected(result, show)
    return observe(value) + note


def projected(result: Any, show: Callable[[Any], Any] | None) -> tuple[Any, str]:
    """What a model is to see of a result, and a note if that is all of it in spite of the projection."""
    if show is None:
        return result, ""
    if isinstance(result, Iterator):
        result = _drawn(result)
    try:
        value = show(result)
    except BaseException as error:  # also SystemExit: it would end the tool, which is done
        return result, f"\n[... shown whole: the tool's projection raised {type(error).__name__} ...]"
    if value is None and result is not None:
        return result, "\n[... shown whole: the tool's projection returned nothing ...]"
    return value, ""


def observe(result: Any) -> str:
    """The text of a value, whole."""
    if result is None:
        return "Done. The tool returned nothing."
    try:
        plain = _plain(result, ())
    except RecursionError:
        plain = f"<{type(result).__name__}, nested too deep>"
    if isinstance(plain, str):
        return _said(visible(plain))
    text = json.dumps(plain, ensure_ascii=False)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _said(text: str) -> str:
    if text == "":
        return "Done. The tool returned an empty text."
    return text if text.strip() else f"Done. The tool returned {len(text)} characters of white space."


def visible(text: str) -> str:
    """The text with control characters and lone surrogates written out (\\x00, \\ud800); line ends and tabs stay."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def fits(text: str, most: int = MOST_BYTES) -> bool:
    return len(text) <= most and len(text.encode()) <= most


def bounded(text: str, most: int = MOST_BYTES, name: str = "") -> str:
    """The text in at most `most` UTF-8 bytes: head, a note of how much is left out, tail.

    Args:
        name: of the whole text, if it is kept; the note says how to read it.
    """
    if fits(text, most):
        return text
    raw = text.encode()
    room = most - _NOTE
    head = raw[: int(room * _HEAD)].decode(errors="ignore")
    tail = raw[len(raw) - (room - int(room * _HEAD)) :].decode(errors="ignore")
    left_out = len(raw) - len(head.encode()) - len(tail.encode())
    more = f"; {reading_on(name, len(head.encode()))}" if name else ""
    return f"{head}\n[... {left_out:,} of {len(raw):,} bytes left out here{more} ...]\n{tail}"


def reading_on(name: str, offset: int) -> str:
    """How a model reads on in a text that was cut; see perdure.tools.reading."""
    return f'to read on: read_more(observation="{name}", offset={offset})'


# --- any value to plain JSON ------------------------------------------------------------------------------------------


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    """`value` as JSON that json.dumps takes. `above` holds the containers around it: a cycle ends there."""
    if value is None or isinstance(value, str | bool):
        return str(value) if isinstance(value, str) and not isinstance(value, Enum) else _enum(value, above)
    if isinstance(value, Enum):
        return _enum(value, above)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value))
    if id(value) in above:
        return "<contains itself>"
    if len(above) > _DEEPEST:
        return "<nested too deep>"
    return _container(value, (*above, id(value)))


def _enum(value: Any, above: tuple[int, ...]) -> Any:
    return _plain(value.value, above) if isinstance(value, Enum) else value


def _number(value: int | float) -> Any:
    if isinstance(value, int):
        try:
            int(str(int(value)))
        except ValueError:  # Python writes no more than 4,300 digits
            return f"<a whole number of {value.bit_length():,} bits>"
        return int(value)
    if math.isfinite(value):
        return float(value)
    return "NaN (not a number)" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"


def _bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(value).decode()}"


def _container(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, BaseModel):
        return _of_model(value, above)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = [each.name for each in dataclasses.fields(value) if each.repr]
        return {name: _plain(getattr(value, name, None), above) for name in shown}
    if isinstance(value, tuple) and (names := getattr(value, "_fields", None)):
        return {str(name): _plain(part, above) for name, part in zip(names, value, strict=True)}
    if isinstance(value, Mapping):
        return _mapping(value, above)
    if isinstance(value, AbstractSet):
        return sorted((_plain(part, above) for part in value), key=_sort_key)
    if isinstance(value, Sequence):
        return [_plain(part, above) for part in value]
    if isinstance(value, Iterator):
        return [_plain(part, above) for part in _drawn(value)]
    return _leaf(value)


def _drawn(value: Iterator[Any]) -> list[Any]:
    drawn, end = list(islice(value, _MOST_DRAWN)), object()
    return [*drawn, "<and more>"] if next(value, end) is not end else drawn


def _of_model(value: BaseModel, above: tuple[int, ...]) -> Any:
    try:
        return _plain(value.model_dump(by_alias=True, warnings=False), above)
    except Exception:  # an author's serializer
        return {name: _plain(part, above) for name, part in value}


def _mapping(value: Mapping[Any, Any], above: tuple[int, ...]) -> Any:
    pairs = [(_plain(key, above), _plain(part, above)) for key, part in value.items()]
    keys = [key if isinstance(key, str) else json.dumps(key, ensure_ascii=False) for key, _ in pairs]
    if len(set(keys)) < len(keys):  # 1 and "1"
        return [list(pair) for pair in pairs]
    return dict(zip(keys, (part for _, part in pairs), strict=True))


def _sort_key(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)


def _leaf(value: Any) -> Any:
    """Dates, decimals, paths, ids: pydantic's JSON form. Anything else: its own words, or its type's name."""
    try:
        return to_jsonable_python(value, inf_nan_mode="strings")
    except Exception:
        return _described(value)


def _described(value: Any) -> str:
    kind = type(value)
    if isinstance(value, BaseException):
        return f"{kind.__name__}: {value}"
    if all(vars(object)[name] is getattr(kind, name) for name in ("__str__", "__repr__")):
        return f"<{kind.__name__}>"
    try:
        return _ADDRESS.sub("", str(value))
    except Exception:
        return f"<{kind.__name__}>"
