"""Argument bytes: what goes in comes out, the same each time, with nothing left to imagine."""

import enum
import json
import uuid
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from perdure.core.contracts import Verdict
from perdure.tools.admission import admit
from perdure.tools.declare import Tool, tool
from perdure.tools.parameters import ArgumentsError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    sku: str
    amount: Decimal = Decimal("1.50")


@dataclass
class Place:
    city: str
    zip: str | None = None


@tool(effect="read")
def everything(
    text: str,
    count: int,
    price: Decimal,
    ratio: float,
    on: date,
    at: datetime,
    span: timedelta,
    ref: uuid.UUID,
    colour: Colour,
    kind: Literal["a", "b"],
    tags: set[str],
    pair: tuple[int, str],
    lines: list[Line],
    place: Place,
    free: dict[str, int],
    anything: Any = None,
    flag: bool = False,
    raw: bytes = b"",
) -> None: ...


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12)
GIVEN = st.fixed_dictionaries(
    {
        "text": TEXT,
        "count": st.one_of(st.integers(), st.integers().map(str)),
        "price": st.one_of(DECIMALS.map(str), st.integers(), st.floats(-1e9, 1e9)),
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "on": st.dates().map(str),
        "at": st.datetimes(timezones=st.timezones())
        .filter(lambda at: at.utcoffset() is not None)
        .map(lambda at: at.replace(tzinfo=None).isoformat() + "Z"),
        "span": st.timedeltas(timedelta(0), timedelta(days=1000)).map(lambda span: span.total_seconds()),
        "ref": st.uuids().map(str),
        "colour": st.sampled_from(["red", "blue"]),
        "kind": st.sampled_from(["a", "b"]),
        "tags": st.lists(TEXT, max_size=5),
        "pair": st.tuples(st.integers(), TEXT).map(list),
        "lines": st.lists(st.fixed_dictionaries({"sku": TEXT}, optional={"amount": DECIMALS.map(str)}), max_size=3),
        "place": st.fixed_dictionaries({"city": TEXT}, optional={"zip": st.none() | TEXT}),
        "free": st.dictionaries(TEXT, st.integers(), max_size=4),
    },
    optional={
        "anything": st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda x: st.lists(x, max_size=3)),
        "flag": st.none() | st.booleans(),
        "raw": TEXT,
    },
)


@settings(deadline=None, max_examples=150)
@given(GIVEN)
def test_argument_bytes_round_trip_exactly(given: dict[str, Any]) -> None:
    text, keywords = everything.parameters.normalise(given)
    assert everything.parameters.parse(text) == keywords
    assert everything.parameters.normalise(json.loads(text)) == (text, keywords)


@settings(deadline=None, max_examples=150)
@given(GIVEN)
def test_an_admitted_call_admitted_again_has_the_same_bytes(given: dict[str, Any]) -> None:
    first = admit({"everything": everything}, 0, "c", "everything", json.dumps(given))
    assert first.verdict is Verdict.RUN, first.reason
    again = admit({"everything": everything}, 0, "c", "everything", first.arguments)
    assert (again.arguments, again.digest) == (first.arguments, first.digest)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=60) | st.recursive(st.none() | st.floats() | TEXT, st.lists).map(json.dumps))
def test_no_text_of_arguments_raises(arguments: str) -> None:
    call = admit({"everything": everything}, 0, "c", "everything", arguments)
    assert call.verdict is Verdict.REFUSE
    json.loads(call.arguments)


@tool(effect="read")
def book(employee: str, days: int = 1, note: str | None = None, price: Decimal = Decimal("2.50")) -> None: ...


def test_defaults_are_filled_in_and_keys_stand_in_the_order_declared() -> None:
    text, _ = book.parameters.normalise({"days": 2, "employee": "ann"})
    assert text == '{"employee":"ann","days":2,"note":null,"price":"2.50"}'


def test_null_for_an_optional_parameter_means_its_default() -> None:
    text, _ = book.parameters.normalise({"employee": "ann", "days": None, "price": None})
    assert json.loads(text)["days"] == 1


def test_null_for_a_required_parameter_is_refused() -> None:
    with pytest.raises(ArgumentsError, match="employee"):
        book.parameters.normalise({"employee": None})


def test_null_inside_an_object_means_the_default_too() -> None:
    def order(lines: list[Line]) -> None: ...

    text, _ = tool(order).parameters.normalise({"lines": [{"sku": "x", "amount": None}]})
    assert json.loads(text) == {"lines": [{"sku": "x", "amount": "1.50"}]}


@pytest.mark.parametrize(
    ("annotation", "given", "text"),
    [
        (int, "3", "3"),
        (int, 3.0, "3"),
        (Decimal, 12.5, '"12.5"'),
        (Decimal, "12.50", '"12.50"'),
        (Decimal, 0.1, '"0.1"'),
        (date, "2026-12-14", '"2026-12-14"'),
        (datetime, "2026-12-14T10:00:00+01:00", '"2026-12-14T10:00:00+01:00"'),
        (timedelta, "P1DT2H", '"P1DT2H"'),
        (set[str], ["b", "a"], '["a","b"]'),
        (bool, "true", "true"),
        (int | str, "3", '"3"'),
    ],
)
def test_values_are_read_as_people_expect(annotation: Any, given: Any, text: str) -> None:
    assert _of(annotation).parameters.normalise({"value": given})[0] == f'{{"value":{text}}}'


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (int, 3.5),
        (int, "three"),
        (str, 3),
        (float, "NaN"),
        (Decimal, "Infinity"),
        (list[int], "1,2"),
        (date, "tomorrow"),
    ],
)
def test_values_that_need_guessing_are_refused_by_name(annotation: Any, given: Any) -> None:
    with pytest.raises(ArgumentsError, match="'value'"):
        _of(annotation).parameters.normalise({"value": given})


def _of(annotation: Any) -> Tool:
    def take(value): ...  # type: ignore[no-untyped-def]

    take.__annotations__ = {"value": annotation}
    return tool(take)


def test_parameters_may_have_names_that_pydantic_uses_itself() -> None:
    def odd(schema: str, model_config: str, _private: int, json: str, copy: str = "c") -> None: ...

    _, keywords = tool(odd).parameters.normalise({"schema": "s", "model_config": "m", "_private": 1, "json": "j"})
    assert keywords == {"schema": "s", "model_config": "m", "_private": 1, "json": "j", "copy": "c"}


def test_an_alias_is_what_the_model_says_and_the_name_is_what_the_function_gets() -> None:
    def odd(value: Annotated[int, Field(alias="the.value")]) -> None: ...

    assert tool(odd).parameters.normalise({"the.value": 3}) == ('{"the.value":3}', {"value": 3})


def test_a_default_of_none_makes_a_parameter_optional() -> None:
    def find(q: str, limit: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    assert tool(find).parameters.normalise({"q": "x"})[0] == '{"q":"x","limit":null}'


def test_values_that_do_not_survive_writing_down_are_refused() -> None:
    class Lossy(BaseModel):
        kept: int
        lost: int = Field(default=0, exclude=True)

    declared = _of(Lossy)
    with pytest.raises(ArgumentsError, match="survive"):
        declared.parameters.normalise({"value": {"kept": 1, "lost": 2}})
