"""Scripts as files, for people: YAML or JSON, the same words as in Python.

A part is a text or a mapping with one key, its word; a turn is a part or a list of parts; a file is a list of turns,
or a mapping of `model`, `name` and `turns`, or a list of such mappings under `scripts`. `FORMAT` teaches it. A mapping
may also hold the `task` and the `decisions` of a whole case, which the model does not need: see `cases.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ConfigDict, ValidationError, validate_call

from perdure.testing import script
from perdure.testing.script import ABSENT, Absent, Script, ScriptError, Turn

FORMAT: Final = """\
A script is a list of turns, one for each reply of the model; a turn is one part or a list of parts:

  model: scripted-leave            # optional: the model name it answers to
  turns:
    - - think: I need two facts    # signed thinking, before what follows
      - call: {name: hr_lookup, arguments: {employee: ann}}
      - call: {name: leave_records, arguments: {employee: ann}}
    - - error: {status: 529, retry_after: 1, times: 2}   # twice, then:
      - say: 9 days left
    - a plain text is the same as say

Parts:
  say: TEXT                        think: TEXT | {text, redacted: true}
  call: NAME | {name, arguments: {...} | raw: 'STRING' or null, id: ID}
  refuse: TEXT                     pause: {name, input: {...}}        (Anthropic)
  blank: empty | null | text       block: {type: ..., ...}            (sent as it is)
  truncate:                        stop: REASON or null               (null: none is sent)
  delay: SECONDS
Faults, before the rest of the turn; `times` attempts, 1 by default, without end if nothing follows:
  error: STATUS | {status, kind, message, retry_after, should_retry, times}
  raw: BODY | {body, status, content_type, times}
  failed: {code, message, times}   cut: BYTES | {after_bytes, clean, times}

A file with several scripts holds them under `scripts:`, each with its own `model:`.
`task:` and `decisions:` beside `turns:` make it a case: `perdure cases RUN` writes it, `load_case` reads it.
The number of assistant turns in a request selects the turn, so a retried request gets the same reply.
"""


_KEYS: Final = {"model": None, "name": None, "turns": None, "task": None, "decisions": None}  # in this order


def content_of(path: Path) -> Any:
    """What a file holds, unchecked. Raises ScriptError."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as missing:
        raise ScriptError(f"can't read {str(path)!r}: {missing.strerror}; name a YAML or JSON file") from missing
    except (yaml.YAMLError, UnicodeDecodeError) as broken:
        raise ScriptError(f"{path.name} is neither YAML nor JSON: {broken}") from broken


def load_scripts(path: Path, model: str | None = None) -> list[Script]:
    """The scripts of a file. `model` replaces a sole script's model name. Raises ScriptError."""
    content = content_of(path)
    given = content["scripts"] if isinstance(content, dict) and "scripts" in content else [content]
    if not isinstance(given, list):
        raise ScriptError(f"{path.name}: `scripts` is {given!r}; it must be a list of {{model, turns}}")
    if model is not None and len(given) > 1:
        raise ScriptError(f"{path.name} has {len(given)} scripts; --model fits a file with one")
    try:
        return [_script(each, model) for each in given]
    except ScriptError as wrong:
        raise ScriptError(f"{path.name}: {wrong}") from None


def _script(content: object, model: str | None) -> Script:
    found: Any = {"turns": content} if isinstance(content, list) else content
    if not isinstance(found, dict) or not isinstance(found.get("turns"), list):
        raise ScriptError(f"a script is {_shown(content)}; it must be a list of turns, or {{model, turns: [...]}}")
    unknown = found.keys() - _KEYS
    if unknown:
        known = ", ".join(_KEYS)
        raise ScriptError(f"a script has the unknown key {min(unknown, key=str)!r}; known are {known}")
    turns = [_turn(number, each) for number, each in enumerate(found["turns"], 1)]
    return Script(turns, model=model or found.get("model"), name=found.get("name", ""))


def _turn(number: int, content: object) -> Turn:
    parts = content if isinstance(content, list) else [content]
    made = []
    for index, part in enumerate(parts, 1):
        try:
            made.append(_part(part))
        except ScriptError as wrong:
            raise ScriptError(f"turn {number}, part {index}: {wrong}") from None
    try:
        return script.turn(made)
    except ScriptError as wrong:
        raise ScriptError(f"turn {number}: {wrong}") from None


def _part(content: object) -> script.Part:
    if isinstance(content, str):
        return script.say(content)
    if not isinstance(content, dict) or len(content) != 1:
        raise ScriptError(f"{_shown(content)} must be a text, or a mapping with one key of: {', '.join(_WORDS)}")
    word, value = next(iter(content.items()))
    if word not in _WORDS:
        raise ScriptError(f"{word!r} is no part of a turn; known are {', '.join(_WORDS)}")
    make, main = _WORDS[word]
    arguments = value if isinstance(value, dict) and word != "block" else {main: value} if main else {}
    try:
        made: script.Part = make(**arguments)
    except (ValidationError, TypeError) as wrong:
        takes = ", ".join(inspect.signature(make).parameters)
        raise ScriptError(f"`{word}` {_told(wrong)}; it takes {takes}") from None
    return made


def _told(wrong: ValidationError | TypeError) -> str:
    if isinstance(wrong, TypeError):
        return f"has keys that are not plain words ({wrong})"
    first = wrong.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    match first["type"]:
        case "unexpected_keyword_argument":
            return f"has the unknown key {place!r}"
        case "missing" | "missing_argument":
            return f"lacks {place!r}"
        case _:
            return f"has {place} = {first['input']!r}: {first['msg'].lower()}"


def _call(
    name: str, arguments: dict[str, Any] | None = None, id: str | None = None, raw: str | Absent | None = ABSENT
) -> script.Call:
    return script.call(name, arguments, id=id, raw=raw)


def _pause(name: str = "web_search", input: dict[str, Any] | None = None) -> script.Pause:
    return script.Pause(name, input or {})


def _blank(form: script.BlankForm | None = "empty") -> script.Blank:
    return script.blank(form or "null")  # YAML reads a bare `null` as None


def _block(content: dict[str, Any]) -> script.Block:
    if not isinstance(content.get("type"), str):
        raise ScriptError(f"`block` is {_shown(content)}; it needs a `type`")
    return script.block(content)


def _shown(content: object) -> str:
    shown = repr(content)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def _checked(make: Callable[..., script.Part]) -> Callable[..., script.Part]:
    return validate_call(config=ConfigDict(strict=True, arbitrary_types_allowed=True))(make)


# word: what makes the part of it, and the argument that a plain value stands for
_WORDS: Final[dict[str, tuple[Callable[..., script.Part], str | None]]] = {
    "say": (_checked(script.say), "text"),
    "think": (_checked(script.think), "text"),
    "call": (_checked(_call), "name"),
    "refuse": (_checked(script.refuse), "text"),
    "pause": (_checked(_pause), "name"),
    "block": (_checked(_block), "content"),
    "blank": (_checked(_blank), "form"),
    "truncate": (_checked(script.truncate), None),
    "stop": (_checked(script.stop), "reason"),
    "delay": (_checked(script.delay), "seconds"),
    "error": (_checked(script.error), "status"),
    "raw": (_checked(script.raw), "body"),
    "failed": (_checked(script.failed), "code"),
    "cut": (_checked(script.cut), "after_bytes"),
}
