"""What an author expects of an agent: which tools a task needs. Kept in a file beside the agent, YAML or JSON.

    - task: "*refund*"            # a pattern with * and ?, whatever the case; the first that fits a run's task counts
      tools: [order, refund]      # each is to be called at least once
      also: [clock]               # may be called besides; anything else is a wrong tool

A run is right when it called every one of `tools`, and nothing but `tools` and `also`. In which order, how often and
with which arguments does not matter here: that is a test's business.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from perdure.traces.shape import Trace


class ExpectationsError(ValueError):
    """A file that holds no expectations; the text says where, what is wrong, and the right form."""


class Expectation(BaseModel):
    """The tools that a task like `task` needs, and those that it may use besides."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    task: str = Field(min_length=1)
    tools: list[str]
    also: list[str] = []


@dataclass(frozen=True)
class Judged:
    """A run beside what was expected of it: tools it did not call, and those it called against it."""

    missing: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def right(self) -> bool:
        return not (self.missing or self.wrong)


_FORM: Final = '[{task: "*refund*", tools: [order, refund], also: [clock]}, ...]'
_LIST: Final = TypeAdapter(list[Expectation])


def read(text: str) -> list[Expectation]:
    """The expectations of a file's text.

    Raises:
        ExpectationsError: it is no list of them.
    """
    try:
        return _LIST.validate_python(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ExpectationsError(f"it is neither YAML nor JSON ({error}). Write {_FORM}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise ExpectationsError(f"{place}, {first['input']!r:.80}: {first['msg'].lower()}. Write {_FORM}") from None


def judged(trace: Trace, expected: Sequence[Expectation]) -> Judged | None:
    """The run beside the first expectation whose pattern its task fits; None if there is none."""
    task = trace.task.lower()
    for one in expected:
        if fnmatchcase(task, one.task.lower().replace("[", "[[]")):
            called = dict.fromkeys(call.tool for turn in trace.turns for call in turn.calls)
            return Judged(
                missing=tuple(tool for tool in one.tools if tool not in called),
                wrong=tuple(tool for tool in called if tool not in (*one.tools, *one.also)),
            )
    return None
