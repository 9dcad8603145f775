"""What is sent is in a form that every vendor takes; what no vendor takes is named at declaration (C71)."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from perdure.core.contracts import Verdict
from perdure.tools.admission import admit
from perdure.tools.agents import specs
from perdure.tools.declare import Tool, tool
from perdure.tools.schemas import NotStrictError, inlined, open_form, strict_form


class Node(BaseModel):
    """A part with parts."""

    name: str
    parts: list["Node"] = []


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    city: str = Field(description="where", min_length=1)
    zip: str | None = Field(None, pattern=r"^\d{5}$")


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]


@dataclass
class Line:
    sku: str
    amount: Decimal = Decimal(1)


class Closed(BaseModel, extra="allow"):
    a: int


def no_parameters() -> None: ...
def plain(a: str, b: int, c: float, d: bool) -> None: ...
def referenced(home: Address, work: Address) -> None: ...
def optional(a: int | None, b: str | None = None, c: int = 3) -> None: ...
def bounded(a: Annotated[int, Field(ge=1, le=9)], b: Annotated[list[str], Field(max_length=3)]) -> None: ...
def dates(a: date, b: datetime, c: Decimal) -> None: ...
def dotted(a: Annotated[int, Field(alias="the.key")]) -> None: ...
def choices(a: Colour, b: Literal["x", "y"], c: Literal["only"]) -> None: ...
def tagged(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...
def nested(lines: list[Line], where: Address | None = None) -> None: ...
def title(title: str, default: str = "d", description: str = "", type: str = "t") -> None: ...
def sets(tags: set[str]) -> None: ...


def recursive(tree: Node) -> None: ...
def anything(a: Any) -> None: ...
def bare_dict(a: dict) -> None: ...  # type: ignore[type-arg]
def bare_list(a: list) -> None: ...  # type: ignore[type-arg]
def open_map(a: dict[str, int]) -> None: ...
def fixed_tuple(a: tuple[int, str]) -> None: ...
def open_model(a: Closed) -> None: ...
def mixed(a: Literal[1, "x"]) -> None: ...


STRICT = [no_parameters, plain, referenced, optional, bounded, dates, dotted, choices, tagged, nested, title, sets]
OPEN = [recursive, anything, bare_dict, bare_list, open_map, fixed_tuple, open_model, mixed]


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a schema: never the map of properties itself."""
    if isinstance(schema, dict):
        yield schema
        for key in ("properties", "$defs"):
            for part in schema.get(key, {}).values():
                yield from subschemas(part)
        for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for part in schema.get(key, ()):
                yield from subschemas(part)
        for key in ("items", "additionalProperties"):
            yield from subschemas(schema.get(key))


def openai_strict_faults(schema: dict[str, Any]) -> list[str]:
    """Against OpenAI's guide to structured outputs, "supported schemas"."""
    known = {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "description",
             "format", "pattern", "minimum", "maximum", "multipleOf", "minItems", "maxItems"}  # fmt: skip
    formats = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
    faults = [] if schema.get("type") == "object" and "anyOf" not in schema else ["root is no object"]
    for part in subschemas(schema):
        faults += [f"keyword {key}" for key in part.keys() - known]
        if "type" not in part and "anyOf" not in part:
            faults.append("no type")
        if part.get("type") == "object" and part.get("additionalProperties") is not False:
            faults.append("open object")
        if part.get("type") == "object" and set(part["required"]) != set(part["properties"]):
            faults.append("optional property")
        if part.get("type") == "array" and not part.get("items"):
            faults.append("array of anything")
        if part.get("format", "date") not in formats:
            faults.append(f"format {part['format']}")
    return faults


def anthropic_strict_faults(schema: dict[str, Any]) -> list[str]:
    """Against Anthropic's page on structured outputs, "JSON Schema limitations"."""
    refused = {"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
               "maxItems", "uniqueItems", "patternProperties", "not", "if"}  # fmt: skip
    faults = []
    for part in subschemas(schema):
        faults += [f"keyword {key}" for key in part.keys() & refused]
        faults += ["recursion"] if "$ref" in part else []
        if part.get("type") == "object" and part.get("additionalProperties") is not False:
            faults.append("open object")
        faults += [f"key {key}" for key in part.get("properties", {}) if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key)]
    return faults


@pytest.mark.parametrize("function", STRICT)
def test_a_strict_form_keeps_both_vendors_rules(function: Callable[..., Any]) -> None:
    form = strict_form(tool(function).parameters.schema)
    Draft202012Validator.check_schema(form)
    assert openai_strict_faults(form) == []
    assert anthropic_strict_faults(form) == []


@pytest.mark.parametrize("function", OPEN)
def test_what_has_no_strict_form_is_sent_open(function: Callable[..., Any]) -> None:
    declared = tool(function)
    with pytest.raises(NotStrictError):
        strict_form(declared.parameters.schema)
    [spec] = specs([declared], "openai-responses")
    assert spec.strict is False


@pytest.mark.parametrize("function", STRICT + OPEN)
def test_an_open_form_is_a_schema_of_an_object_with_typed_arrays(function: Callable[..., Any]) -> None:
    form = open_form(tool(function).parameters.schema)
    Draft202012Validator.check_schema(form)
    assert form["type"] == "object"
    assert isinstance(form["properties"], dict)
    for part in subschemas(form):
        assert part.get("type") != "array" or "items" in part
        assert "oneOf" not in part
    json.dumps(form, allow_nan=False)


def test_references_are_resolved_where_that_ends() -> None:
    form = open_form(tool(referenced).parameters.schema)
    assert "$ref" not in json.dumps(form)
    assert form["properties"]["work"]["properties"]["city"]["description"] == "where"


def test_a_recursive_type_keeps_its_definition() -> None:
    form = inlined(tool(recursive).parameters.schema)
    assert form["properties"]["tree"] == {"$ref": "#/$defs/Node"}
    assert "Node" in form["$defs"]


def test_keywords_no_vendor_compiles_are_told_in_the_description() -> None:
    form = strict_form(tool(bounded).parameters.schema)["properties"]
    assert form["a"] == {"type": "integer", "description": "maximum: 9. minimum: 1."}
    assert "maxItems: 3" in form["b"]["description"]


def test_an_optional_parameter_is_required_and_nullable_and_its_default_is_told() -> None:
    form = strict_form(tool(optional).parameters.schema)
    assert form["required"] == ["a", "b", "c"]
    assert form["properties"]["c"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "Default: 3."}
    assert form["properties"]["b"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_parameters_named_like_keywords_stay() -> None:
    assert list(strict_form(tool(title).parameters.schema)["properties"]) == ["title", "default", "description", "type"]
    assert list(open_form(tool(title).parameters.schema)["properties"]) == ["title", "default", "description", "type"]


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (optional, {"a": None, "b": None, "c": None}),
        (nested, {"lines": [{"sku": "x", "amount": None}], "where": {"city": "Ulm", "zip": None}}),
        (tagged, {"pet": {"kind": "cat", "lives": None}}),
        (recursive, {"tree": {"name": "a", "parts": [{"name": "b", "parts": []}]}}),
    ],
)
def test_what_a_strict_model_sends_is_admitted(function: Callable[..., Any], given: dict[str, Any]) -> None:
    declared = tool(function, effect="read")
    call = admit({declared.name: declared}, 0, "c", declared.name, json.dumps(given))
    assert call.verdict is Verdict.RUN, call.reason


def test_arguments_are_held_against_the_original_schema() -> None:
    declared = tool(bounded, effect="read")
    assert admit({"bounded": declared}, 0, "c", "bounded", '{"a": 10, "b": []}').verdict is Verdict.REFUSE


def test_one_tool_without_a_strict_form_leaves_the_others_strict() -> None:
    found = specs([tool(plain), tool(open_map), tool(optional)], "anthropic")
    assert [spec.strict for spec in found] == [True, False, True]


def test_anthropic_is_asked_to_compile_a_few_schemas_only_and_those_that_insist_first() -> None:
    def many(count: int) -> list[Tool]:
        return [tool(optional, name=f"t{n}", strict=True if n == count - 1 else None) for n in range(count)]

    strict = [spec.name for spec in specs(many(30), "anthropic") if spec.strict]
    assert "t29" in strict
    assert len(strict) <= 8
    assert all(spec.strict for spec in specs(many(30), "openai-responses"))


def test_strict_false_is_obeyed() -> None:
    assert specs([tool(plain, strict=False)], "openai-chat")[0].strict is False
