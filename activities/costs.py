"""What the model's replies cost: by the author's own prices, else by the list, else nobody knows."""

from decimal import Decimal

from perdure import Agent
from perdure.core.contracts import Opening
from perdure.providers.prices import asked_at, listed, price
from perdure.providers.protocol import ModelError, Reply
from perdure.tools.prices import Prices


def cost(agent: Agent | None, opening: Opening, reply: Reply) -> Decimal | None:
    """What one reply cost, in US dollars, by the name that the server answered under; None if nobody knows."""
    if own := _own(agent, opening):
        return own.cost(reply.usage)
    url = asked_at(opening.protocol)
    names = dict.fromkeys(name for name in (reply.model, opening.model) if name)
    found = (price(opening.protocol, name, reply.usage, url=url) for name in names)
    return next((each for each in found if each is not None), None)


def refuse_unpriced(agent: Agent | None, opening: Opening) -> None:
    """Ask no model whose price nobody knows, if the run has a budget of money: a person can tell the price.

    Raises:
        ModelError: it is out, until someone does; another of the run's models may be asked.
    """
    bounded = opening.limits is not None and opening.limits.money is not None
    if bounded and not _own(agent, opening) and not listed(opening.protocol, opening.model):
        raise ModelError(
            "person",
            f"the run has a budget of money, and nobody knows what {opening.model!r} costs. Give the agent "
            "prices=Prices(input=..., output=...), start the worker anew, then answer this request with retry; or "
            "with stop.",
            outage=True,
        )


def _own(agent: Agent | None, opening: Opening) -> Prices | None:
    return agent.prices_of(opening.protocol, opening.model) if agent else None
