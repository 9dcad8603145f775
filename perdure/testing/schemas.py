"""Which schemas of tools and answers the vendors take, and which they answer with a 400.

Sources: JSON Schema 2020-12 for every schema; the vendors' pages on function calling and structured outputs for the
roots they take and for strict mode, where a schema is compiled into a decoding grammar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from jsonschema import Draft202012Validator, SchemaError

Vendor: TypeAlias = Literal["anthropic", "openai"]
Path: TypeAlias = tuple[str, ...]

_IN_MAPS: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_ALONE: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_IN_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NOT_AT_ROOT: Final = {"anthropic": ("oneOf", "allOf", "anyOf"), "openai": ("oneOf", "anyOf", "allOf", "enum", "not")}
_ANTHROPIC_PROPERTY: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMMON_NOT_STRICT: Final = frozenset(
    {
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
        "contains",
        "unevaluatedProperties",
        "unevaluatedItems",
        "minProperties",
        "maxProperties",
        "prefixItems",
        "uniqueItems",
    }
)
_NOT_STRICT: Final = {
    "anthropic": _COMMON_NOT_STRICT
    | {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
    },
    "openai": _COMMON_NOT_STRICT | {"allOf", "default"},
}
_OPENAI_DEEPEST: Final = 10


def schema_problem(schema: object, vendor: Vendor, *, strict: bool) -> str | None:
    """What the vendor would say against this tool schema; None when it takes it."""
    return _problem(json.dumps(schema), vendor, strict)


def format_problem(form: object, schema: object, vendor: Vendor) -> str | None:
    """What the vendor would say against the form of an answer, which it compiles as it does a strict tool."""
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return None
    if vendor == "openai" and not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(form.get("name", ""))):
        return "name must match pattern '^[a-zA-Z0-9_-]{1,64}$'"
    return schema_problem(schema, vendor, strict=vendor == "anthropic" or bool(form.get("strict")))


@lru_cache(maxsize=1024)
def _problem(encoded: str, vendor: Vendor, strict: bool) -> str | None:
    schema: Any = json.loads(encoded)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "schema must have type 'object'"
    for keyword in _NOT_AT_ROOT[vendor]:
        if keyword in schema:
            return f"schema does not support {keyword!r} at the top level"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as invalid:
        return f"JSON schema is invalid: {invalid.message}. It must match JSON Schema draft 2020-12"
    problems = (_node_problem(schema, path, node, vendor, strict) for path, node in _nodes(schema, ()))
    return next((problem for problem in problems if problem), None) or (strict and _recursion(schema, vendor)) or None


def _node_problem(root: dict[str, Any], path: Path, node: dict[str, Any], vendor: Vendor, strict: bool) -> str | None:
    ref = node.get("$ref")
    if ref is not None and _target(root, ref) is None:
        return f"In context={path}, reference {ref!r} can not be resolved"
    if vendor == "anthropic":
        for name in node.get("properties", ()):
            if not _ANTHROPIC_PROPERTY.fullmatch(name):
                return f"Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$', got {name!r}"
    return _strict_problem(path, node, vendor) if strict else None


def _strict_problem(path: Path, node: dict[str, Any], vendor: Vendor) -> str | None:
    refused = sorted(_NOT_STRICT[vendor] & node.keys())
    if refused:
        return f"In context={path}, {refused[0]!r} is not permitted"
    if vendor == "anthropic" and node.get("minItems", 0) > 1:
        return f"In context={path}, 'minItems' other than 0 and 1 is not permitted"
    if vendor == "openai" and "$ref" in node and len(node) > 1:
        return f"In context={path}, $ref cannot have keywords {sorted(node.keys() - {'$ref'})}"
    if vendor == "openai" and sum(step in ("properties", "items") for step in path) > _OPENAI_DEEPEST:
        return f"In context={path}, objects are nested more than {_OPENAI_DEEPEST} levels deep"
    if node.get("type") == "object" or "properties" in node:
        if node.get("additionalProperties") is not False:
            return f"In context={path}, 'additionalProperties' is required to be supplied and to be false"
        missing = sorted(node.get("properties", {}).keys() - set(node.get("required", ())))
        if vendor == "openai" and missing:
            return f"In context={path}, 'required' must include every key in properties. Missing {missing[0]!r}"
    return None


def _recursion(schema: dict[str, Any], vendor: Vendor) -> str | None:
    """Anthropic's grammar compiler refuses schemas that contain themselves; OpenAI's takes them."""
    if vendor == "openai":
        return None

    def loops(ref: str, above: tuple[str, ...]) -> bool:
        target = _target(schema, ref)
        inner = [node["$ref"] for _, node in _nodes(target, ()) if "$ref" in node] if target else []
        return any(each in (*above, ref) or loops(each, (*above, ref)) for each in inner)

    refs = [node["$ref"] for _, node in _nodes(schema, ()) if "$ref" in node]
    return next((f"recursive reference {ref!r} is not permitted" for ref in refs if ref == "#" or loops(ref, ())), None)


def _nodes(node: object, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    if not isinstance(node, dict):
        return
    yield path, node
    for keyword in _IN_MAPS:
        for name, inner in node.get(keyword, {}).items():
            yield from _nodes(inner, (*path, keyword, name))
    for keyword in _ALONE:
        yield from _nodes(node.get(keyword), (*path, keyword))
    for keyword in _IN_LISTS:
        for number, inner in enumerate(node.get(keyword, ())):
            yield from _nodes(inner, (*path, keyword, str(number)))


def _target(root: dict[str, Any], ref: str) -> dict[str, Any] | None:
    """Where a local reference leads; None when nowhere, as for every reference to another document."""
    if not ref.startswith("#"):
        return None
    node: Any = root
    for step in ref[1:].split("/")[1:]:
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None
