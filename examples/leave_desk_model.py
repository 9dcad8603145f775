"""A scripted model for the leave desk, so that it runs without a key: what a good model would do, turn by turn.

    python examples/leave_desk_model.py         serves it and prints the variables that point a worker at it

It makes nothing up: figures and dates are read from the observations that the conversation holds, as a model must.
"""

import contextlib
import json
import re
from datetime import date
from typing import Any

from perdure.testing import Reply, Script, ScriptedModel, Seen, call, delay, say, think

TASK = "From ann: How many holiday days do I have left, and book me 3 from 14 December"
_PACE = delay(0.4)  # real models take longer


def facts(seen: Seen) -> Reply:
    return [
        _PACE,
        think("Two facts are needed, and neither depends on the other: ann's entitlement, and what she has used."),
        call("hr_lookup", employee="ann"),
        call("leave_records", employee="ann"),
    ]


def rules(seen: Seen) -> Reply:
    pending = _observed(seen, "pending_days")
    return [
        _PACE,
        think(f"{pending} days are pending. Whether they count is for the policy to say. And which year is meant?"),
        call("policy_lookup", topic="pending days"),
        call("clock", timezone="UTC"),
    ]


def sums(seen: Seen) -> Reply:
    left = " - ".join(str(_observed(seen, name)) for name in ("entitlement_days", "taken_days", "pending_days"))
    return [
        _PACE,
        think("Pending days count as used. What is left now, and what would be left after 3 more?"),
        call("calculator", expression=left),
        call("calculator", expression=f"{left} - 3"),
    ]


def booking(seen: Seen) -> Reply:
    left, _ = _sums(seen)
    return [
        _PACE,
        think(f"{left} days are left, so 3 can be booked."),
        call("book_leave", employee="ann", first_day=_first_day(seen).isoformat(), days=3),
    ]


def answer(seen: Seen) -> Reply:
    left, after = _sums(seen)
    days = {name: _observed(seen, name) for name in ("entitlement_days", "taken_days", "pending_days")}
    basis = (
        f"That is your entitlement of {days['entitlement_days']}, less {days['taken_days']} taken and "
        f"{days['pending_days']} pending, which count as used."
    )
    booked = _record(seen, "number")
    if booked is None:
        return [_PACE, say(f"You have {left} days of holiday left. {basis}\n{_not_booked(seen)}")]
    first, last = (date.fromisoformat(booked[name]) for name in ("first_day", "last_day"))
    return [
        _PACE,
        say(
            f"You have {left} days of holiday left, and 3 of them are booked: {_spelled(first)} to {_spelled(last)} "
            f"(booking {booked['number']}). After that, {after} are left.\n{basis}"
        ),
    ]


SCRIPT = Script([facts, rules, sums, booking, answer], name="leave-desk")


# --- what the observations say ----------------------------------------------------------------------------------------


def _record(seen: Seen, name: str) -> dict[str, Any] | None:
    """The observation that is an object with this field."""
    for text in seen.observations:
        if text.startswith("{") and name in (found := json.loads(text)):
            return dict(found)
    return None


def _observed(seen: Seen, name: str) -> int:
    found = _record(seen, name)
    if found is None:
        raise ValueError(f"no observation holds {name!r}: {seen.observations!r}")
    return int(found[name])


def _sums(seen: Seen) -> tuple[str, str]:
    """The calculator's two results: the only observations that are bare numbers."""
    left, after = [text for text in seen.observations if re.fullmatch(r"-?\d+", text)][:2]
    return left, after


def _first_day(seen: Seen) -> date:
    """The next 14 December, from the day that the clock told."""
    [told] = [text for text in seen.observations if re.match(r"\d{4}-\d{2}-\d{2}T", text)]
    today = date.fromisoformat(told[:10])
    this_year = today.replace(month=12, day=14)
    return this_year if this_year >= today else this_year.replace(year=today.year + 1)


def _spelled(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def _not_booked(seen: Seen) -> str:
    """What was not done, and why: the operator's words if there are any."""
    told = seen.latest[-1] if seen.latest else ""
    if "rejected" not in told:
        return f"Nothing was booked: {told}"
    words = re.search(r"""words: (['"])(.*?)\1\. Nothing""", told, re.DOTALL)
    return f"Nothing was booked: an operator declined it{f', saying: {words[2]}' if words else ''}."


if __name__ == "__main__":
    server = ScriptedModel(SCRIPT)
    print("\n".join(f"export {name}={value}" for name, value in server.env().items()), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve()
