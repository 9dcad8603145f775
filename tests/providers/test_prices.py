"""What a model call cost: by list prices, and never by a guess."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices.data_snapshot import get_snapshot

from perdure.core.contracts import Usage
from perdure.providers.prices import price

MILLION = 1_000_000
AT = datetime(2026, 11, 29, tzinfo=UTC)  # the table's prices of a day do not change


def listed(model: str, vendor: str = "anthropic") -> dict[str, Decimal]:
    """US dollars for a million tokens, as the table has them."""
    found = get_snapshot().find_provider_model(model, None, vendor, None)[1].get_prices(AT)
    return {key: value for key, value in vars(found).items() if isinstance(value, Decimal)}


def test_each_token_is_paid_once_at_the_price_of_its_kind() -> None:
    """Our `input` holds what was read from the cache and what was written to it."""
    usage = Usage(input=10_000, cached=7_000, cache_written=2_000, output=500, reasoning=400)
    cost = listed("claude-opus-5-5")
    wanted = (
        1_000 * cost["input_mtok"]
        + 7_000 * cost["cache_read_mtok"]
        + 2_000 * cost["cache_write_mtok"]
        + 500 * cost["output_mtok"]
    )
    assert price("anthropic", "claude-opus-5-5", usage, at=AT) == wanted / MILLION


@pytest.mark.parametrize(
    ("protocol", "model"),
    [
        ("anthropic", "claude-opus-5-5"),
        ("anthropic", "claude-sonnet-5-5"),
        ("anthropic", "claude-haiku-5-5"),
        ("anthropic", "claude-haiku-4-5-20251001"),
        ("openai-responses", "gpt-6.1-sol"),
        ("openai-responses", "gpt-5.5"),
        ("openai-chat", "gpt-6-luna"),
    ],
)
def test_current_models_have_a_price(protocol: str, model: str) -> None:
    found = price(protocol, model, Usage(input=1_000, output=10), at=AT)
    assert found is not None
    assert found > 0


def test_a_cached_token_costs_less_than_a_new_one() -> None:
    new, cached = (price("anthropic", "claude-opus-5-5", Usage(input=1_000, cached=read), at=AT) for read in (0, 1_000))
    assert new is not None
    assert cached is not None
    assert cached < new


def test_a_model_that_nobody_knows_has_no_price_and_not_zero() -> None:
    assert price("anthropic", "claude-of-our-own", Usage(input=1_000, output=10)) is None
    assert price("carrier-pigeon", "claude-opus-5-5", Usage(input=1_000, output=10)) is None


def test_a_call_that_the_server_did_not_count_has_no_price() -> None:
    assert price("anthropic", "claude-opus-5-5", Usage()) is None


def test_counts_that_cannot_be_have_no_price() -> None:
    assert price("anthropic", "claude-opus-5-5", Usage(input=10, cached=20, output=1)) is None


USAGE = Usage(input=1_000, output=100)


def test_a_vendor_is_known_by_its_address() -> None:
    groq = price("openai-chat", "openai/gpt-oss-120b", USAGE, url="https://api.groq.com/openai/v1", at=AT)
    cost = listed("openai/gpt-oss-120b", "groq")
    assert groq == (1_000 * cost["input_mtok"] + 100 * cost["output_mtok"]) / MILLION


def test_behind_a_gateway_the_vendors_own_list_holds() -> None:
    there = price("anthropic", "claude-opus-5-5", USAGE, url="https://models.example.com", at=AT)
    assert there == price("anthropic", "claude-opus-5-5", USAGE, at=AT)


def test_what_a_compatible_server_of_ones_own_costs_nobody_knows() -> None:
    assert price("openai-chat", "gpt-oss-20b", USAGE, at=AT) is not None
    assert price("openai-chat", "gpt-oss-20b", USAGE, url="http://localhost:11434/v1", at=AT) is None


def test_a_price_is_that_of_the_day() -> None:
    """The table keeps what a model cost before a price was changed."""
    usage = Usage(input=MILLION, output=0)
    changed = [
        (model.id, conditional.constraint.start_date)
        for provider in get_snapshot().providers
        if provider.id == "openai"
        for model in provider.models
        if isinstance(model.prices, list)
        for conditional in model.prices
        if getattr(conditional.constraint, "start_date", None)
    ]
    assert changed
    dates = [datetime(day.year, day.month, day.day, tzinfo=UTC) for _, day in changed]
    costs = [
        (price("openai-chat", model, usage, at=day.replace(year=2020)), price("openai-chat", model, usage, at=day))
        for (model, _), day in zip(changed, dates, strict=True)
    ]
    assert any(before != after for before, after in costs)
