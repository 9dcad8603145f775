"""The leave desk: what is left of Ann's holiday, and booking some of it. Five tools and an agent, over one database.

    perdure dev examples/leave_desk.py          in one terminal: server and worker
    perdure run leave-desk "From ann: ..."      in another

`make demo` plays it whole, without a key, and kills its worker on the way. LEAVE_DESK_DB names the database, and
LEAVE_DESK_MODEL the model: "anthropic:NAME" or "openai:NAME".
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field

from perdure import Agent, Budget, ToolContext, ToolError, tool
from perdure.tools.builtin import calculator, clock

DATABASE = Path(os.environ.get("LEAVE_DESK_DB", ".perdure/leave_desk.sqlite"))
RECORDS_TAKE = 4.0  # seconds. They are slow on purpose: in the demo, the worker is killed while it waits for them

Person = Annotated[str, Field(description="the employee's name, as in 'ann'")]


@dataclass
class Booking:
    number: str
    employee: str
    first_day: date
    last_day: date
    working_days: int


# --- tools that look: they run freely, and again whenever a worker is lost --------------------------------------------


@tool(effect="read")
def hr_lookup(employee: Person) -> dict[str, int]:
    """Look up in the HR file how many days of holiday an employee is entitled to in a year."""
    with database() as hr:
        found = hr.execute("SELECT entitlement FROM employees WHERE name = ?", [employee.casefold()]).fetchone()
    if found is None:
        raise ToolError(f"there is no employee {employee!r} in the HR file. Check the name.")
    return {"entitlement_days": found[0]}


@tool(effect="read")
def leave_records(employee: Person) -> dict[str, int]:
    """Look up the holiday of an employee this year: days taken, and days pending (asked for, not yet approved)."""
    time.sleep(RECORDS_TAKE)
    with database() as hr:
        rows = hr.execute(
            "SELECT status, sum(days) FROM leave WHERE employee = ? GROUP BY status", [employee.casefold()]
        )
        days = dict(rows.fetchall())
    return {"taken_days": days.get("taken", 0), "pending_days": days.get("pending", 0)}


@tool(effect="read")
def policy_lookup(topic: Annotated[str, Field(description="a word or two, such as 'pending days'")]) -> str:
    """Look up what the company's leave policy says about a topic."""
    words = topic.casefold().split()
    with database() as hr:
        texts = [text for (text,) in hr.execute("SELECT text FROM policy")]
    return "\n".join([text for text in texts if any(word in text.casefold() for word in words)] or texts)


# --- the tool that acts: an operator is asked, then it happens once per approved call ---------------------------------


@tool(effect="idempotent")
def book_leave(
    ctx: ToolContext,
    employee: Person,
    first_day: Annotated[date, Field(description="the first day off")],
    days: Annotated[int, Field(ge=1, le=30, description="working days, Monday to Friday")],
) -> Booking:
    """Book holiday for an employee, from the first working day on or after `first_day`."""
    working = working_days(first_day, days)
    with database() as hr:
        # However often this line runs for one approved call, the key is the same, and so is the booking.
        hr.execute(
            "INSERT INTO bookings (key, employee, first_day, last_day, days) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (key) DO NOTHING",
            [ctx.idempotency_key, employee.casefold(), working[0].isoformat(), working[-1].isoformat(), days],
        )
        [number] = hr.execute("SELECT number FROM bookings WHERE key = ?", [ctx.idempotency_key]).fetchone()
    return Booking(f"LV-{number}", employee, working[0], working[-1], days)


def working_days(first: date, count: int) -> list[date]:
    """`count` days from `first` on, without Saturdays and Sundays."""
    week = (first + timedelta(days=ahead) for ahead in range(2 * count + 2))
    return [day for day in week if day.weekday() < 5][:count]


# --- the agent --------------------------------------------------------------------------------------------------------

desk = Agent(
    "leave-desk",
    model=os.environ.get("LEAVE_DESK_MODEL", "anthropic:claude-opus-5-5"),
    instructions=(
        "You are the leave desk. Employees ask what is left of their holiday, and have days booked.\n"
        "Before you say what is left, look up what the policy counts. Book only what was asked for, and only if enough "
        "is left. A date without a year is the next such day from today on: ask the clock."
    ),
    tools=[hr_lookup, leave_records, policy_lookup, calculator, clock, book_leave],
    budget=Budget(turns=12),
)


# --- the HR database: one file, made when it is missing ---------------------------------------------------------------

SCHEMA = """
    CREATE TABLE IF NOT EXISTS employees (name TEXT PRIMARY KEY, entitlement INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS leave (id INTEGER PRIMARY KEY, employee TEXT, status TEXT, days INTEGER);
    CREATE TABLE IF NOT EXISTS policy (topic TEXT PRIMARY KEY, text TEXT);
    CREATE TABLE IF NOT EXISTS bookings (
        number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, employee TEXT, first_day TEXT, last_day TEXT, days INTEGER
    );
    INSERT OR IGNORE INTO employees VALUES ('ann', 28), ('ben', 30);
    INSERT OR IGNORE INTO leave VALUES (1, 'ann', 'taken', 14), (2, 'ann', 'taken', 5), (3, 'ann', 'pending', 2);
    INSERT OR IGNORE INTO policy VALUES
        ('balance', 'What is left is the entitlement, less days taken, less days pending: pending days count as used.'),
        ('notice', 'Holiday is booked by the leave desk, after an operator has approved it.');
"""


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    """A connection for one block; what the block changed is committed when it ends well."""
    DATABASE.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(DATABASE, timeout=10)) as connection:
        connection.executescript(SCHEMA)
        with connection:
            yield connection
