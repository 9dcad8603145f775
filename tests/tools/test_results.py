"""Results of any kind become stable, valid, bounded text that can't be misread."""

import enum
import ipaddress
import json
import os
import subprocess
import sys
import uuid
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, field_serializer

from perdure.tools.results import LEAST_LIMIT, MOST_BYTES, bounded, observe, shown

Point = namedtuple("Point", "x y")


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Order(BaseModel):
    id: str
    total: Decimal
    tags: set[str] = set()
    key: SecretStr = SecretStr("SENTINEL")


class Odd(BaseModel):
    value: int

    @field_serializer("value")
    def fails(self, value: int) -> int:
        raise RuntimeError("no")


@dataclass
class Person:
    name: str
    password: str = field(default="SENTINEL", repr=False)


class Opaque:
    pass


class Told:
    def __str__(self) -> str:
        return "in its own words"


class Broken:
    def __str__(self) -> str:
        raise RuntimeError


CYCLE: list[Any] = [1]
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n\tyes", "as it is\n\tyes"),
        ("\x00abc", "\\x00abc"),
        ("\ud800x", "\\ud800x"),
        ("", "Done. The tool returned an empty text."),
        ("     ", "Done. The tool returned 5 characters of white space."),
        (None, "Done. The tool returned nothing."),
        (b"", "Done. The tool returned an empty text."),
        (set(), "[]"),
        ((), "[]"),
        ((n for n in ()), "[]"),
        (False, "false"),
        ([], "[]"),
        ({}, "{}"),
        (True, "true"),
        (0, "0"),
        (10**30, "1" + "0" * 30),
        (1.5, "1.5"),
        (float("nan"), "NaN (not a number)"),
        ({"x": float("inf"), "y": float("-inf")}, '{"x": "Infinity", "y": "-Infinity"}'),
        (Decimal("12.50"), "12.50"),
        ({"total": Decimal("12.50")}, '{"total": "12.50"}'),
        (Decimal("NaN"), "NaN"),
        (date(2026, 12, 14), "2026-12-14"),
        (datetime(2026, 12, 14, 9, tzinfo=UTC), "2026-12-14T09:00:00Z"),
        (datetime(2026, 12, 14, 9, tzinfo=timezone(timedelta(hours=9))), "2026-12-14T09:00:00+09:00"),
        (time(9, 30), "09:30:00"),
        (timedelta(days=1, hours=2), "P1DT2H"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (PurePosixPath("a/b"), "a/b"),
        (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
        (b"text", "text"),
        (b"\xff\x00", "base64:/wA="),
        ({"b", "a", "c"}, '["a", "b", "c"]'),
        (frozenset({3, 1}), "[1, 3]"),
        ((1, "a"), '[1, "a"]'),
        (Point(1, 2), '{"x": 1, "y": 2}'),
        (Colour.RED, "red"),
        ([Colour.RED, Level.HIGH], '["red", 3]'),
        ({Colour.RED: 1, 2: 3, None: 4}, '{"red": 1, "2": 3, "null": 4}'),
        ({1: "a", "1": "b"}, '[[1, "a"], ["1", "b"]]'),
        (OrderedDict(b=1, a=2), '{"b": 1, "a": 2}'),
        (Order(id="7", total=Decimal("1.20"), tags={"b", "a"}),
         '{"id": "7", "total": "1.20", "tags": ["a", "b"], "key": "**********"}'),
        ([Order(id="7", total=Decimal(1))], '[{"id": "7", "total": "1", "tags": [], "key": "**********"}]'),
        (Odd(value=1), '{"value": 1}'),
        (Person("ann"), '{"name": "ann"}'),
        ((n for n in (1, 2)), "[1, 2]"),
        (range(3), "[0, 1, 2]"),
        (CYCLE, '[1, "<contains itself>"]'),
        (Opaque(), "<Opaque>"),
        ({"o": Opaque()}, '{"o": "<Opaque>"}'),
        (Told(), "in its own words"),
        (Broken(), "<Broken>"),
        (ValueError("no"), "ValueError: no"),
        (["\x00"], '["\\u0000"]'),
        ("grün 🎄", "grün 🎄"),
        (["grün"], '["grün"]'),
    ],
)  # fmt: skip
def test_a_result_becomes_text_that_keeps_its_meaning(value: Any, text: str) -> None:
    assert observe(value) == text


def test_numbers_too_long_to_write_are_described() -> None:
    assert "bits" in observe(10**5000)


def test_an_endless_iterator_is_cut() -> None:
    def endless() -> Any:
        while True:
            yield 1

    assert observe(endless()).endswith('"<and more>"]')


def test_deep_nesting_ends_somewhere() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert "nested too deep" in observe(nested)


@pytest.mark.parametrize("unit", ["x", "ü", "🎄", "a\n"])
def test_a_long_text_is_cut_in_the_middle_and_says_how_much(unit: str) -> None:
    text = bounded(observe("begin " + unit * 5_000_000 + " end"))
    assert MOST_BYTES - 300 < len(text.encode()) <= MOST_BYTES
    assert text.startswith("begin ")
    assert text.endswith(" end")
    assert "bytes left out here" in text


@pytest.mark.parametrize("most", [LEAST_LIMIT, 4_000])
@pytest.mark.parametrize("name", ["", "act-100000-63r12.1f9e03ab"])
def test_a_cut_text_keeps_to_its_limit_and_says_where_to_read_on(most: int, name: str) -> None:
    whole = "".join(f"line {n} ü\n" for n in range(100_000))
    text = bounded(whole, most, name)
    assert len(text.encode()) <= most
    head = text.partition("\n[...")[0]
    assert whole.startswith(head)
    said = f'read_more(observation="{name}", offset={len(head.encode())})'
    assert (said in text) == bool(name)


@pytest.mark.parametrize("text", ["x" * MOST_BYTES, "ü" * (MOST_BYTES // 2)])
def test_a_text_that_just_fits_is_not_cut(text: str) -> None:
    assert bounded(text, name="act-1-0.1f9e03ab") == text


def test_what_an_author_shows_is_what_is_seen() -> None:
    order = Order(id="7", total=Decimal(1))
    assert shown(order, lambda order: {"id": order.id}) == '{"id": "7"}'
    assert shown((n for n in range(3)), len) == "3"
    assert shown(None, lambda found: "no such order" if found is None else found) == "no such order"


def leaves(value: Any) -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("show", "why"),
    [
        (lambda value: value["missing"], "raised KeyError"),
        (leaves, "raised SystemExit"),
        (lambda value: None, "returned nothing"),
        (lambda value: [each["missing"] for each in value], "raised TypeError"),
    ],
)
def test_a_projection_that_fails_costs_its_brevity_and_nothing_else(show: Any, why: str) -> None:
    assert shown({"a": 1}, show) == f'{{"a": 1}}\n[... shown whole: the tool\'s projection {why} ...]'


def test_a_projection_that_fails_halfway_through_an_iterator_loses_none_of_it() -> None:
    assert shown(iter("ab"), lambda letters: next(iter(letters)).missing).startswith('["a", "b"]')


def test_the_same_value_gives_the_same_text_in_every_process() -> None:
    code = (
        "from perdure.tools.results import observe\n"
        "class Thing: pass\n"
        "print(observe([{'b', 'a', 'c', 'd', 'e'}, frozenset({('x', 1), ('y', 2)}), Thing(), Thing, len, lambda: 1]))"
    )
    texts = {
        subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
                       capture_output=True, check=True, text=True).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(texts) == 1


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.decimals() | st.datetimes()
    | st.timedeltas() | st.uuids() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=15,
)  # fmt: skip


@settings(deadline=None)
@given(ANY)
def test_whatever_is_returned_becomes_storable_text(value: Any) -> None:
    text = observe(value)
    assert text.strip()
    assert "\x00" not in text
    text.encode()
    if isinstance(value, list | dict | tuple):
        json.loads(text)
