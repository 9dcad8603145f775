"""Figures in an answer that nothing observed supports.

A model's answer is a claim; its figures are what a person acts on. A figure (number, amount, date, reference) is
supported if it stands in an observation or in the task, in whatever notation: `1,250.00` is `1250`, `14 December` is
`2026-12-14`, `12 %` is `0.12`. Where a notation has two readings, either will do: this marks what is surely nowhere,
it does not prove that the rest is right. Numbering of lists and ordinals are no figures.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        ("jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august",
         "sep sept september", "oct october", "nov november", "dec december"), start=1)
    for name in names.split()
}  # fmt: skip
_MONTH: Final = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b"
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th)?"
_SCALE: Final = {"k": 3, "thousand": 3, "m": 6, "million": 6, "bn": 9, "billion": 9}

_DAYS: Final = rf"{_DAY}(?:\s*(?:-|\u2013|to|until|and)\s*{_DAY})?"
_NUMERAL: Final = r"\d[\d.,'\u00a0\u202f]*(?<![.,'])"

_FIGURES: Final = re.compile(
    rf"""(?P<iso>\d{{4}}-\d{{1,2}}-\d{{1,2}})
    | (?P<dmy>(?P<days>{_DAYS})\s+(?:of\s+)?(?P<dm>{_MONTH})(?:[.,]?\s+(?P<dy>\d{{4}}))?)
    | (?P<mdy>(?P<mm>{_MONTH})\.?\s+(?P<mdays>{_DAYS})(?!\d)(?:,?\s+(?P<my>\d{{4}}))?)
    | (?P<slashed>\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{4}})
    | (?P<clock>\b\d{{1,2}}:\d{{2}}(?::\d{{2}})?)
    | (?P<code>(?=[\w#-]*[A-Za-z#])(?=[\w#-]*\d)(?!\d+(?:st|nd|rd|th)\b)(?!\d+(?:k|m|bn)\b)[A-Za-z#\d][\w#-]*\w)
    | (?P<ordinal>\d+(?:st|nd|rd|th)\b)
    | (?P<number>{_NUMERAL}(?:\s?(?P<scale>k|m|bn|thousand|million|billion)\b)?(?:\s?(?P<percent>%))?)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NUMBERING: Final = re.compile(r"^[ \t]*(?:[#*-][ \t]*)?\d{1,3}[.)](?=\s)", re.MULTILINE)
_NUMBER: Final = re.compile(_NUMERAL)
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"(?P<key>\s*:)?')
_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")
_WORD: Final = re.compile(r"[\w#]+")
_WORDS: Final = re.compile(r"[\w#]+(?:[-:][\w#]+)+")

Reading = Decimal | str | tuple[int, int, int]  # a number, a reference or clock time, a date (0 where unsaid)


@dataclass(frozen=True)
class Figure:
    """A figure of an answer: `text` is `answer[start:end]`."""

    text: str
    start: int
    end: int


def unsupported_figures(answer: str, observations: Iterable[str]) -> tuple[Figure, ...]:
    """The figures of `answer` that stand in none of `observations` (give it the task among them), in order.

    Observations are read from the last, and only until every figure is found: a long run's cost little.
    """
    masked = _NUMBERING.sub(lambda found: " " * len(found.group()), answer)
    missing = [found for found in _FIGURES.finditer(masked) if not found["ordinal"]]
    known = _Known()
    for observation in reversed([*observations]):
        if not missing:
            break
        known.read(observation)
        missing = [found for found in missing if not any(known.supports(reading) for reading in _readings(found))]
    return tuple(Figure(found.group(), *found.span()) for found in missing)


def values_alone(answer: str) -> str:
    """A JSON text with blanks for its keys and its escapes, each thing in its place: keys are no claims."""
    return _STRING.sub(lambda found: " " * len(found.group()) if found["key"] else _unescaped(found.group()), answer)


def _unescaped(string: str) -> str:
    return _ESCAPE.sub(lambda found: " " * len(found.group()), string)


class _Known:
    """Every reading of every figure that was observed."""

    def __init__(self) -> None:
        self._readings: set[Decimal | str] = set()
        self._dates: set[tuple[int, int, int]] = set()
        self._words: set[str] = set()
        self._read: set[str] = set()

    def read(self, source: str) -> None:
        for pattern in (_WORDS, _WORD):
            self._words.update(word.casefold() for word in pattern.findall(source))
        for found in _FIGURES.finditer(source):
            if found.group() not in self._read:
                self._read.add(found.group())
                self._know(_readings(found))
        for number in {*_NUMBER.findall(source)} - self._read:  # also those inside dates and references
            self._read.add(number)
            self._readings.update(_values(number))

    def _know(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            if isinstance(reading, tuple):
                self._dates.add(reading)
            else:
                self._readings.add(reading)

    def supports(self, reading: Reading) -> bool:
        if isinstance(reading, tuple):
            return any(_same_day(reading, known) for known in self._dates)
        return reading in self._readings or reading in self._words


def _same_day(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or not one[0] or not other[0])


def _readings(found: re.Match[str]) -> Iterator[Reading]:
    """What a figure may mean; any one of them will do. A span of days means its last day, which ends the claim."""
    if found["iso"]:
        year, month, day = (int(part) for part in found["iso"].split("-"))
        yield (year, month, day)
    elif found["dmy"]:
        yield (int(found["dy"] or 0), _month(found["dm"]), _last_day(found["days"]))
    elif found["mdy"]:
        yield (int(found["my"] or 0), _month(found["mm"]), _last_day(found["mdays"]))
    elif found["slashed"]:
        first, second, year = (int(part) for part in re.split(r"[/.]", found["slashed"]))
        yield from ((year, second, first), (year, first, second))
    elif found["clock"] or found["code"]:
        word = (found["clock"] or found["code"]).casefold()
        yield word
        if counted := re.fullmatch(r"(\d+)-?[a-z]+", word):  # a 3-day leave, 5km
            yield _normal(Decimal(counted[1]))
    elif found["number"]:
        yield from _scaled(found)


def _month(name: str) -> int:
    return _MONTHS[name.casefold()]


def _last_day(days: str) -> int:
    return int(re.findall(r"\d+", days)[-1])


def _scaled(found: re.Match[str]) -> Iterator[Decimal]:
    number = _NUMBER.match(found["number"])
    assert number is not None, "a number begins with one"
    for value in _values(number.group()):
        scale = _SCALE.get((found["scale"] or "").casefold(), 0)
        yield _normal(value.scaleb(scale))
        if found["percent"]:
            yield _normal(value.scaleb(-2))


def _values(number: str) -> Iterator[Decimal]:
    """The values that a notation may stand for: thousands by comma, point, apostrophe or thin space; either decimal."""
    number = re.sub(r"['\u00a0\u202f]", "", number)
    for thousands, point in ((",", "."), (".", ",")):
        whole, _, fraction = number.replace(thousands, "").partition(point)
        grouped = re.fullmatch(rf"\d{{1,3}}(?:\{thousands}\d{{3}})+(?:\{point}\d+)?", number)
        if point not in fraction and (grouped or thousands not in number):
            yield _normal(Decimal(f"{whole}.{fraction or 0}"))
    if "," in number or number.count(".") > 1:  # a list without spaces: each member counts
        yield from (_normal(Decimal(part)) for part in re.split("[,.]", number) if part)


def _normal(value: Decimal) -> Decimal:
    return value.normalize()
