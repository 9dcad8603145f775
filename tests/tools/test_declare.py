"""Declaring tools: what an author may write, and what is refused at import with what to do."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import Field, SecretStr

from perdure import Effect, Tool, ToolContext, tool
from perdure.tools.declare import tools_of
from perdure.tools.invoke import invoke
from perdure.tools.parameters import ToolDeclarationError


def lookup(order_id: str) -> str:
    """Look an order up."""
    return f"order {order_id}"


def test_a_tool_is_cautious_unless_told_otherwise() -> None:
    plain = tool(lookup)
    assert (plain.effect, plain.ask, plain.attempts) == (Effect.ONCE, None, 1)


def test_a_tool_still_is_its_function() -> None:
    assert tool(lookup)("7") == "order 7"


def test_a_tool_that_may_be_repeated_is_tried_three_times() -> None:
    assert tool(lookup, effect="read").attempts == 3


def test_options_are_kept() -> None:
    @tool(effect="idempotent", ask="amount > 100", timeout=timedelta(minutes=2), attempts=5, name="pay-back")
    async def refund(ctx: ToolContext, amount: Decimal) -> str:
        return f"{amount} {ctx.idempotency_key}"

    assert isinstance(refund, Tool)
    assert (refund.name, refund.timeout, refund.attempts, refund.ask) == ("pay-back", 120.0, 5, "amount > 100")
    assert asyncio.run(refund(ToolContext("k"), Decimal(3))) == "3 k"


@pytest.mark.parametrize("annotated", [True, False])
def test_the_context_is_never_in_the_schema(annotated: bool) -> None:
    def with_type(context: ToolContext, n: int) -> int: ...
    def by_name(ctx, n: int) -> int: ...  # type: ignore[no-untyped-def]

    declared = tool(with_type if annotated else by_name)
    assert list(declared.parameters.schema["properties"]) == ["n"]
    assert declared.context == ("context" if annotated else "ctx")


GOOGLE = """Book leave.

    Takes whole days.

    Args:
        employee: who is away
        days: how many working days

    Returns:
        a receipt
    """
NUMPY = """Book leave.

    Takes whole days.

    Parameters
    ----------
    employee : str
        who is away
    days : int
        how many working days

    Returns
    -------
    str
        a receipt
    """
SPHINX = """Book leave.

    Takes whole days.

    :param employee: who is away
    :param days: how many working days
    :returns: a receipt
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX])
def test_docstrings_describe_tool_and_parameters(docstring: str) -> None:
    def book_leave(employee: str, days: int = 1) -> str: ...

    book_leave.__doc__ = docstring
    declared = tool(book_leave)
    assert declared.description == "Book leave.\n\nTakes whole days.\n\nReturns: a receipt"
    described = {name: part["description"] for name, part in declared.parameters.schema["properties"].items()}
    assert described == {"employee": "who is away", "days": "how many working days"}


def test_an_annotated_description_wins_over_the_docstring() -> None:
    def find(q: Annotated[str, Field(description="words to look for")]) -> str:
        """Find.

        Args:
            q: something else
        """
        ...

    assert tool(find).parameters.schema["properties"]["q"]["description"] == "words to look for"


class Desk:
    def __init__(self, shop: str) -> None:
        self.shop = shop

    @tool(effect="read")
    def orders(self, customer: str) -> str:
        """List a customer's orders."""
        return f"{self.shop}:{customer}"

    def plain(self, n: int) -> int:
        return n + 1


def test_a_bound_method_becomes_a_tool() -> None:
    adopted = tool(Desk("a").plain, effect="read", name="next_number")
    assert (adopted.name, adopted(2)) == ("next_number", 3)
    assert list(adopted.parameters.schema["properties"]) == ["n"]


async def test_a_toolkit_that_runs_elsewhere_is_adopted_by_a_function_that_forwards() -> None:
    async def forward(ctx: ToolContext, **arguments: Any) -> dict[str, Any]:
        return {"key": ctx.idempotency_key} | arguments

    adopted = tool(forward, like=Desk("a").plain, effect="idempotent")
    assert (adopted.name, list(adopted.parameters.schema["properties"])) == ("plain", ["n"])
    seen = await invoke(adopted, '{"n":3}', ToolContext("k"))
    assert seen.text == '{"key": "k", "n": 3}'


def test_a_toolkit_declares_tools_in_its_class() -> None:
    [adopted] = tools_of(Desk("b"))
    assert adopted("ann") == "b:ann"
    assert list(adopted.parameters.schema["properties"]) == ["customer"]


def _unannotated(n): ...  # type: ignore[no-untyped-def]
def _many(*n: int) -> None: ...
def _anything(**n: int) -> None: ...
def _by_place(n: int, /) -> None: ...
def _odd_type(n: Callable[[], int]) -> None: ...
def _drawn(n: Iterable[int]) -> None: ...
def _odd_class(n: Desk) -> None: ...
def _secret(n: SecretStr) -> None: ...
def _odd_key(n: Annotated[int, Field(alias="größe")]) -> None: ...
def _unknown_type(n: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (_unannotated, {}, "no annotation"),
        (_many, {}, "one by one"),
        (_anything, {}, "one by one"),
        (_by_place, {}, "by name"),
        (_odd_type, {}, "written as JSON"),
        (_drawn, {}, "list[...]"),
        (_odd_class, {}, "written as JSON"),
        (_secret, {}, "secret"),
        (_odd_key, {}, "'größe'"),
        (_unknown_type, {}, "module level"),
        (lambda n: n, {}, "'<lambda>'"),
        (print, {}, "Write a small function"),
        (Desk, {}, "Write a small function"),
        (lookup, {"name": "look up"}, "'look up'"),
        (lookup, {"name": "x" * 65}, "at most 64"),
        (lookup, {"effect": "write"}, "'write'"),
        (lookup, {"attempts": 3}, "idempotency_key"),
        (lookup, {"effect": "read", "attempts": 0}, "0"),
        (lookup, {"limit": 499}, "limit 499"),
        (lookup, {"limit": 64_001}, "limit 64001"),
        (lookup, {"limit": True}, "limit True"),
        (lookup, {"limit": "4k"}, "limit '4k'"),
        (lookup, {"show": "id"}, "show='id'"),
        (lookup, {"show": asyncio.sleep}, "no plain function"),
        (lookup, {"timeout": 0}, "timeout 0"),
        (lookup, {"timeout": float("inf")}, "timeout inf"),
        (lookup, {"retry_on": ["x"]}, "retry_on=['x']"),
        (lookup, {"ask": "amount > 100"}, "'amount'"),
        (lookup, {"ask": "order_id >"}, "no expression"),
        (lookup, {"ask": "(lambda: 1)()"}, "Lambda"),
        (tool(lookup), {}, "declared already"),
    ],
)
def test_what_cannot_work_is_refused_at_declaration(
    function: Callable[..., Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ToolDeclarationError) as refused:
        tool(function, **options)
    assert said in str(refused.value)


def test_strict_insisted_on_is_refused_where_no_strict_form_exists() -> None:
    def note(labels: dict[str, str]) -> None: ...

    with pytest.raises(ToolDeclarationError, match="free keys"):
        tool(note, strict=True)
    assert tool(note).parameters.schema["properties"]["labels"]["type"] == "object"
