"""A function's parameters as data: what may be passed, and the one text that stands for what is passed.

The annotations become a pydantic model that forbids everything not declared. Arguments go through it once, and come out
as *argument bytes*: JSON with every default filled in, keys in the order of declaration. Those bytes are shown, hashed,
recorded, and parsed again when the tool runs; so they must say exactly what runs, and reading them must give the same
bytes again. `normalise` proves that for each call rather than assuming it.

Values are read the way pydantic reads JSON (lax): "3" is taken for an int, 12.5 or "12.5" for a Decimal, ISO 8601 for
dates and durations; NaN and Infinity are not numbers here.
"""

import inspect
import json
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")  # property names: Anthropic's rule, the strictest
_MOST_PROBLEMS = 8


class ToolDeclarationError(Exception):
    """A tool (or an agent's set of tools) that cannot be offered to a model: what, why, what to do."""


class ArgumentsError(Exception):
    """Arguments that a tool does not take; the message names each one, worded for the model."""


class OfferedSchema(GenerateJsonSchema):
    """pydantic's schema, with decimals offered as plain numbers: its own pattern for them no vendor compiles."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own name

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> dict[str, Any]:
        bounded = ("multiple_of", "le", "ge", "lt", "gt")
        floats: Any = {key: float(value) for key, value in dict(schema).items() if key in bounded}  # type: ignore[arg-type]
        return self.float_schema(core_schema.float_schema(**floats))

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        return sorted(encoded, key=json.dumps) if isinstance(dft, set | frozenset) else encoded

    def generator_schema(self, schema: core_schema.GeneratorSchema) -> dict[str, Any]:
        return self.handle_invalid_for_json_schema(schema, "an iterator can be read only once; use list[...]")


@dataclass(frozen=True, eq=False)
class Parameters:
    """What a function takes from the model. `schema` is the original JSON Schema that arguments are held against."""

    model: type[BaseModel]
    fields: Mapping[str, str]  # parameter name -> the model's field
    schema: dict[str, Any]

    def normalise(self, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Argument bytes and keyword arguments for a parsed JSON object.

        Raises:
            ArgumentsError: naming every argument that is unknown, missing or wrong.
        """
        value = self._validated(json.dumps(without_nulls(given, self.schema, self.schema.get("$defs", {}))))
        text = self._dumped(value)
        again = self._validated(text)
        if again != value or self._dumped(again) != text:
            raise ArgumentsError("these values do not survive being written down as JSON; use plainer ones")
        return text, self._keywords(again)

    def parse(self, text: str) -> dict[str, Any]:
        """The keyword arguments that argument bytes stand for.

        Raises:
            ArgumentsError: the bytes were made by another declaration of this tool.
        """
        return self._keywords(self._validated(text))

    @cached_property
    def _takes_sets(self) -> bool:
        return '"uniqueItems"' in json.dumps(self.schema)

    def _validated(self, text: str) -> BaseModel:
        try:
            return self.model.model_validate_json(text)
        except ValidationError as error:
            raise ArgumentsError(problems(error)) from None
        except Exception as error:  # an author's own validator
            raise ArgumentsError(f"checking them raised {type(error).__name__}: {error}") from None

    def _dumped(self, value: BaseModel) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a default of another type than annotated: pydantic says it, we prove it
            plain = value.model_dump(mode="json", by_alias=True, round_trip=True)
            if self._takes_sets:
                plain = _sets_sorted(value.model_dump(by_alias=True, round_trip=True), plain)
        return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)

    def _keywords(self, value: BaseModel) -> dict[str, Any]:
        return {name: getattr(value, field) for name, field in self.fields.items()}


def _sets_sorted(value: Any, plain: Any) -> Any:
    """`plain`, with what were sets in `value` in one order: a set's own differs from process to process."""
    match value, plain:
        case dict(), dict():
            return {key: _sets_sorted(part, plain[key]) for part, key in zip(value.values(), plain, strict=True)}
        case set() | frozenset(), list():
            return sorted((_sets_sorted(*pair) for pair in zip(value, plain, strict=True)), key=json.dumps)
        case list() | tuple(), list():
            return [_sets_sorted(*pair) for pair in zip(value, plain, strict=True)]
    return plain


def problems(error: ValidationError, what: str = "argument") -> str:
    """A validation error in one line a model can act on: each place, and what is wrong there.

    Args:
        what: the word for what may be unknown or missing.
    """
    found = error.errors(include_url=False, include_context=False)
    told = [_problem(each["type"], each["loc"], each["msg"], each["input"], what) for each in found[:_MOST_PROBLEMS]]
    more = [f"and {len(found) - _MOST_PROBLEMS} more"] if len(found) > _MOST_PROBLEMS else []
    return "; ".join(told + more)


def _problem(kind: str, place: tuple[int | str, ...], message: str, given: Any, what: str) -> str:
    where = ".".join(str(part) for part in place)
    if kind == "extra_forbidden":
        return f"unknown {what} {where!r}"
    if kind in ("missing", "missing_argument"):
        return f"missing {what} {where!r}"
    message = message[:1].lower() + message[1:]
    shown = repr(given)
    place_named = f"{where!r}: " if where else ""
    return f"{place_named}{message}, not {shown if len(shown) <= 80 else shown[:77] + '...'}"


def without_nulls(given: Any, schema: Any, defs: Mapping[str, Any]) -> Any:
    """`given` without nulls that mean "left out": strict mode makes the model send every optional argument."""
    schema = _resolved(schema, defs)
    if isinstance(given, list) and isinstance(schema.get("items"), dict):
        return [without_nulls(each, schema["items"], defs) for each in given]
    if not isinstance(given, dict):
        return given
    shapes = [_resolved(branch, defs) for branch in schema.get("anyOf", schema.get("oneOf", ()))]
    objects = [shape for shape in shapes if shape.get("properties") and _fits(given, shape["properties"])]
    if len(objects) == 1:
        schema = objects[0]
    known, required = schema.get("properties", {}), schema.get("required", ())
    return {
        name: without_nulls(value, known.get(name, {}), defs)
        for name, value in given.items()
        if value is not None or name not in known or name in required or _takes_null(known[name], defs)
    }


def _fits(given: dict[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether every constant of a shape stands in `given`: how a tagged union tells its members apart."""
    constants = {name: part["const"] for name, part in known.items() if "const" in part}
    return all(given.get(name) == constant for name, constant in constants.items())


def _resolved(schema: Any, defs: Mapping[str, Any]) -> dict[str, Any]:
    for _ in range(20):
        if not isinstance(schema, dict) or "$ref" not in schema:
            break
        schema = defs.get(str(schema["$ref"]).rpartition("/")[2], {})
    return schema if isinstance(schema, dict) else {}


def _takes_null(schema: Any, defs: Mapping[str, Any]) -> bool:
    schema = _resolved(schema, defs)
    branches = schema.get("anyOf", schema.get("oneOf"))
    if branches is not None:
        return any(_takes_null(branch, defs) for branch in branches)
    if "enum" in schema or "const" in schema:
        return None in schema.get("enum", [schema.get("const", 0)])
    return "type" not in schema or "null" in schema["type"]


# --- declaring --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Signature:
    """A function as a tool: its parameters, the name of the one that takes the context, and what its docstring says."""

    parameters: Parameters
    context: str | None
    in_class: bool  # declared in a class body: `self` is still to be bound
    description: str


def read_signature(
    function: Callable[..., Any], name: str, context_type: type, like: Callable[..., Any] | None = None
) -> Signature:
    """Read a function's signature, annotations and docstring; or those of `like`, with the function's own context.

    Raises:
        ToolDeclarationError: something in them that no schema can express.
    """
    if like is not None:
        own = list(inspect.signature(function).parameters.values())
        read = read_signature(like, name, context_type)
        return replace(read, context=_context(own, _hints(function, name), context_type), in_class=False)
    hints = _hints(function, name)
    description, told = _documented(inspect.getdoc(function) or "")
    found = list(inspect.signature(function).parameters.values())
    in_class = bool(found) and found[0].name == "self" and "self" not in hints
    found = found[1:] if in_class else found
    context = _context(found, hints, context_type)
    taken = [each for each in found if each.name != context]
    parameters = _parameters(name, [(each, _annotation(each, hints, name)) for each in taken], told)
    return Signature(parameters, context, in_class, description)


def _documented(docstring: str) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function and its result, and of each parameter (Google, numpy, Sphinx)."""
    try:
        docs = docstring_parser.parse(docstring)
    except docstring_parser.ParseError:
        return docstring, {}
    result = docs.returns.description if docs.returns else None
    said = (docs.short_description, docs.long_description, f"Returns: {result.strip()}" if result else None)
    told = {each.arg_name.lstrip("*"): (each.description or "").strip() for each in docs.params}
    return "\n\n".join(filter(None, said)).strip(), told


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception as error:
        raise ToolDeclarationError(
            f"tool {name!r}: an annotation cannot be read ({error}). "
            "Define the type at module level, above the tool, and import it for real (not under TYPE_CHECKING)."
        ) from None


def _context(found: list[inspect.Parameter], hints: dict[str, Any], context_type: type) -> str | None:
    for each in found:
        if hints.get(each.name) is context_type:
            return each.name
    return found[0].name if found and found[0].name == "ctx" and "ctx" not in hints else None


def _annotation(each: inspect.Parameter, hints: dict[str, Any], name: str) -> Any:
    where = f"tool {name!r}, parameter {each.name!r}"
    if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
        raise ToolDeclarationError(f"{where}: a model must be told every argument. Name them one by one.")
    if each.kind is each.POSITIONAL_ONLY:
        raise ToolDeclarationError(f"{where}: arguments are passed by name. Remove the '/' from the signature.")
    if each.name not in hints:
        raise ToolDeclarationError(f"{where} has no annotation, so there is no schema for it. Write its type: "
                                   f"{each.name}: str, for instance.")  # fmt: skip
    hint = hints[each.name]
    return hint | None if each.default is None and get_origin(hint) is not Annotated else hint


def _parameters(name: str, declared: list[tuple[inspect.Parameter, Any]], told: Mapping[str, str]) -> Parameters:
    fields: dict[str, Any] = {}
    for each, hint in declared:
        wire = _wire_name(each, hint)
        if not _KEY.fullmatch(wire):
            raise ToolDeclarationError(
                f"tool {name!r}: argument name {wire!r} is refused by model vendors. "
                "Use letters, digits, '_', '.' and '-' (at most 64), with Field(alias=...) if need be."
            )
        extra = Field(alias=wire, description=told.get(each.name) or None)
        default = ... if each.default is each.empty else each.default
        fields[f"a_{each.name}"] = (Annotated[extra_first(extra, hint)], default)
    config = ConfigDict(extra="forbid", allow_inf_nan=False, validate_default=True, validate_by_alias=True)
    try:
        model = create_model(f"{name}_arguments", __config__=config, **fields)
        schema = model.model_json_schema(by_alias=True, schema_generator=OfferedSchema)
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError) as error:
        reason = str(error).splitlines()[0]
        raise ToolDeclarationError(
            f"tool {name!r}: a parameter's type cannot be written as JSON ({reason}). "
            "Use plain types, enums, dataclasses, TypedDicts or pydantic models."
        ) from None
    _refuse_secrets(name, schema)
    return Parameters(model, {each.name: f"a_{each.name}" for each, _ in declared}, schema)


def extra_first(extra: Any, hint: Any) -> Any:
    """The hint with our field settings under the author's own, which win."""
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        return (inner, extra, *metadata)
    return (hint, extra)


def _wire_name(each: inspect.Parameter, hint: Any) -> str:
    """The name the model uses: the author's alias, else the parameter's."""
    candidates = [*(get_args(hint)[1:] if get_origin(hint) is Annotated else ()), each.default]
    aliases = [field.alias for field in candidates if isinstance(field, FieldInfo) and field.alias]
    return aliases[-1] if aliases else each.name


def _refuse_secrets(name: str, schema: dict[str, Any]) -> None:
    if '"writeOnly": true' in json.dumps(schema, default=str):
        raise ToolDeclarationError(
            f"tool {name!r} takes a secret as an argument, but arguments come from the model and are shown to people. "
            "Read the secret inside the tool, on the worker."
        )
