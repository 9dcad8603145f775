"""Who was asked what, and who said what, asked or not: put together from a run's events."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from perdure.core.contracts import CallModel, Checked, Decision, Request
from perdure.traces import events as e
from perdure.traces.shape import Asked, Ruling, Spoken


def asked(events: Sequence[e.Event], checks: Mapping[str, Checked]) -> tuple[Asked, ...]:
    """Every request that ever waited, in order, with the decisions that named it. `checks` goes by decision id."""
    requests: dict[str, Request] = {}
    until: dict[str, datetime] = {}
    for event in events:
        if isinstance(event, e.StandingChanged):
            open_now = {request.id for request in event.standing.requests}
            requests.update({r.id: r for r in event.standing.requests if r.id not in requests})
            until.update({id: event.at for id in requests if id not in open_now and id not in until})
        elif isinstance(event, e.RunEnded) and event.status != "continued":
            until.update({id: event.at for id in requests if id not in until})
    rulings = _rulings(events, checks)
    return tuple(Asked(r, until.get(r.id), tuple(rulings[r.id])) for r in requests.values())


def _rulings(events: Sequence[e.Event], checks: Mapping[str, Checked]) -> dict[str, list[Ruling]]:
    answers = {event.decision_id: event for event in events if isinstance(event, e.DecisionAnswered)}
    rulings: dict[str, list[Ruling]] = defaultdict(list)
    came: list[Decision] = []
    for event in events:
        if isinstance(event, e.DecisionReceived) and event.decision not in came:
            decision = event.decision
            came.append(decision)  # with no worker up it was left by signal, and comes again as the update it was
            rulings[decision.request].append(_ruling(event, checks.get(decision.id), answers.get(decision.id)))
    return rulings


def _ruling(event: e.DecisionReceived, checked: Checked | None, answer: e.DecisionAnswered | None) -> Ruling:
    decision = event.decision
    settled = answer.settled if answer else None
    accepted = checked.accepted if checked else None
    if accepted is None and answer:
        accepted = settled is not None and not settled.again
    why_not = (checked.why if checked else "") or (answer.refused if answer else "")
    return Ruling(
        id=decision.id,
        choice=decision.choice,
        by=decision.by,
        at=event.at,
        via=event.via,
        client=event.by,
        reason=decision.reason,
        result=decision.result,
        accepted=accepted,
        verified=checked.verified if checked else bool(settled and settled.verified),
        why_not=why_not or ("the same was decided before" if settled and settled.again and not accepted else ""),
    )


def spoken(events: Sequence[e.Event], checks: Mapping[str, Checked], asks: Iterable[CallModel]) -> tuple[Spoken, ...]:
    """What operators said without being asked, in order. `checks` goes by its id; a second word of an id is none."""
    first: dict[str, e.SteeringReceived] = {}
    for event in events:
        if isinstance(event, e.SteeringReceived):
            first.setdefault(event.steering.id, event)
    heard = {ref.id: asked.turn for asked in asks for ref in asked.since if ref.kind == "note" and ref.id}
    return tuple(_spoken(event, checks.get(id), heard.get(id)) for id, event in first.items())


def _spoken(event: e.SteeringReceived, checked: Checked | None, turn: int | None) -> Spoken:
    steering = event.steering
    return Spoken(
        id=steering.id,
        steer=steering.steer,
        by=steering.by,
        text=steering.text,
        at=event.at,
        via=event.via,
        client=event.by,
        accepted=checked.accepted if checked else None,
        verified=bool(checked and checked.verified),
        why_not=checked.why if checked else "",
        turn=turn,
    )
