"""A run of the past as a test: its task, what its model said, and what people decided.

    case = load_case("order-17.yaml")  # written by `perdure cases order-17 > order-17.yaml`
    played = await play(desk, case.script, case.task, approve=case.decide)

The file is a script's (`script_file.py`) with `task` and `decisions` beside its turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from perdure.core.contracts import Choice, Request, RequestKind
from perdure.testing.play import PlayError
from perdure.testing.script import Script, ScriptError
from perdure.testing.script_file import content_of, load_scripts


class Decided(BaseModel):
    """What was said to a request. `words`: the reason, or with `happened` what came of the call."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: RequestKind = RequestKind.APPROVAL
    turn: int
    call: int
    choice: Choice
    words: str = ""


@dataclass(frozen=True)
class Case:
    """`script` and `task` to play, and `decide` to stand for the people who decided."""

    task: str
    script: Script
    decisions: Sequence[Decided] = ()

    def decide(self, request: Request) -> tuple[Choice, str]:
        """What was said to this request the last time. For `play(approve=...)`.

        Raises:
            PlayError: nobody was asked then, or nobody had answered.
        """
        place = (request.kind, request.turn, request.call)
        for each in self.decisions:
            if (each.kind, each.turn, each.call) == place:
                return each.choice, each.words
        raise PlayError(
            f"{request.kind.value} of {request.title or request.tool or f'turn {request.turn}'} waits, because "
            f"{request.reason}; in this case nobody decided on it. Does the agent ask for more than it did? If it is "
            f"to: add {{kind: {request.kind.value}, turn: {request.turn}, call: {request.call}, choice: ...}} to "
            "`decisions`"
        )


_DECISIONS: TypeAdapter[list[Decided]] = TypeAdapter(list[Decided])


def load_case(path: Path | str) -> Case:
    """The case in a file.

    Raises:
        ScriptError: it holds none, and what is wrong with it.
    """
    path = Path(path)
    content: Any = content_of(path)
    if not isinstance(content, dict) or not isinstance(content.get("task"), str):
        raise ScriptError(f"{path.name} holds no case: it needs `task`, a text, beside `turns`")
    [script] = load_scripts(path)
    try:
        decisions = _DECISIONS.validate_python(content.get("decisions", []))
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ScriptError(f"{path.name}: decisions.{place} = {first['input']!r}: {first['msg'].lower()}") from None
    return Case(content["task"], script, decisions)
