"""What stands between a tool's brackets: `"a", 7, key=true`, or one argument without quotes, to the closing bracket.

A list of values is read if all of it can be; else one unquoted text, if there is only one way to understand it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from perdure.providers.literals import QUOTES, FormError, shown, skipped, value

Given = tuple[str, str]  # a keyword or nothing, and the value as JSON text

_CLOSERS: Final = {"[": "]", "(": ")"}
_KEYWORD: Final = re.compile(r"([A-Za-z_][\w.-]*)\s*=(?!=)\s*")
_WORD: Final = re.compile(rf"[^\s,=()\[\]{{}}\\{re.escape(QUOTES)}]+(?=\s*[,)\]])")


def listed(
    text: str, at: int, opener: str, order: Sequence[str], schemas: Mapping[str, Any], *, known: bool
) -> tuple[str, int]:
    """The arguments from `at` to the closing bracket, as a JSON object's text, and the place behind the bracket.

    Args:
        order: the tool's parameters, in the order in which values without a name fill them.
        schemas: of the parameters, by name.
        known: False for a tool that nobody has: its arguments are read only to find their end.

    Raises:
        FormError: they cannot be read exactly.
    """
    try:
        given, end = _values(text, at, opener, order, schemas)
    except FormError as error:
        return _as_it_stands(text, at, opener, order, error)
    if not known:
        return "{}", end
    if len(given) == 1 and not given[0][0] and given[0][1].startswith("{"):
        return _object(given[0][1], order, schemas), end
    if len(order) == 1 and _is_text(opener, order[0], given):
        return _as_it_stands(text, at, opener, order, FormError("this tool takes one argument; put quotes around it"))
    return named(order, given), end


def _is_text(opener: str, parameter: str, given: Sequence[Given]) -> bool:
    """Whether what could be read as several values, or as another parameter's, is one text that looks like it."""
    keys = [key for key, _ in given if key]
    return (len(given) > 1 and not keys) or (opener == "[" and bool(keys) and keys != [parameter])


def named(order: Sequence[str], given: Sequence[Given]) -> str:
    """A JSON object's text: values without a keyword under the parameters' names, in their order.

    Raises:
        FormError: there are more values than parameters, or one without a name behind one with a name.
    """
    positional = [each for each in given if not each[0]]
    if len(positional) > len(order):
        takes = f"{len(order)}: {', '.join(order)}" if order else "none"
        raise FormError(f"there are {len(positional)} arguments, and the tool takes {takes}")
    if any(not key for key, _ in given[len(positional) :]):
        raise FormError("an argument without a name stands behind one with a name")
    names = [*order[: len(positional)], *(key for key, _ in given[len(positional) :])]
    pairs = (f"{json.dumps(name)}:{said}" for name, (_, said) in zip(names, given, strict=True))
    return "{" + ",".join(pairs) + "}"


# --- a list of values -------------------------------------------------------------------------------------------------


def _values(
    text: str, at: int, opener: str, order: Sequence[str], schemas: Mapping[str, Any]
) -> tuple[list[Given], int]:
    closer = _CLOSERS[opener]
    given: list[Given] = []
    here = skipped(text, at)
    while given or text[here : here + 1] != closer:
        keyword = _KEYWORD.match(text, here)
        key = keyword[1] if keyword else ""
        here = keyword.end() if keyword else here
        place = key or (order[len(given)] if len(given) < len(order) else "")
        said, here = _value(text, here, schemas.get(place, {}), bare=bool(key) and (opener == "(" or len(order) > 1))
        given.append((key, said))
        here = skipped(text, here)
        if text[here : here + 1] == closer:
            break
        if text[here : here + 1] != ",":
            raise FormError(f"a comma or {closer} is expected where {shown(text, here)} stands")
        here = skipped(text, here + 1)
    return given, here + 1


def _value(text: str, at: int, schema: Any, *, bare: bool) -> tuple[str, int]:
    """A value. What has no quotes is a text where the parameter takes nothing else; `bare`: so is any word."""
    try:
        said, end = value(text, at)
    except FormError:
        word = _WORD.match(text, at) if bare else None
        if word is None:
            raise
        return json.dumps(word[0], ensure_ascii=False), word.end()
    if text[at] == "{" or text[at] in QUOTES or _takes(schema, _kind(said)) or not _takes(schema, "string"):
        return said, end
    return json.dumps(text[at:end]), end


def _kind(said: str) -> str:
    """The JSON Schema type of a list, a number or a word."""
    if said.startswith("["):
        return "array"
    words = {"true": "boolean", "false": "boolean", "null": "null"}
    return words.get(said) or ("number" if re.search("[.eE]", said) else "integer")


def _takes(schema: Any, kind: str) -> bool:
    """Whether a schema lets values of this type through. One that does not say takes whatever is no text."""
    if not isinstance(schema, dict):
        return True
    if branches := schema.get("anyOf"):
        return any(_takes(branch, kind) for branch in branches)
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return kind in {"string" if isinstance(choice, str) else _kind(json.dumps(choice)) for choice in choices}
    kinds = schema.get("type")
    if kinds is None:
        return kind != "string"
    taken = {kinds} if isinstance(kinds, str) else set(kinds)
    return kind in taken or (kind == "integer" and "number" in taken)


def _object(said: str, order: Sequence[str], schemas: Mapping[str, Any]) -> str:
    """One object between the brackets: the arguments themselves, or the value of a parameter that takes objects."""
    names = set(json.loads(said, parse_int=str, parse_float=str))
    takes = bool(order) and _takes(schemas.get(order[0]), "object")
    if not takes and (len(order) != 1 or names <= set(order)):
        return said
    if takes and not names & set(order):
        return named(order, [("", said)])
    raise FormError(
        "an object stands between the brackets, and it can be the arguments or one of them. Write the arguments as "
        "Action Input"
    )


# --- one text without quotes ------------------------------------------------------------------------------------------


def _as_it_stands(text: str, at: int, opener: str, order: Sequence[str], error: FormError) -> tuple[str, int]:
    """A text to the bracket that closes it in the same line. `error`: why it is no list of values."""
    end = _closing(text, at, opener)
    body = text[at:end].strip()
    if end < 0 or not order or body.startswith("{") or (len(order) > 1 and re.search("[,=]", body)):
        raise error
    return unquoted(body, order), end + 1


def unquoted(body: str, order: Sequence[str]) -> str:
    """A JSON object's text, with a text without quotes for the first parameter.

    Raises:
        FormError: it can be understood in several ways.
    """
    said = body.strip()
    if not said or said[0] in QUOTES or said[-1] in QUOTES:
        raise FormError(f"the quotes around {said[:30]!r} don't fit. Write the arguments as a JSON object")
    if re.match(rf"{re.escape(order[0])}\s*[=:]", said):
        raise FormError(f"it can be read as a text, or as the value of {order[0]!r}. Put quotes around the value")
    return named(order, [("", json.dumps(said, ensure_ascii=False))])


def _closing(text: str, at: int, opener: str) -> int:
    """Where the bracket is closed in this line, with those inside of it closed too; -1 if it is not."""
    depth = 0
    for here in range(at, len(text)):
        character = text[here]
        if character == "\n":
            return -1
        if character == _CLOSERS[opener]:
            depth -= 1
            if depth < 0:
                return here
        depth += character == opener
    return -1
