"""The calculator is exact, bounded, and clear about what it will not do."""

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.contracts import Effect
from perdure.tools.builtin import calculator, clock
from perdure.tools.declare import ToolError


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("28 - 19 - 2", "7"),
        ("0.1 + 0.2", "0.3"),
        ("1 / 3 * 3", "1"),
        ("1 / 4", "0.25"),
        ("2 / 3", "0.6666666666666666666666666667 (rounded to 28 digits)"),
        ("-7.5 // 2", "-4"),
        ("-7 % 3", "2"),
        ("2 ** 10", "1024"),
        ("2 ** -2", "0.25"),
        ("2 ** 0.5", "1.414213562373095048801688724"),
        ("(1 + 2) * -3", "-9"),
        ("round(2.665, 2)", "2.67"),
        ("round(-0.5)", "-1"),
        ("round(1250, -2)", "1300"),
        ("min(3, 1.5) + max([1, 2])", "3.5"),
        ("sum(1, 2, 3) - abs(-6)", "0"),
        ("1e3", "1000"),
        ("1_000 \u00d7 2 \u00f7 5", "400"),
        ("12345678901234567.89 + 0.01", "12345678901234567.9"),
    ],
)
def test_sums_come_out_exactly(expression: str, result: str) -> None:
    assert calculator(expression) == result


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("1 / 0", "divides by zero"),
        ("1,200 * 3", "thousands separators"),
        ("19% of 200", "no arithmetic expression"),
        ("2 ^ 3", "**"),
        ("", "no arithmetic expression"),
        ("x + 1", "'x'"),
        ("__import__('os')", "cannot be worked out"),
        ("().__class__", "cannot be worked out"),
        ("'a' * 9", "not a number"),
        ("True + 1", "not a number"),
        ("[1, 2]", "not a number"),
        ("[n for n in [1]]", "cannot be worked out"),
        ("1 if 2 else 3", "cannot be worked out"),
        ("9 ** 9 ** 9", "too large"),
        ("1e999999", "too large"),
        ("(-8) ** 0.5", "no real value"),
        ("min()", "cannot be worked out"),
        ("round(1, 0.5)", "digits"),
        ("(" * 300 + ")" * 300, "no arithmetic"),
        ("1 +" * 1000, "1000"),
        ("*".join(["9" * 300] * 3 + ["(9 ** 900)"] * 5), "too large"),
    ],
)
def test_what_is_no_sum_is_refused_with_advice(expression: str, said: str) -> None:
    with pytest.raises(ToolError) as refused:
        calculator(expression)
    assert said in str(refused.value)


@settings(deadline=None)
@given(st.text("0123456789.+-*/%()e, ", max_size=30))
def test_any_text_gives_a_number_or_advice(expression: str) -> None:
    try:
        result = calculator(expression)
    except ToolError:
        return
    float(result.split()[0])


def test_the_clock_tells_offset_and_weekday() -> None:
    stamp, _, rest = clock("Asia/Tokyo").partition(" ")
    now = datetime.fromisoformat(stamp)
    assert now.utcoffset() is not None
    assert rest == f"({now:%A}, Asia/Tokyo)"
    assert clock().partition(" ")[0].endswith("+00:00")


@pytest.mark.parametrize("zone", ["Berlin", "", "../../etc/passwd", "Europe/Berlin\x00", "x" * 300])
def test_an_unknown_zone_is_refused_with_advice(zone: str) -> None:
    with pytest.raises(ToolError, match="Europe/Berlin"):
        clock(zone)


def test_both_only_read() -> None:
    assert {calculator.effect, clock.effect} == {Effect.READ}
