"""One branch of the shop: a toolkit over a database of its own, which acts once per key, and writes down all it does.

The first answer given for a key is the answer for that key, be it a result or the tool's error. The journal knows
nothing of that: it records what was executed when it was executed, so that counting its lines (`audit`) is a check of
the rule and not a repetition of it.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pydantic_core import to_jsonable_python


class Toolkit(Protocol):
    """What the trial uses of a tau2 toolkit: methods that are tools, each marked, over one database."""

    @property
    def tools(self) -> dict[str, Callable[..., Any]]: ...

    def tool_type(self, tool_name: str) -> str:
        """The mark: "read", "write", "think" or "generic"."""
        ...

    def get_db_hash(self) -> str: ...


class MisuseError(Exception):
    """A call that no correct client makes: the shop did nothing, and the trial must not pass."""


@dataclass(frozen=True)
class Answer:
    """What came of a call: the tool's result as JSON, or the text of the error it raised."""

    result: Any = None
    error: str | None = None


class Journal:
    """JSON lines, one an event, in the order things happened; complete up to the last line at any moment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        line = json.dumps({"at": datetime.now(UTC).isoformat(), "event": event, **fields})
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class Branch:
    """One run's shop. Safe to call from several threads: a second call with a key waits for the first one's answer."""

    def __init__(self, name: str, toolkit: Toolkit, journal: Journal) -> None:
        self.name = name
        self._toolkit: Toolkit | None = toolkit
        self._journal = journal
        self._lock = threading.Lock()
        self._first: dict[str, tuple[str, Answer]] = {}  # key -> the action it was given for, the answer
        self._hash = ""

    def call(self, tool: str, arguments: dict[str, Any], key: str = "") -> Answer:
        """Execute a call, or, for a write whose key was seen before, give the first answer again.

        Raises:
            MisuseError: unknown tool, a write without key, a key used for another action, or a closed branch.
        """
        with self._lock:
            writes = self._writes(tool)
            if not writes:
                return self._execute("read", tool, arguments, key)
            return self._once(tool, arguments, key)

    def close(self) -> str:
        """The database's hash, now final; frees the database. Late duplicates still get their answers."""
        with self._lock:
            if self._toolkit is not None:
                self._hash = self._toolkit.get_db_hash()
                self._toolkit = None
                self._journal.write("closed", branch=self.name, hash=self._hash)
            return self._hash

    def hash(self) -> str:
        with self._lock:
            return self._toolkit.get_db_hash() if self._toolkit is not None else self._hash

    def _writes(self, tool: str) -> bool:
        if self._toolkit is None:
            return True  # closed: only a duplicate of a write can still be answered
        if tool not in self._toolkit.tools:
            raise self._misuse(f"the shop has no tool {tool!r}")
        return self._toolkit.tool_type(tool) == "write"

    def _once(self, tool: str, arguments: dict[str, Any], key: str) -> Answer:
        action = _action(tool, arguments)
        if not key:
            raise self._misuse(f"{tool!r} writes, and came without a key")
        if key not in self._first:
            answer = self._execute("effect", tool, arguments, key)
            self._first[key] = (action, answer)
            return answer
        first_action, answer = self._first[key]
        if first_action != action:
            raise self._misuse(f"key {key!r} belongs to {first_action}, and came with {action}")
        self._journal.write("duplicate", branch=self.name, key=key, action=action)
        return answer

    def _execute(self, event: str, tool: str, arguments: dict[str, Any], key: str) -> Answer:
        if self._toolkit is None:
            raise self._misuse(f"{tool!r} was called for the first time after the branch was closed")
        try:
            result = self._toolkit.tools[tool](**arguments)
            answer = Answer(result=to_jsonable_python(result))
        except Exception as error:  # the toolkit raises bare ValueErrors; they are its answers
            answer = Answer(error=str(error))
        self._journal.write(event, branch=self.name, key=key, action=_action(tool, arguments), error=answer.error)
        return answer

    def _misuse(self, text: str) -> MisuseError:
        self._journal.write("misuse", branch=self.name, text=text)
        return MisuseError(f"{self.name}: {text}")


class Shop:
    """All branches, by name."""

    def __init__(self, stocked: Callable[[], Toolkit], journal: Journal) -> None:
        self._stocked = stocked
        self._journal = journal
        self._branches: dict[str, Branch] = {}

    def open(self, name: str) -> None:
        """A branch with an untouched database.

        Raises:
            MisuseError: it was opened before; what was done there must not be forgotten.
        """
        if name in self._branches:
            raise self._misuse(name, "was opened before")
        self._branches[name] = Branch(name, self._stocked(), self._journal)
        self._journal.write("opened", branch=name)

    def branch(self, name: str) -> Branch:
        try:
            return self._branches[name]
        except KeyError:
            raise self._misuse(name, "was never opened") from None

    def _misuse(self, name: str, text: str) -> MisuseError:
        self._journal.write("misuse", branch=name, text=text)
        return MisuseError(f"branch {name!r} {text}")


@dataclass(frozen=True)
class Audit:
    """A journal, counted. `writes` are executed writes, those included that ended in the tool's error."""

    calls: int
    writes: int
    errors: int
    duplicates_refused: int
    effects_twice: int
    misuses: int


def audit(lines: Iterable[str]) -> Audit:
    """Count a journal's lines.

    An effect happened twice if one action (tool and arguments) was executed more than once on one branch, under the
    same key or, which is how an unstable key would show, under another. No task of the benchmark asks for the same
    write twice; `cases.py` checks that.
    """
    events = [json.loads(line) for line in lines]
    kinds = Counter(event["event"] for event in events)
    effects = Counter((event["branch"], event["action"]) for event in events if event["event"] == "effect")
    return Audit(
        calls=kinds["read"] + kinds["effect"],
        writes=kinds["effect"],
        errors=sum(bool(event.get("error")) for event in events),
        duplicates_refused=kinds["duplicate"],
        effects_twice=sum(count > 1 for count in effects.values()),
        misuses=kinds["misuse"],
    )


def _action(tool: str, arguments: dict[str, Any]) -> str:
    return f"{tool}({json.dumps(arguments, sort_keys=True)})"
