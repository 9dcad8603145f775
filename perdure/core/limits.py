"""What a run may spend: turns, tokens, money, and time in which it thinks and acts.

A limit strikes between turns, never inside one: what was begun is brought to its end. Time in which anything waits for
a person is not counted, since a run that is approved after a week has done nothing wrong. A turn that nobody can price
strikes a limit of money, for then nobody knows whether it is kept; zero would be a guess.

A run that works for another one has a share of what was left of that one's budget, besides its own. The smaller limit
counts, and nobody is asked for more of the share: it is not the run's own to extend.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from perdure.core.contracts import Limits, State, Usage

_SHARED = ("tokens", "money", "seconds")  # with the runs that a run hands work to; each has turns of its own


def with_cost(state: State, usage: Usage, cost: Decimal | None) -> State:
    """The state after a reply of the model."""
    return state.model_copy(
        update={
            "usage": state.usage + usage,
            "cost": state.cost + (cost or Decimal(0)),
            "unpriced": state.unpriced + (cost is None),
        }
    )


def in_force(state: State) -> Limits:
    """The limits as they are now: those the run was opened with, or what an operator raised them to."""
    if state.opened is None:
        return Limits()
    given, raised = state.opened.limits or Limits(), state.raised
    own = Limits(
        turns=raised.turns or state.opened.turns,
        tokens=raised.tokens or given.tokens,
        money=raised.money or given.money,
        seconds=raised.seconds or given.seconds,
        ask=given.ask,
    )
    return own.model_copy(update={name: getattr(state.share, name) for name in _SHARED if _is_share(state, own, name)})


def _is_share(state: State, own: Limits, name: str) -> bool:
    """Whether it is the run's share of its parent's budget that limits it, rather than its own."""
    share, most = getattr(state.share, name, None), getattr(own, name, None)
    return share is not None and (most is None or share <= most)


def share(state: State, among: int) -> Limits | None:
    """What each of `among` runs may spend of what is left; None: nothing is left."""
    most, used = in_force(state), _used(state)
    left = {name: getattr(most, name) - used[name] for name in _SHARED if getattr(most, name) is not None}
    if any(each <= 0 for each in left.values()):
        return None
    return Limits(**{name: max(each // among, 1) if name == "tokens" else each / among for name, each in left.items()})


def spent(state: State) -> str:
    """Which limits are reached, and how far, in words; "" while none is."""
    return "; ".join(words for _, words in _struck(state))


def may_ask(state: State) -> bool:
    """Whether an operator is to be asked for more. One who gave none is not asked again."""
    most = in_force(state)
    return most.ask and not state.finishing and not any(_is_share(state, most, name) for name, _ in _struck(state))


def extended(state: State) -> State:
    """The state once an operator gave as much again of everything that is spent, counted from where it stands.

    Turns without a price are let be: what follows them is counted.
    """
    assert state.opened is not None, "what was never opened has spent nothing"
    given = {**(state.opened.limits or Limits()).model_dump(), "turns": state.opened.turns}
    used = _used(state)
    more = {name: used[name] + given[name] for name, _ in _struck(state)}
    return state.model_copy(update={"raised": state.raised.model_copy(update=more), "excused": state.unpriced})


def finishing(state: State) -> State:
    """The state once an operator gave no more."""
    return state.model_copy(update={"finishing": True})


def _used(state: State) -> dict[str, Any]:
    """By the names of `Limits`."""
    usage = state.usage
    return {
        "turns": state.turn,
        "tokens": usage.input + usage.output,
        "money": state.cost,
        "seconds": state.seconds,
    }


def _struck(state: State) -> Iterator[tuple[str, str]]:
    """(name, words) of each limit that is reached."""
    most, used = in_force(state), _used(state)

    def whose(name: str) -> str:
        return ", its share of its parent's," if _is_share(state, most, name) else ""

    if most.turns is not None and state.turn >= most.turns:
        yield "turns", f"the budget of {_turns(most.turns)} is spent"
    if most.tokens is not None and used["tokens"] >= most.tokens:
        yield "tokens", f"the budget of {most.tokens:,} tokens{whose('tokens')} is spent ({used['tokens']:,} used)"
    if most.money is not None and (unpriced := state.unpriced - state.excused):
        unknown = f"nobody knows what {_turns(unpriced)} cost"
        yield "money", f"the budget of {dollars(most.money)}{whose('money')} cannot be kept: {unknown}"
    elif most.money is not None and state.cost >= most.money:
        yield "money", f"the budget of {dollars(most.money)}{whose('money')} is spent ({dollars(state.cost)} used)"
    if most.seconds is not None and state.seconds >= most.seconds:
        worked = f"{state.seconds:,.0f} s of thinking and acting"
        yield "seconds", f"the budget of {most.seconds:,.0f} s{whose('seconds')} is spent ({worked})"


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


def dollars(amount: Decimal) -> str:
    """`$12.40`, `$0.031`, `$0.00042`: cents, or two digits that say something."""
    digits = 2 if amount >= 1 or not amount else max(1 - amount.adjusted(), 2)
    whole, _, cents = f"{amount:,.{digits}f}".partition(".")
    return f"${whole}.{cents.rstrip('0'):0<2}"
