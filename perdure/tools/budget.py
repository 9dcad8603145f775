"""What an author lets a run spend."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from perdure.core.contracts import Limits
from perdure.tools.models import AgentError


@dataclass(frozen=True)
class Budget:
    """What a run may spend. At its end the model is asked once more, without tools, to answer with what it has.

    Args:
        turns: replies of the model.
        tokens: in and out, cached or not, over all turns.
        money: US dollars, as text or a Decimal: "0.50". It needs a model whose price is known: see `Agent.prices`.
        time: a timedelta or seconds in which the run thinks and acts. Waiting for people is not counted.
        ask: at a limit an operator is asked, before that last turn, whether the run gets as much again.

    Each is looked at between turns: what was begun is brought to its end, so a run spends a little more.

    Raises:
        AgentError: a limit that is no number, or not above zero.
    """

    turns: int = 12
    tokens: int | None = None
    money: Decimal | str | int | None = None
    time: timedelta | float | None = None
    ask: bool = False

    def __post_init__(self) -> None:
        for name in ("turns", "tokens"):
            given = getattr(self, name)
            if given is None and name == "tokens":
                continue
            if isinstance(given, bool) or not isinstance(given, int) or given < 1:
                raise AgentError(f"Budget({name}={given!r}): a run needs at least 1. Give a whole number.")
        _ = self.limits  # says what is wrong with the others

    @property
    def limits(self) -> Limits:
        """All of it but the turns, as it is recorded with a run."""
        return Limits(tokens=self.tokens, money=_dollars(self.money), seconds=_seconds(self.time), ask=self.ask)


def _dollars(given: Decimal | str | int | None) -> Decimal | None:
    if given is None:
        return None
    try:
        amount = Decimal(str(given))
        if amount.is_finite() and amount > 0:
            return amount
    except ArithmeticError:
        pass
    raise AgentError(f"Budget(money={given!r}): give US dollars above 0, as in money='0.50'.")


def _seconds(given: timedelta | float | None) -> float | None:
    if given is None:
        return None
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise AgentError(f"Budget(time={given!r}): give a timedelta or seconds, above 0, as in timedelta(minutes=10).")
    return float(seconds)
