"""An answer's figures are marked where no observation holds them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.traces.figures import unsupported_figures


def unsupported(answer: str, *observations: str) -> list[str]:
    return [figure.text for figure in unsupported_figures(answer, observations)]


SAME = [
    ("You have 7 days left.", '{"left": 7}'),
    ("You have 7 days left.", '{"left": 7.0}'),
    ("The refund is $1,250.00.", '{"amount": "1250"}'),
    ("The refund is 1.250,50 €.", "1250.50"),
    ("The refund is 1250.5.", "EUR 1,250.50"),
    ("It cost 1.2 million.", "1200000"),
    ("It cost 12k.", "12,000"),
    ("A rate of 12 %.", '{"rate": 0.12}'),
    ("From 14 December.", '{"from": "2026-12-14"}'),
    ("From December 14, 2026.", "2026-12-14"),
    ("From the 14th of December 2026.", "2026-12-14"),
    ("From 14 to 16 December.", "until 2026-12-16, from 2026-12-14"),
    ("On 14.12.2026.", "2026-12-14"),
    ("At 09:30.", "opens 09:30"),
    ("Order #W2378156 is sent.", '{"order_id": "#W2378156"}'),
    ("Booking LV-1042 stands.", "booked: LV-1042"),
    ("In 2026 you had 28.", '{"from": "2026-01-01", "entitled": 28}'),
    ("A 3-day leave, 5km away.", "3 days, 5 km"),
    ("1. First\n2. Second", ""),
    ("This is the 2nd time.", ""),
    ("No figures.", ""),
]


@pytest.mark.parametrize(("answer", "observation"), SAME)
def test_a_figure_observed_in_another_notation_is_supported(answer: str, observation: str) -> None:
    assert unsupported(answer, observation) == []


INVENTED = [
    ("You have 8 days left.", '{"left": 7}', ["8"]),
    ("The refund is $1,250.10.", "1250", ["1,250.10"]),
    ("From 15 December.", "2026-12-14", ["15 December"]),
    ("From 14 December 2027.", "2026-12-14", ["14 December 2027"]),
    ("Booking LV-1043 stands.", "LV-1042", ["LV-1043"]),
    ("At 10:30.", "09:30", ["10:30"]),
    ("It cost 12k, i.e. 15 %.", "12", ["12k", "15 %"]),
    ("1. You have 9 days", "", ["9"]),
]


@pytest.mark.parametrize(("answer", "observation", "marked"), INVENTED)
def test_a_figure_that_nothing_observed_holds_is_marked(answer: str, observation: str, marked: list[str]) -> None:
    assert unsupported(answer, observation) == marked


@given(st.text(alphabet="0123456789.,-/: %kmDec#"))
def test_an_answer_that_repeats_an_observation_is_never_marked(text: str) -> None:
    assert unsupported(text, text) == []
