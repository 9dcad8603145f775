"""Text mode under random texts: `python -m tests.providers.fuzz_text --seconds 60` (make fuzz-text).

The checks are those of test_react_properties.py, which plays fewer of them. Texts are pieces of what models write, put
together at random: far more of them are nearly right than with random characters.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from perdure.core.contracts import ToolSpec
from perdure.core.messages import thoughts
from perdure.providers.react import Action, FinalAnswer, Unread, parse


def spec(name: str, **properties: Any) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={"properties": properties}, order=tuple(properties))


TOOLS: Final = (
    spec("search", q={"type": "string"}),
    spec("send", to={"type": "string"}, body={"type": "string"}),
    spec("get", id={"type": "integer"}),
    spec("health"),
)
PIECES: Final = (
    *(
        "Thought:",
        "Action:",
        "Action Input:",
        "Observation:",
        "Final Answer:",
        "**Action:**",
        "action 2 :",
        "Action\uff1a",
    ),
    *(
        "search",
        "send",
        "get",
        "health",
        "Finish",
        "q",
        "to",
        "true",
        "None",
        "7",
        "-1.50",
        "007",
        "x y",
        "\u00e9\u4e2d",
        "\ud800",
    ),
    *('"', "'", "`", "```", "```json\n", "\u201c", "\u201d", '"""', "\\", '\\"', "\\n", "\\u00e9", "\\x"),
    *("[", "]", "(", ")", "{", "}", ",", ":", "=", ".", "<think>", "</think>", "\ufeff"),
    *("\n", "\n", "\r\n", " ", "\t", "\x00"),
)


def check_text(text: str) -> Action | FinalAnswer | Unread:
    """Any text is read, as something that can be recorded and shown."""
    found = parse(text, TOOLS)
    places = [place for span in found.kept for place in span]
    assert places == sorted(places)
    assert not places or (places[0] >= 0 and places[-1] <= len(text))
    match found:
        case Action():
            assert found.name
            assert isinstance(json.loads(found.arguments or "{}"), dict | None)
        case FinalAnswer():
            assert found.answer.strip()
        case Unread():
            assert found.why
    thoughts("text+openai-chat", {"content": text})
    return found


def check_exact(text: str, name: str, arguments: dict[str, Any]) -> None:
    """This very call is read, or none: no argument is ever another one."""
    found = check_text(text)
    assert not isinstance(found, FinalAnswer)
    if isinstance(found, Action):
        assert (found.name, json.loads(found.arguments or "{}") or {}) == (name, arguments), (text, found)


def check_read(text: str, name: str, arguments: dict[str, Any]) -> None:
    """This very call is read."""
    assert isinstance(check_text(text), Action), text
    check_exact(text, name, arguments)


# --- texts ------------------------------------------------------------------------------------------------------------


def anything(dice: random.Random) -> None:
    check_text("".join(dice.choices(PIECES, k=dice.randint(0, 40))))


def anything_in_an_action(dice: random.Random) -> None:
    begin = dice.choice(("Action: search", "Action: send", "Action: Finish", "Action: health", "Action: "))
    check_text(
        begin + dice.choice(("\nAction Input: ", "[", "(", "")) + "".join(dice.choices(PIECES, k=dice.randint(0, 12)))
    )


def an_object(dice: random.Random) -> None:
    arguments = {
        each: dice.choice((_words(dice), dice.random(), [_words(dice)], {_words(dice): None})) for each in "ab"
    }
    written = json.dumps(arguments, indent=dice.choice((None, 2)), ensure_ascii=dice.random() < 0.5)
    check_read(f"Thought: x\nAction: search\nAction Input: {written}{dice.choice(_AFTER)}", "search", arguments)


def a_quoted_text(dice: random.Random) -> None:
    said = _words(dice)
    opener, closer = dice.choice(("[]", "()"))
    check_read(f"Action: search{opener}{json.dumps(said)}{closer}{dice.choice(_AFTER)}", "search", {"q": said})


def an_unquoted_text(dice: random.Random) -> None:
    """Without what gives brackets, quotes and keywords a meaning of their own, and without further lines."""
    said = _words(dice, without="\"'`\u201c\u201d={}\n")
    opener, closer = dice.choice(("[]", "()"))
    check_exact(
        f"Action: search{opener}{said}{closer}{dice.choice(_AFTER)}",
        "search",
        {"q": said.strip()} if said.strip() else {},
    )


def a_text_with_careless_quotes(dice: random.Random) -> None:
    """Quotes and brackets inside that nobody escaped: what is read is the whole, or nothing."""
    said = _careless(dice)
    check_exact(f'Action: search["{said}"]', "search", {"q": said})


def an_object_with_careless_quotes(dice: random.Random) -> None:
    said = _careless(dice)
    check_exact(f'Action: search\nAction Input: {{"q": "{said}"}}', "search", {"q": said})


def _careless(dice: random.Random) -> str:
    """Any text but escapes, labels, further keys, and what makes its quote one of three."""
    said = _words(dice, without="\\:\uff1a")
    return said.lstrip('"') if said.startswith('""') else said


_AFTER: Final = (
    "",
    "\n",
    "\n\nI wait.",
    "\nObservation: done ]})\nFinal Answer: x",
    " Observation: done",
    "\r\nThought: y",
)
KINDS: Final[Sequence[Callable[[random.Random], None]]] = (
    anything, anything_in_an_action, an_object, a_quoted_text, an_unquoted_text, a_text_with_careless_quotes,
    an_object_with_careless_quotes,
)  # fmt: skip


def _words(dice: random.Random, without: str = "") -> str:
    said = "".join(dice.choices(PIECES, k=dice.randint(0, 12)))
    return "".join(each for each in said if each not in without)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=time.time_ns())
    asked = options.parse_args()
    until, seed = time.monotonic() + asked.seconds, asked.seed
    while time.monotonic() < until:
        for kind in KINDS:
            try:
                kind(random.Random(seed))
            except Exception:
                print(f"{kind.__name__}, --seed {seed}", file=sys.stderr)
                raise
        seed += 1
    print(f"{(seed - asked.seed) * len(KINDS):,} texts, from --seed {asked.seed}: no fault found")


if __name__ == "__main__":
    main()
