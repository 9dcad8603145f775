"""Admission: what a model asks for is judged, or refused in words it can act on. Nothing is guessed."""

import json
import re
from typing import Any

import pytest

from perdure.core.contracts import AdmittedCall, Verdict
from perdure.core.digests import of_bytes
from perdure.tools.admission import MOST_ADVICE, MOST_ARGUMENTS, admit
from perdure.tools.declare import tool


def health() -> str:
    """Say whether all is well."""
    return "ok"


def find(q: str) -> str:
    """Find orders by text."""
    return q


def delete(older_than_days: int = 30) -> str:
    """Delete old records."""
    return str(older_than_days)


def get_x(id: str = "") -> str:
    """Get x."""
    return id


TOOLS = {
    each.name: each for each in (tool(health, effect="read"), tool(find, effect="read"), tool(delete), tool(get_x))
}


def asked(name: str, arguments: str = "{}", whole: bool = True) -> AdmittedCall:
    return admit(TOOLS, 0, "call_1", name, arguments, whole)


@pytest.mark.parametrize("arguments", ["", "null", "{}", "  ", " null\n"])
def test_nothing_counts_as_no_arguments(arguments: str) -> None:
    call = asked("health", arguments)
    assert (call.verdict, call.arguments) == (Verdict.RUN, "{}")


def test_a_missing_argument_is_named() -> None:
    call = asked("find", "")
    assert call.verdict is Verdict.REFUSE
    assert "missing argument 'q'" in call.reason


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("[]", "a list"),
        ("5", "a number"),
        ('"q"', "a text"),
        ("true", "true or false"),
        ('{"q": ', "not valid JSON"),
        ("q=1", "not valid JSON"),
        ('{"q": NaN}', "NaN"),
        ('{"q": -Infinity}', "Infinity"),
        ('{"q": 1e999}', "too large"),
        ('{"q": "a", "q": "b"}', "twice"),
        ('{"q": "\\ud800"}', "surrogate"),
        ('{"q": "\ud800"}', "surrogate"),
        ('{"q": ' + "[" * 100_000, "nested too deeply"),
        ('{"q": ' + "9" * 5000 + "}", "digits"),
        (json.dumps({"q": "x" * (MOST_ARGUMENTS + 1)}), "longer"),
    ],
)
def test_broken_arguments_are_refused_with_what_is_wrong(arguments: str, said: str) -> None:
    call = asked("find", arguments)
    assert call.verdict is Verdict.REFUSE
    assert said in call.reason
    assert isinstance(json.loads(call.arguments), dict)


@pytest.mark.parametrize(
    ("tool_name", "given", "named"),
    [
        ("delete", {"older_days": 365}, ["older_days", "older_than_days"]),
        ("delete", {"older_than_days": 3, "reason": "old"}, ["reason"]),
        ("find", {"query": "x"}, ["'query'", "'q'"]),
        ("find", {"q": 3}, ["'q'"]),
        ("find", {"q": ["x"]}, ["'q'"]),
    ],
)
def test_a_wrong_argument_is_named_and_never_replaced_by_a_default(
    tool_name: str, given: dict[str, Any], named: list[str]
) -> None:
    call = asked(tool_name, json.dumps(given))
    assert call.verdict is Verdict.REFUSE
    assert all(name in call.reason for name in named)
    assert "Traceback" not in call.reason


@pytest.mark.parametrize(
    "name",
    [
        "multi_tool_use.parallel",
        'get_x(id="1")',
        "functions.get_x",
        "x" * 90,
        "",
        "get x",
        "get_x\x00",
        "größe",
        "\ud800",
    ],
)
def test_an_unknown_name_is_refused_and_can_stand_in_a_transcript(name: str) -> None:
    call = asked(name)
    assert call.verdict is Verdict.REFUSE
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call.name)
    assert call.asked_name or name == ""
    assert all(known in call.reason for known in TOOLS)
    AdmittedCall.model_validate_json(call.model_dump_json())


@pytest.mark.parametrize("name", ['get_x(id="1")', "functions.get_x", "getx", "get-x", "Get_X"])
def test_a_close_name_is_suggested_and_not_taken(name: str) -> None:
    assert "Did you mean 'get_x'?" in asked(name).reason


def test_without_tools_the_model_is_told_so() -> None:
    assert "no tools" in admit({}, 0, "c", "find", "{}").reason


def test_a_cut_call_does_not_run_even_if_its_arguments_parse() -> None:
    call = asked("find", '{"q": "x"}', whole=False)
    assert call.verdict is Verdict.REFUSE
    assert "was cut at the output limit and did not run" in call.reason


def test_the_digest_is_that_of_the_bytes_that_run() -> None:
    call = asked("delete", "{ }")
    assert call.arguments == '{"older_than_days":30}'
    assert call.digest == of_bytes(call.arguments)


def test_a_title_is_one_short_inert_line() -> None:
    text = "a\u202eb\u200b\x1b[31m\n\u2028c"
    call = asked("find", json.dumps({"q": text + "x" * 500}))
    assert call.title.isprintable()
    assert len(call.title) <= 130
    assert "<U+202E>" in call.title
    assert "<500 times 'x'>" in call.title
    assert asked("delete", '{"older_than_days": 3}').title == "delete(older_than_days=3)"


def test_advice_is_bounded_whatever_the_model_writes() -> None:
    call = asked("find", json.dumps({f"x{n}" * 50: "y" * 500 for n in range(200)}))
    assert len(call.reason) <= MOST_ADVICE
    assert len(asked("z" * 100_000).reason) <= MOST_ADVICE


def test_long_decimals_keep_their_digits() -> None:
    from decimal import Decimal

    def pay(amount: Decimal) -> None: ...

    call = admit({"pay": tool(pay)}, 0, "c", "pay", '{"amount": 12345678901234567.89}')
    assert call.arguments == '{"amount":"12345678901234567.89"}'
