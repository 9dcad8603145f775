"""A run that goes round in circles: the same action, with the same result, again and again.

1. An action is a tool and its argument bytes. It repeats itself when it brings the result that it brought the last
   time, at most ten turns before, whatever else was done between. Another result begins a new count: a poll that is
   told something new is no repeat. The same calls side by side in one turn count once, by the last of them.
2. The third time, the model is warned, beside the observation. A turn after that in which nothing but repeats came, one
   of them for the fourth time or more, is the last one with tools. With something new in it, it is a warning again.
3. An action that an operator rejected is not asked for again in the same run: it is refused, in whatever words that
   is told, so its result is the same one.
4. What an operator says to the run begins all of this anew: they may have changed their mind, or told it to try again.

What is kept is bounded: the last few dozen actions, by digest.
"""

from perdure.core.contracts import Call, Ref, Seen, State
from perdure.core.digests import of_bytes

_WARNED_AT = 3  # times
_TURNS = 10  # after which an action that was not done again is forgotten
_MOST_SEEN = 40  # actions
_MOST_REJECTED = 100  # actions
_REJECTED = "rejected"  # stands for the result of every call that was refused since an operator rejected it
_WARNING = (
    "You are repeating yourself: {name} brought the same result {times} times, with the same arguments. Change the "
    "arguments, take another tool, or give up and say what is not known. If you go on so, no tool can be called any "
    "more."
)


def tallied(state: State) -> tuple[Seen, ...]:
    """What was done so far, the latest turn's calls, all settled, included; the latest last."""
    if not _counts(state):
        return ()
    seen = {each.action: each for each in state.seen if each.turn >= state.turn - _TURNS}
    for action, (_, result) in _acts(state).items():
        before = seen.pop(action, None)
        times = before.times + 1 if before and before.result == result else 1
        seen[action] = Seen(action=action, result=result, times=times, turn=state.turn)
    return tuple(seen.values())[-_MOST_SEEN:]


def warnings(state: State) -> tuple[str, ...]:
    """What the model is told of the latest turn's repeats."""
    return tuple(_WARNING.format(name=call.name[:64], times=times) for call, times in _repeats(state))


def stopped(state: State) -> str:
    """Why the run is not to go on as it does, in words; "" while it may."""
    now, repeats = _now(state), _repeats(state)
    if not repeats or any(each.times == 1 for each in now):
        return ""
    call, times = max(repeats, key=lambda repeat: repeat[1])
    if times <= _WARNED_AT:
        return ""
    return f"it repeated itself: {call.name[:64]} brought the same result {times} times, also after a warning"


def renewed(state: State) -> State:
    """The state once the model heard what an operator says."""
    return state.model_copy(update={"seen": (), "rejected": ()})


def was_rejected(state: State, call: Call) -> bool:
    """Whether an operator rejected this action in an earlier turn."""
    return _counts(state) and _action(call) in state.rejected


def with_rejected(state: State, call: Call) -> State:
    """The state once an operator rejected this call."""
    action = _action(call)
    if not _counts(state) or action in state.rejected:
        return state
    return state.model_copy(update={"rejected": (*state.rejected, action)[-_MOST_REJECTED:]})


def _counts(state: State) -> bool:
    """Runs that were opened before repeats were noticed go on as they began."""
    return state.opened is not None and state.opened.limits is not None


def _now(state: State) -> list[Seen]:
    return [each for each in tallied(state) if each.turn == state.turn]


def _repeats(state: State) -> list[tuple[Call, int]]:
    """The latest turn's calls that a warning is due for, and how many times each was made so far."""
    acts = _acts(state)
    return [(acts[each.action][0], each.times) for each in _now(state) if each.times >= _WARNED_AT]


def _acts(state: State) -> dict[str, tuple[Call, str]]:
    """The latest turn's calls and their results, by action."""
    calls = {call.index: call for call in state.calls}
    observed = sorted(state.observed, key=lambda ref: ref.call)
    return {_action(calls[ref.call]): (calls[ref.call], _result(state, calls[ref.call], ref)) for ref in observed}


def _action(call: Call) -> str:
    return of_bytes(f"{call.name}\n{call.digest}")[:32]


def _result(state: State, call: Call, ref: Ref) -> str:
    if ref.kind == "said" and _action(call) in state.rejected:
        return _REJECTED
    if ref.kind == "advice":
        return of_bytes(call.reason)[:32]
    return ref.whole or ref.digest
