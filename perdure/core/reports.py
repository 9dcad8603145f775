"""What a run leaves that ends before its turn did: a line for each of the turn's calls, what did and did not happen."""

from perdure.core.contracts import Call, RunState, State
from perdure.core.loop import concluded

_MOST_REPORTED = 300  # characters of a call's line


def cut_short(state: State, final: RunState, reason: str) -> State:
    """The state at the end of such a run."""
    report = tuple(_reported(call, state) for call in state.calls)
    ended = concluded(state, final, reason=reason)
    assert ended.outcome is not None
    return ended.model_copy(update={"outcome": ended.outcome.model_copy(update={"report": report})})


def _reported(call: Call, state: State) -> str:
    ref = next((ref for ref in state.observed if ref.call == call.index), None)
    if ref is None:
        return f"{call.title}: not run"
    if ref.kind == "advice":
        return f"{call.title}: not run, it was refused"
    return f"{call.title}: {ref.text or ('ran' if ref.ok else 'ended in an error')}"[:_MOST_REPORTED]
