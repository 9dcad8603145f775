"""What an author's own model costs."""

from decimal import Decimal

import pytest

from perdure.core.contracts import Usage
from perdure.tools.prices import Prices


def test_each_token_is_paid_once_at_the_price_of_its_kind() -> None:
    prices = Prices(input="2", output=10, cached="0.2", cache_written=Decimal("2.5"))
    usage = Usage(input=10_000, cached=7_000, cache_written=2_000, output=500, reasoning=400)
    assert prices.cost(usage) == Decimal("0.002") + Decimal("0.005") + Decimal("0.0014") + Decimal("0.005")


def test_what_a_cache_holds_costs_like_other_input_unless_said() -> None:
    usage = Usage(input=10_000, cached=7_000, cache_written=2_000)
    assert Prices(input=1, output=1).cost(usage) == Decimal("0.01")


def test_tokens_that_nobody_counted_have_no_price_unless_they_are_free() -> None:
    assert Prices(input=1, output=1).cost(Usage()) is None
    assert Prices(input=0, output=0).cost(Usage()) == 0


@pytest.mark.parametrize("wrong", ["-1", "cheap", "NaN", "Infinity"])
def test_a_price_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"Prices\(output="):
        Prices(input=1, output=wrong)
