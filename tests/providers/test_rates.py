"""Rates as operators write them."""

import pytest

from perdure.providers.rates import RateError, rates_of


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("", {}),
        ("anthropic=5", {"anthropic": 5.0}),
        ("anthropic=5,openai=10", {"anthropic": 5.0, "openai": 10.0}),
        (" anthropic = 300/min , ", {"anthropic": 5.0}),
        ("openai=0.5/s", {"openai": 0.5}),
        ("openai=.25", {"openai": 0.25}),
        ("openai-chat=10", {"openai": 10.0}),
        ("anthropic=5,anthropic=7", {"anthropic": 7.0}),
    ],
)
def test_a_rate_is_a_vendor_and_its_calls(text: str, rates: dict[str, float]) -> None:
    assert rates_of(text) == rates


@pytest.mark.parametrize(
    "text", ["anthropic", "anthropic=", "anthropic=0", "anthropic=-1", "google=5", "anthropic=inf", "5", "openai=5/day"]
)
def test_what_is_no_rate_is_refused_with_how_one_is_written(text: str) -> None:
    with pytest.raises(RateError, match=r"is no rate\. Write PERDURE_RATES or --rate as VENDOR=CALLS") as refusal:
        rates_of(f"anthropic=5,{text}")
    assert repr(text) in str(refusal.value)
