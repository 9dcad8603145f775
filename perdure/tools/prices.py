"""What an author's own model costs, where no table knows it: one served at home, one at a negotiated price."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from perdure.core.contracts import Usage

_MILLION: Final = 1_000_000


@dataclass(frozen=True)
class Prices:
    """US dollars for a million tokens: `Prices(input="0.20", output="0.80")`.

    Input that was read from a cache, or written to it, costs as much as other input unless `cached` or
    `cache_written` say otherwise. A model that costs nothing is Prices(input=0, output=0).

    Raises:
        ValueError: a price is no number, or below zero.
    """

    input: Decimal | int | str
    output: Decimal | int | str
    cached: Decimal | int | str | None = None
    cache_written: Decimal | int | str | None = None

    def __post_init__(self) -> None:
        for name, given in vars(self).items():
            if given is not None:
                object.__setattr__(self, name, _amount(name, given))

    def cost(self, usage: Usage) -> Decimal | None:
        """Of one model call, in US dollars; None if the server did not count its tokens, unless they are free."""
        if not (usage.input or usage.output) and any(self._rates):
            return None
        new = usage.input - usage.cached - usage.cache_written
        counts = (new, usage.output, usage.cached, usage.cache_written)
        return sum((rate * count for rate, count in zip(self._rates, counts, strict=True)), Decimal(0)) / _MILLION

    @property
    def _rates(self) -> tuple[Decimal, ...]:
        """For input that was in no cache, output, input from a cache, input into it."""
        given = (self.input, self.output, self.cached, self.cache_written)
        return tuple(Decimal(self.input if each is None else each) for each in given)


def _amount(name: str, given: Decimal | int | str) -> Decimal:
    try:
        amount = Decimal(str(given))
        if amount.is_finite() and amount >= 0:
            return amount
    except ArithmeticError:
        pass
    raise ValueError(f"Prices({name}={given!r}): give US dollars for a million tokens, 0 or more, as in {name}='0.20'")
