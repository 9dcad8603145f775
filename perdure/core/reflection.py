"""When the critic is asked, and what its word does: a part of the loop (perdure.core.loop), as pure as that.

1. A critic is asked after errors, after every so many turns, or before an answer counts, as the run was opened with;
   once for a turn, and only where its note could still change something: a turn is left, and notes are.
2. Its note goes to the model with what else that hears next. After errors and turns there are `notes` of them at most.
3. An answer waits for the critic. A note sends the model back, `returns` times at most; without one the answer stands.
   So it does when the returns or the turns are spent: nobody is asked whose word would change nothing. What an
   operator says meanwhile is heard: the run then goes on as after any answer (perdure.core.course).
"""

from perdure.core.contracts import AskCritic, Occasion, Ref, Reviewed, State
from perdure.core.limits import with_cost


def critique_due(agent: str, state: State, *, spent: bool) -> AskCritic | None:
    """What the critic is to be asked now, if anything. `spent`: the model is not left another turn with tools."""
    occasion = _occasion(state, spent)
    if occasion is None:
        return None
    return AskCritic(
        agent=agent,
        turn=state.turn,
        occasion=occasion,
        previous=state.turn_id,
        digest=state.digest,
        since=(*state.since, *sorted(state.observed, key=lambda ref: ref.call)),
    )


def _occasion(state: State, spent: bool) -> Occasion | None:
    rules = state.opened.reviewing if state.opened else None
    if rules is None:
        return None
    if state.reflected.proposed is not None:
        return Occasion.ANSWER
    if spent or not state.calls or state.reflected.turn == state.turn or state.reflected.notes >= rules.notes:
        return None
    if rules.errors and any(not ref.ok and ref.kind in ("observation", "advice") for ref in state.observed):
        return Occasion.ERRORS
    return Occasion.TURNS if rules.every and state.turn % rules.every == 0 else None


def waits_for_critic(state: State, *, spent: bool) -> bool:
    """Whether an answer given now is first shown to the critic."""
    rules = state.opened.reviewing if state.opened else None
    return rules is not None and rules.answer and not spent and state.reflected.returns < rules.returns


def proposing(state: State, answer: str) -> State:
    """The state in which an answer waits for the critic."""
    return state.model_copy(update={"reflected": state.reflected.model_copy(update={"proposed": answer})})


def reviewed(state: State, activity_id: str, asked: AskCritic, seen: Reviewed) -> State:
    """The state after the critic's word on turn `asked.turn`, recorded by `activity_id`. An answer waits no more."""
    counted = "returns" if asked.occasion is Occasion.ANSWER else "notes"
    reflected = state.reflected.model_copy(
        update={
            "turn": asked.turn,
            "proposed": None,
            counted: getattr(state.reflected, counted) + seen.told,
        }
    )
    note = (Ref(kind="critique", id=activity_id, digest=seen.digest),) if seen.told else ()
    return with_cost(state, seen.usage, seen.cost).model_copy(
        update={"reflected": reflected, "since": (*state.since, *note), "tries": 0}
    )
