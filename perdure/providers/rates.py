"""How often a vendor may be asked: what an operator states, per vendor, for all workers of a task queue together.

PERDURE_RATES="anthropic=5,openai=600/min"

Nothing is counted here. A vendor with a rate has a task queue of its own, and the Temporal server hands out what is on
it at that rate, to whichever worker asks: docs/adr/0022.
"""

import os
import re
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "PERDURE_RATES"
VENDORS: Final = ("anthropic", "openai")
_NAMES: Final = {"anthropic": "anthropic", "openai": "openai", "openai-chat": "openai"}  # as models are named
_SECONDS: Final = {None: 1, "s": 1, "min": 60}
_RATE: Final = re.compile(r"([\w-]+)\s*=\s*(\d+(?:\.\d+)?|\.\d+)\s*(?:/\s*(s|min))?")


class RateError(ValueError):
    """A rate that cannot be read: which, and how one is written."""


def rates_of(text: str) -> Mapping[str, float]:
    """Calls per second, by vendor. Of two rates for one vendor the last one counts.

    Raises:
        RateError: that is no rate.
    """
    return dict(_rate(part.strip()) for part in text.split(",") if part.strip())


def rates_from_env() -> Mapping[str, float]:
    """Those in PERDURE_RATES.

    Raises:
        RateError: it holds what is no rate.
    """
    return rates_of(os.environ.get(VARIABLE, ""))


def queue_of(task_queue: str, vendor: str) -> str:
    """The task queue on which a vendor with a rate is asked."""
    return f"{task_queue}/{vendor}"


def _rate(text: str) -> tuple[str, float]:
    found = _RATE.fullmatch(text)
    calls = float(found[2]) / _SECONDS[found[3]] if found else 0.0
    if found is None or found[1] not in _NAMES or not calls:
        raise RateError(
            f"{text!r} is no rate. Write {VARIABLE} or --rate as VENDOR=CALLS, such as 'anthropic=5' (in a second) or "
            f"'anthropic=300/min', for one of {', '.join(map(repr, _NAMES))}, and more than 0"
        )
    return _NAMES[found[1]], calls
