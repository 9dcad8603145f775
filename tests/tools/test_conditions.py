"""When a person is asked."""

from decimal import Decimal
from typing import Any

import pytest

from perdure.core.contracts import Verdict
from perdure.tools.admission import admit, judge
from perdure.tools.conditions import ConditionError, check, holds
from perdure.tools.declare import tool


@pytest.mark.parametrize(
    ("condition", "arguments", "expected"),
    [
        ("amount > 100", {"amount": Decimal("100.01")}, True),
        ("amount > 100", {"amount": Decimal("100.00")}, False),
        ("amount >= 0.1", {"amount": Decimal("0.1")}, True),
        ("amount == 0.1", {"amount": Decimal("0.1")}, True),
        ("amount * 1.19 > 100", {"amount": Decimal("84.04")}, True),
        ("country not in ('DE', 'FR')", {"country": "US"}, True),
        ("country in ['DE', 'FR'] and not draft", {"country": "DE", "draft": False}, True),
        ("len(lines) > 2", {"lines": [1, 2]}, False),
        ("any([line > 5 for line in lines])", {"lines": [1, 9]}, True),
        ("note is None or note == ''", {"note": None}, True),
        ("0 < days <= 5", {"days": 5}, True),
    ],
)
def test_conditions_hold_as_written(condition: str, arguments: dict[str, Any], expected: bool) -> None:
    check(condition, arguments)
    assert holds(condition, arguments) is expected


@pytest.mark.parametrize(
    "condition",
    ["", "amount >", "a = 1", "other > 1", "(lambda: 1)()", "amount; 1", "__import__('os')", "open('x')", "[x := 1]"],
)
def test_a_condition_that_cannot_be_meant_is_refused(condition: str) -> None:
    with pytest.raises(ConditionError):
        check(condition, ["amount"])


def test_a_condition_that_errors_asks_and_says_so() -> None:
    def pay(amount: Decimal, parts: int) -> None: ...

    verdict, reason = judge(tool(pay, ask="amount / parts > 5"), {"amount": Decimal(1), "parts": 0})
    assert verdict is Verdict.ASK
    assert "could not be judged" in reason


@pytest.mark.parametrize("value", [float("nan"), Decimal("NaN")])
def test_a_number_that_is_none_never_runs_freely(value: Any) -> None:
    def pay(amount: float) -> None: ...

    assert judge(tool(pay, ask="amount > 100"), {"amount": value})[0] is Verdict.ASK


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Verdict.ASK),
        ({"effect": "read"}, Verdict.RUN),
        ({"effect": "idempotent"}, Verdict.ASK),
        ({"effect": "once", "ask": False}, Verdict.RUN),
        ({"effect": "read", "ask": True}, Verdict.ASK),
        ({"effect": "read", "ask": "amount > 100"}, Verdict.ASK),
        ({"effect": "once", "ask": "amount > 1000"}, Verdict.RUN),
    ],
)
def test_without_a_word_reads_run_and_whatever_acts_asks(options: dict[str, Any], expected: Verdict) -> None:
    def pay(amount: int) -> None: ...

    call = admit({"pay": tool(pay, **options)}, 0, "c", "pay", '{"amount": 200}')
    assert call.verdict is expected
    assert bool(call.reason) is (expected is Verdict.ASK)
