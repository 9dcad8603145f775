"""The schema a model is sent, which is not the one arguments are held against.

Vendors take subsets of JSON Schema, and refuse a whole request for one tool outside of theirs. Two forms are sent,
both good for every vendor we know: the *open* one (what pydantic says, tidied), and the *strict* one, which a vendor
compiles into a grammar. Strict is the intersection of what OpenAI and Anthropic document for structured outputs;
keywords outside of it move into the description, where the model still reads them and admission still checks them. A
schema that has no strict form is sent open.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

_MAPS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")

_STRICT_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "description"}
)
_STRICT_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_NEVER_STRICT = ("allOf", "not", "if", "patternProperties", "prefixItems", "dependentSchemas", "contains", "$ref")
_DEEPEST = 10  # OpenAI: levels of nesting
_MOST_CHOICES = 250  # OpenAI: enum values, beyond which their total length is limited too


class NotStrictError(Exception):
    """A schema that has no strict form, and why."""


Schema = dict[str, Any]


def _mapped(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """The schema with `change` applied to every subschema, innermost first. Property names are never mistaken for
    keywords."""
    if not isinstance(schema, dict):
        return schema
    changed = dict(schema)
    for key in _MAPS:
        if isinstance(schema.get(key), dict):
            changed[key] = {name: _mapped(part, change) for name, part in schema[key].items()}
    for key in _LISTS:
        if isinstance(schema.get(key), list):
            changed[key] = [_mapped(part, change) for part in schema[key]]
    for key in _SINGLES:
        if isinstance(schema.get(key), dict):
            changed[key] = _mapped(schema[key], change)
    return change(changed)


# --- references -------------------------------------------------------------------------------------------------------


def inlined(schema: Schema) -> Schema:
    """The schema without `$ref`, unless it is recursive: then as it is, `$defs` and all."""
    defs = schema.get("$defs", {})
    try:
        return {key: value for key, value in _inlined(schema, defs, ()).items() if key != "$defs"}
    except _RecursiveError:
        return schema


class _RecursiveError(Exception):
    pass


def _inlined(schema: Any, defs: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    def change(node: Schema) -> Schema:
        if "$ref" not in node:
            return node
        name = str(node["$ref"]).rpartition("/")[2]
        if name in above:
            raise _RecursiveError
        beside = {key: value for key, value in node.items() if key != "$ref"}
        resolved: Schema = _inlined(defs[name], defs, (*above, name))
        return {**resolved, **beside}

    return _mapped({key: value for key, value in schema.items() if key != "$defs"}, change)


# --- the open form ----------------------------------------------------------------------------------------------------


def open_form(schema: Schema) -> Schema:
    """What is sent without strict mode: titles gone, references resolved, every array with `items` (for OpenAI)."""
    return {"type": "object", "properties": {}, **tidied(inlined(schema))}


def tidied(schema: Schema) -> Schema:
    """The schema of any value: without titles, and what only pydantic reads."""
    tidy: Schema = _mapped(schema, _tidied)
    return tidy


def _tidied(node: Schema) -> Schema:
    node = {key: value for key, value in node.items() if key not in ("title", "discriminator", "writeOnly")}
    if "oneOf" in node and "anyOf" not in node:
        node["anyOf"] = node.pop("oneOf")
    if node.get("type") == "array" and "items" not in node:
        node["items"] = {"anyOf": node["prefixItems"]} if node.get("prefixItems") else {}
    if node.get("format") == "binary":
        del node["format"]
    return node


# --- the strict form --------------------------------------------------------------------------------------------------


def strict_form(schema: Schema) -> Schema:
    """The schema in the subset that both vendors compile.

    Every property is required; what was optional may be null, which admission reads as "left out".

    Raises:
        NotStrictError: with the construct that has no strict form.
    """
    form: Schema = _mapped(_mapped(inlined(schema), _tidied_strict), _strict)
    form = {"type": "object", "properties": {}, "required": [], "additionalProperties": False, **form}
    if _depth(form) > _DEEPEST:
        raise NotStrictError(f"objects nested more than {_DEEPEST} deep")
    return form


def _tidied_strict(node: Schema) -> Schema:
    if "prefixItems" in node:
        raise NotStrictError("a tuple of fixed places")
    return _tidied(node)


def _strict(node: Schema) -> Schema:
    for key in _NEVER_STRICT:
        if key in node:
            raise NotStrictError("a type that contains itself" if key == "$ref" else f"the keyword {key!r}")
    if not node.keys() & {"type", "anyOf", "enum", "const"}:
        raise NotStrictError("a value of any type")
    if "const" in node:
        node = {"enum": [node["const"]], **{key: value for key, value in node.items() if key != "const"}}
    if "enum" in node:
        _check_choices(node)
    if node.get("type") == "object":
        node = _closed(node)
    return _moved_to_description(node)


def _check_choices(node: Schema) -> None:
    if len(node["enum"]) > _MOST_CHOICES:
        raise NotStrictError(f"more than {_MOST_CHOICES} choices")
    kinds = {type(choice) for choice in node["enum"]}
    names = {str: "string", int: "integer", bool: "boolean", float: "number", type(None): "null"}
    if "type" not in node:
        if len(kinds) != 1 or not kinds <= names.keys():
            raise NotStrictError("choices of several types")
        node["type"] = names[kinds.pop()]


def _closed(node: Schema) -> Schema:
    if node.get("additionalProperties") not in (None, False):
        raise NotStrictError("an object with free keys")
    if "properties" not in node and "additionalProperties" not in node:
        raise NotStrictError("an object with free keys")
    required = node.get("required", ())
    given = node.get("properties", {})
    properties = {name: part if name in required else _optional(part) for name, part in given.items()}
    return {**node, "properties": properties, "required": list(properties), "additionalProperties": False}


def _optional(part: Schema) -> Schema:
    """`part`, or null. Nothing is said twice when it takes null already."""
    branches = part.get("anyOf", [part])
    if any(branch.get("type") == "null" for branch in branches):
        return part
    description = {"description": part["description"]} if "description" in part else {}
    inner = {key: value for key, value in part.items() if key != "description"}
    return {"anyOf": [*inner.get("anyOf", [inner]), {"type": "null"}], **description}


def _moved_to_description(node: Schema) -> Schema:
    kept: Schema = {}
    moved: list[str] = []
    for key, value in node.items():
        if key in _STRICT_KEYWORDS or (key == "format" and value in _STRICT_FORMATS):
            kept[key] = value
        elif key == "default":
            moved.append(f"Default: {json.dumps(value, ensure_ascii=False)}." if value is not None else "Optional.")
        else:
            moved.append(f"{key}: {json.dumps(value, ensure_ascii=False)}.")
    said = " ".join(filter(None, (kept.get("description", ""), *moved)))
    return {**kept, "description": said} if said else kept


def _depth(node: Any) -> int:
    parts = [*node.get("properties", {}).values(), *node.get("anyOf", ())] if isinstance(node, dict) else []
    if isinstance(node, dict) and isinstance(node.get("items"), dict):
        parts.append(node["items"])
    below = max(map(_depth, parts), default=0)
    return below + (isinstance(node, dict) and node.get("type") in ("object", "array"))


def unions(schema: Any) -> int:
    """How many places of a strict form take several types: Anthropic limits their number over all tools."""
    count = 0

    def look(node: Schema) -> Schema:
        nonlocal count
        count += "anyOf" in node
        return node

    _mapped(schema, look)
    return count
