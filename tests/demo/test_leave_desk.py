"""The leave desk by itself: its tools over a real database, and what its scripted model makes of observations."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from examples import leave_desk, leave_desk_model
from examples.leave_desk import book_leave, hr_lookup, leave_records, policy_lookup, working_days
from perdure import ToolContext, ToolError
from perdure.testing import Seen
from perdure.testing.script import Call, Say
from perdure.tools.agents import lint
from perdure.tools.builtin import calculator

FACTS = ['{"entitlement_days": 28}', '{"taken_days": 19, "pending_days": 2}']
SUMS = ["7", "4"]


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(leave_desk, "DATABASE", tmp_path / "made on the way" / "hr.sqlite")
    monkeypatch.setattr(leave_desk, "RECORDS_TAKE", 0)
    return leave_desk.DATABASE


def bookings(database: Path) -> int:
    with closing(sqlite3.connect(database)) as hr:
        [count] = hr.execute("SELECT count(*) FROM bookings").fetchone()
    return int(count)


def seen(*observations: str, latest: Sequence[str] = ()) -> Seen:
    return Seen("any", leave_desk_model.TASK, 1, observations, latest, (), {}, lambda: 0)


def asked_for(reply: object) -> list[Call]:
    assert isinstance(reply, list)
    return [part for part in reply if isinstance(part, Call)]


def said(reply: object) -> str:
    assert isinstance(reply, list)
    return "".join(part.text for part in reply if isinstance(part, Say))


def test_its_tools_are_described_as_perdure_asks_of_others() -> None:
    assert lint(leave_desk.desk) == []


def test_the_file_says_what_ann_may_take_has_taken_and_has_asked_for() -> None:
    assert hr_lookup("Ann") == {"entitlement_days": 28}
    assert leave_records("ann") == {"taken_days": 19, "pending_days": 2}


def test_the_policy_says_that_pending_days_count() -> None:
    assert "pending days count as used" in policy_lookup("pending days")


def test_an_unknown_topic_brings_the_whole_policy_rather_than_nothing() -> None:
    assert len(policy_lookup("zebra").splitlines()) == 2


def test_an_employee_nobody_knows_is_an_error_that_names_him() -> None:
    with pytest.raises(ToolError, match="'zed'"):
        hr_lookup("zed")


def test_one_key_is_one_booking_however_often_the_call_is_made(database: Path) -> None:
    first, again = (book_leave(ToolContext("key"), "ann", date(2026, 12, 14), 3) for _ in range(2))
    assert first == again
    assert bookings(database) == 1


def test_another_key_is_another_booking(database: Path) -> None:
    first, other = (book_leave(ToolContext(key), "ann", date(2026, 12, 14), 3) for key in ("one", "two"))
    assert first.number != other.number
    assert bookings(database) == 2


@pytest.mark.parametrize(
    ("first", "days", "last"),
    [
        (date(2026, 12, 14), 3, date(2026, 12, 16)),  # Monday to Wednesday
        (date(2028, 12, 14), 3, date(2028, 12, 18)),  # Thursday, over a weekend
        (date(2030, 12, 14), 1, date(2030, 12, 16)),  # a Saturday: the Monday after it
        (date(2026, 12, 14), 30, date(2027, 1, 22)),
    ],
)
def test_working_days_leave_weekends_out(first: date, days: int, last: date) -> None:
    found = working_days(first, days)
    assert len(found) == days
    assert found[-1] == last


@pytest.mark.parametrize(
    ("today", "meant"),
    [
        ("2026-11-29", "2026-12-14"),
        ("2026-12-14", "2026-12-14"),
        ("2026-12-15", "2027-12-14"),
        ("2028-02-29", "2028-12-14"),
    ],
)
def test_14_december_is_the_next_one_whatever_the_day(today: str, meant: str) -> None:
    told = seen(*FACTS, f"{today}T09:00:00+00:00 (a day, UTC)", *SUMS)
    [call] = asked_for(leave_desk_model.booking(told))
    assert call.arguments == {"employee": "ann", "first_day": meant, "days": 3}


def test_what_the_model_calculates_stands_in_observations() -> None:
    left, after = asked_for(leave_desk_model.sums(seen(*FACTS)))
    assert (left.arguments["expression"], after.arguments["expression"]) == ("28 - 19 - 2", "28 - 19 - 2 - 3")
    assert [calculator(call.arguments["expression"]) for call in (left, after)] == SUMS


def test_other_facts_give_another_sum() -> None:
    [left, _] = asked_for(leave_desk_model.sums(seen('{"entitlement_days": 30}', FACTS[1])))
    assert left.arguments["expression"] == "30 - 19 - 2"


def test_the_answer_tells_the_booking_as_it_was_made() -> None:
    booked = {"number": "LV-7", "first_day": "2028-12-14", "last_day": "2028-12-18"}
    told = said(leave_desk_model.answer(seen(*FACTS, *SUMS, json.dumps(booked))))
    assert "14 December 2028 to 18 December 2028 (booking LV-7)" in told
    assert "You have 7 days" in told


@pytest.mark.parametrize("words", ["too busy", "we're closed", 'say "no"'])
def test_the_answer_after_a_rejection_gives_the_operators_words(words: str) -> None:
    rejected = f"not run: an operator (ben) rejected this call. The operator's words: {words!r}. Nothing was done."
    told = said(leave_desk_model.answer(seen(*FACTS, *SUMS, rejected, latest=[rejected])))
    assert f"Nothing was booked: an operator declined it, saying: {words}." in told


def test_a_booking_that_failed_is_not_called_declined() -> None:
    told = said(
        leave_desk_model.answer(seen(*FACTS, *SUMS, "the database is locked", latest=["the database is locked"]))
    )
    assert "Nothing was booked: the database is locked" in told
    assert "declined" not in told
