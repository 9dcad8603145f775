"""Between what a model asked for and what may happen: every call is admitted, with one verdict.

A call that cannot run is refused here, before a person is asked and before anything runs, in words the model can act
on. Nothing is guessed: no other tool, no dropped argument, no completed JSON.
"""

import difflib
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from perdure.core import inert
from perdure.core.contracts import AdmittedCall, Effect, Verdict
from perdure.core.digests import of_bytes
from perdure.tools import conditions
from perdure.tools.builtin import question_of
from perdure.tools.declare import Tool
from perdure.tools.delegating import delegate_of
from perdure.tools.parameters import ArgumentsError

MOST_ADVICE: Final = 2_000  # characters
MOST_TITLE: Final = 100
MOST_ARGUMENTS: Final = 256_000  # UTF-8 bytes: a turn must fit well into one recorded payload
_MOST_LISTED = 40


def admit(
    tools: Mapping[str, Tool], index: int, id: str, name: str, arguments: str, whole: bool = True
) -> AdmittedCall:
    """Judge one call of a turn. Never raises for anything a model can write.

    Args:
        tools: the agent's, by name.
        index: the call's place in its turn, from 0.
        name, arguments: as the model wrote them; `arguments` may be empty or broken JSON.
        whole: False when the output limit cut the call.
    """
    tool = tools.get(name)
    given, problem = _read(arguments)
    if not whole:
        problem = "this call was cut at the output limit and did not run. Make it again, shorter or in smaller parts."
    elif tool is None:
        problem = _unknown(name, tools)
    if tool is None or problem:
        return _refused(tool, index, id, name, given, problem)
    try:
        text, keywords = tool.parameters.normalise(given)
    except ArgumentsError as error:
        return _refused(tool, index, id, name, given, _wrong(tool, error))
    verdict, reason = judge(tool, keywords)
    call = _call(tool, index, id, name, text, verdict, reason)
    return call.model_copy(update={"question": question_of(tool, keywords), "delegate": delegate_of(tool, keywords)})


def judge(tool: Tool, arguments: Mapping[str, Any]) -> tuple[Verdict, str]:
    """Whether a call runs freely or a person is asked, and why. `arguments` are validated values."""
    if tool.ask is False:
        return Verdict.RUN, ""
    if tool.ask is True:
        return Verdict.ASK, "this tool always asks"
    if tool.ask is None:
        if tool.effect is Effect.READ:
            return Verdict.RUN, ""
        return Verdict.ASK, f"it acts (effect: {tool.effect}), and nothing says that it may run freely"
    try:
        holds = conditions.holds(tool.ask, arguments)
    except Exception as error:
        return Verdict.ASK, f"its condition {tool.ask!r} could not be judged ({type(error).__name__}: {error})"[:500]
    return (Verdict.ASK, f"its condition holds: {tool.ask}") if holds else (Verdict.RUN, "")


def _call(
    tool: Tool | None, index: int, id: str, name: str, arguments: str, verdict: Verdict, reason: str
) -> AdmittedCall:
    declared: dict[str, Any] = {}
    if tool is not None:
        declared = {"effect": tool.effect, "timeout": tool.timeout}
        declared["probe"] = tool.probe is not None
    legal = wire_name(name)
    return AdmittedCall(
        index=index,
        id=id,
        name=legal,
        asked_name="" if legal == name else _storable(name)[:1_000],
        verdict=verdict,
        reason=_storable(reason if len(reason) <= MOST_ADVICE else reason[: MOST_ADVICE - 4] + " ..."),
        digest=of_bytes(arguments),
        title=title(legal, json.loads(arguments)),
        arguments=arguments,
        **declared,
    )


def _refused(tool: Tool | None, index: int, id: str, name: str, given: dict[str, Any], problem: str) -> AdmittedCall:
    """A refused call keeps what could be read of its arguments, for the trace."""
    return _call(tool, index, id, name, json.dumps(given, separators=(",", ":")), Verdict.REFUSE, problem)


# --- advice -----------------------------------------------------------------------------------------------------------


def _unknown(name: str, tools: Mapping[str, Tool]) -> str:
    shown = inert.line(name, 80)
    if name.startswith("multi_tool_use"):
        return f"there is no tool {shown!r}. Call the tools themselves, several in one turn. {_listed(tools)}"
    plain = re.split(r"[^a-zA-Z0-9_-]", name.removeprefix("functions."))[0]
    close = difflib.get_close_matches(plain, tools, n=1, cutoff=0.6) or difflib.get_close_matches(name, tools, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return f"there is no tool {shown!r}, so nothing ran. {hint}{_listed(tools)}"


def _listed(tools: Mapping[str, Tool]) -> str:
    if not tools:
        return "You have no tools: answer with what you know."
    more = f" and {len(tools) - _MOST_LISTED} more" if len(tools) > _MOST_LISTED else ""
    return f"Your tools: {', '.join(list(tools)[:_MOST_LISTED])}{more}."


def _wrong(tool: Tool, error: ArgumentsError) -> str:
    said = inert.line(str(error), 1_200)
    return f"{tool.name} did not run: {said}. {_form(tool)}"


def _form(tool: Tool) -> str:
    schema = tool.parameters.schema
    required = schema.get("required", ())
    names = [name if name in required else f"{name} (optional)" for name in schema.get("properties", {})]
    return f"It takes: {', '.join(names)}." if names else "It takes no arguments: {}."


# --- reading ----------------------------------------------------------------------------------------------------------


class _RefusedJSONError(ValueError):
    pass


def _read(arguments: str) -> tuple[dict[str, Any], str]:
    """The arguments as an object, or an empty one and what is wrong with them."""
    if arguments.strip() in ("", "null"):
        return {}, ""
    try:
        if len(arguments.encode()) > MOST_ARGUMENTS:
            raise _RefusedJSONError(f"they are longer than {MOST_ARGUMENTS:,} bytes")
        given = json.loads(arguments, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_number)
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeError:
        return {}, _unreadable("a character is half of a surrogate pair")
    except json.JSONDecodeError as error:
        return {}, _unreadable(f"{error.msg} at character {error.pos}")
    except (ValueError, RecursionError) as error:
        return {}, _unreadable("nested too deeply" if isinstance(error, RecursionError) else str(error))
    if not isinstance(given, dict):
        kind = {list: "a list", str: "a text", bool: "true or false"}.get(type(given), "a number")
        return {}, f'the arguments are {kind}, not a JSON object, so nothing ran. Name each: {{"name": value}}.'
    return given, ""


def _unreadable(why: str) -> str:
    return f"the arguments are not valid JSON, so nothing ran: {inert.line(why, 300)}. Send one JSON object."


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _RefusedJSONError(f"the key {name[:80]!r} stands there twice")
        found[name] = value
    return found


def _no_constant(text: str) -> Any:
    raise _RefusedJSONError(f"{text} is not a JSON number")


def _number(text: str) -> float | str:
    """A float where one holds the number exactly as written, else its text: a Decimal must not lose digits here."""
    number = float(text)
    if not math.isfinite(number):
        raise _RefusedJSONError(f"{text[:40]} is too large a number")
    return number if Decimal(repr(number)) == Decimal(text) else text


# --- names and titles -------------------------------------------------------------------------------------------------


def wire_name(name: str) -> str:
    """The name as it can stand in a transcript: every vendor takes it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def title(name: str, arguments: Mapping[str, Any]) -> str:
    """A call in one short inert line: book_leave(employee="ann", days=3)."""
    said = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
    return inert.line(f"{name}({said})", MOST_TITLE)


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
