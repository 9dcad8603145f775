"""The form of an answer: what an author declares, what the model is told of it, and what is taken for an answer.

The form is any type that pydantic takes. The model reads its JSON Schema in the prompt, on every protocol. What it then
says must be that one JSON value, alone or in one code fence, and is held against the type; what does not fit goes back
as advice. What fits is written down once more, canonically: the answer that is recorded is JSON and nothing else.

A run keeps the schema that it was opened with. A worker whose type makes another one by now holds the answer against
the recorded schema instead, so that a deploy changes nothing for runs in flight.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import from_json

from perdure.core.labels import TEXT_MODE
from perdure.tools.parameters import OfferedSchema, problems, without_nulls
from perdure.tools.schemas import NotStrictError, Schema, inlined, strict_form, tidied

MOST_ADVICE: Final = 2_000  # characters
_FENCED: Final = re.compile(
    r"(?P<fence>`{3,}|~{3,})[ \t]*[\w.+-]*[ \t]*\r?\n(?P<inside>.*?)\r?\n?[ \t]*(?P=fence)", re.DOTALL
)
_NAME: Final = "answer"  # of the form, where a vendor wants one

FORM: Final = """\
The form of your answer

A program reads your final answer. {what} is one JSON value and nothing else: no words before it or after it. It fits \
this JSON Schema:

{schema}

What you say beside a tool call has no form. The last answer has it too, when the budget is spent: say what is not \
known inside the form."""


class AnswerFormError(Exception):
    """A type that cannot be the form of an answer: what, why, what to do."""


class MisfitError(Exception):
    """An answer that is not of its form; the message says what is wrong, worded for the model."""


@dataclass(frozen=True, eq=False)
class AnswerForm:
    """What an agent's answers must be. `schema` is what the model is shown and a run records."""

    type: TypeAdapter[Any]
    schema: Schema

    def prompt(self, protocol: str) -> str:
        """The part of the system prompt that tells the model."""
        what = 'What follows "Final Answer:"' if protocol.startswith(TEXT_MODE) else "It"
        return FORM.format(what=what, schema=json.dumps(self.schema, ensure_ascii=False))

    def settings(self, protocol: str) -> Mapping[str, Any]:
        """How the vendor is told to decode nothing but such an answer; empty where the form has no strict schema.

        Only for agents without tools. A vendor's grammar holds for all text that a model writes, so it would take the
        words beside a call away, and servers exist that never call a tool under one: docs/adr/0015.
        """
        if self.schema.get("type") != "object" or protocol.startswith(TEXT_MODE):
            return {}
        try:
            schema = strict_form(self.schema)
        except NotStrictError:
            return {}
        named = {"name": _NAME, "schema": schema, "strict": True}
        match protocol:
            case "anthropic":
                return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
            case "openai-responses":
                return {"text": {"format": {"type": "json_schema", **named}}}
            case _:
                return {"response_format": {"type": "json_schema", "json_schema": named}}


def without_form(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run for a question whose answer has no form."""
    free = {key: value for key, value in settings.items() if key != "response_format"}
    for key in ("output_config", "text"):
        if isinstance(free.get(key), dict):
            free[key] = {name: value for name, value in free[key].items() if name != "format"}
    return {key: value for key, value in free.items() if value != {}}


def answer_form(declared: Any) -> AnswerForm:
    """The form that a type declares.

    Raises:
        AnswerFormError: it has no JSON Schema.
    """
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(declared)
        schema = adapter.json_schema(by_alias=True, schema_generator=OfferedSchema)
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError, NameError) as error:
        reason = str(error).splitlines()[0]
        raise AnswerFormError(
            f"answer={declared!r} cannot be written as JSON ({reason}). Use a pydantic model, a dataclass, a "
            "TypedDict, or an annotation made of plain types."
        ) from None
    return AnswerForm(adapter, tidied(inlined(schema)))


def held(form: AnswerForm | None, recorded: Schema, answer: str) -> str:
    """The answer as canonical JSON, held against the form if it is the one that the run was opened with.

    Raises:
        MisfitError: it is not of the form.
    """
    text, value = _read(answer)
    if form is None or form.schema != recorded:
        return _checked(recorded, value)
    given = without_nulls(value, recorded, recorded.get("$defs", {}))
    return _typed(form.type, text if given == value else json.dumps(given))


def _read(answer: str) -> tuple[str, Any]:
    """The JSON text of an answer, and its value."""
    text = answer.strip().removeprefix("\ufeff").replace("\r\n", "\n")
    if fenced := _FENCED.fullmatch(text):
        text = fenced["inside"]
    try:
        return text, from_json(text, allow_inf_nan=False)
    except ValueError as error:
        around = " Leave out the words around the value." if re.search(r"[{\[]", text[1:]) else ""
        raise MisfitError(f"it is not one JSON value: {str(error)[:200]}.{around}") from None


def _typed(form: TypeAdapter[Any], given: str) -> str:
    try:
        text = form.dump_json(form.validate_json(given), by_alias=True, round_trip=True).decode()
    except ValidationError as error:
        raise MisfitError(problems(error, "key")) from None
    except Exception as error:  # an author's own validator
        raise MisfitError(f"checking it raised {type(error).__name__}: {error}") from None
    try:
        form.validate_json(text)
    except Exception:
        raise MisfitError("its values do not survive being written down as JSON; use plainer ones") from None
    return text


def _checked(schema: Schema, value: Any) -> str:
    import jsonschema  # slow to import, and rarely needed: after a deploy that changed the type

    error = next(iter(jsonschema.Draft202012Validator(schema).iter_errors(value)), None)
    if error is not None:
        place = ".".join(map(str, error.absolute_path))
        raise MisfitError(f"{f'{place!r}: ' if place else ''}{error.message}")
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def advice(misfit: MisfitError) -> str:
    """What the model is told of an answer that does not fit. The first line says what is wrong."""
    what = " ".join(str(misfit).split())[:MOST_ADVICE]
    return (
        f"Your answer does not have the form it must have: {what}\n"
        "Give the whole answer again, as one JSON value of the form you were told, and nothing else. Call a tool first "
        "if something for it is missing."
    )
