"""A trace says what the record says: for running, ended and saved runs."""

import pytest

from perdure.core.contracts import Choice, Decision, Effect, RequestKind, RunState, Usage
from perdure.testing.histories import History, call
from perdure.traces.turns import trace


def decision(request: str, choice: Choice, **more: str) -> Decision:
    return Decision(
        id=f"d-{request}-{choice}-{more.get('by', '')}",
        request=request,
        choice=choice,
        by=more.pop("by", "ann"),
        **more,
    )


def booked() -> History:
    """Two lookups in one turn, then a booking that is approved, then the answer."""
    history = History("leave-1", task="Book 3 days from 14 December.")
    history.open("claude-opus-5-5", turns=12)
    history.think("Two lookups.", calls=[call("hr_lookup", {"name": "Zoë"}), call("policy_lookup", {})])
    history.act(1, "pending days count")
    history.act(0, '{"left": 7}', attempt=2, worker="worker-2", last_failure="activity Heartbeat timeout")
    booking = call("book_leave", {"days": 3, "from": "2026-12-14"}, ask="it has an effect", effect=Effect.ONCE)
    history.think("Now I book.", calls=[booking])
    request = history.ask(call=0, reason="it has an effect", request_id="a1b2c3d4")
    history.decide(decision(request.id, Choice.APPROVE, reason="fine", digest=booking.digest))
    history.act(0, '{"booking": "LV-1042"}')
    history.think(answer="LV-1042: 3 days from 14 December. 4 remain.")
    history.end(answer="LV-1042: 3 days from 14 December. 4 remain.")
    return history


def test_a_run_that_ended_is_whole() -> None:
    seen = trace(booked().events)
    assert (seen.run_id, seen.state, seen.model, seen.budget) == ("leave-1", RunState.ANSWERED, "claude-opus-5-5", 12)
    assert seen.usage == Usage(input=2700, cached=1800, output=135)
    assert [len(turn.calls) for turn in seen.turns] == [2, 1, 0]
    assert [part.text for part in seen.turns[0].claims] == ["Two lookups."]
    hr, policy = seen.turns[0].calls
    assert (hr.arguments, hr.state, hr.observation) == ('{"name":"Zoë"}', "ok", '{"left": 7}')
    assert policy.observation == "pending days count"
    [execution] = hr.executions
    assert (execution.attempts, execution.worker) == (2, "worker-2")
    assert execution.last_failure == "activity Heartbeat timeout"
    assert seen.waiting == ()


def test_a_decision_shows_who_when_why_and_how_long_it_waited() -> None:
    [booking] = trace(booked().events).turns[1].calls
    [asked] = booking.asked
    assert (booking.reason, booking.verdict) == ("it has an effect", "ask")
    assert asked.settled is not None
    assert (asked.settled.by, asked.settled.reason, asked.settled.verified) == ("ann", "fine", False)
    assert asked.waited == 60.1


def test_a_figure_that_nothing_observed_holds_is_marked() -> None:
    assert [figure.text for figure in trace(booked().events).unsupported] == ["4"]


@pytest.mark.parametrize("cut", range(1, 40))
def test_every_prefix_of_a_history_is_a_trace(cut: int) -> None:
    events = booked().events[:cut]
    assert trace(events).events == len(events)


def running() -> History:
    history = History("leave-2")
    history.open()
    history.think("Look.", calls=[call("hr_lookup", {}), call("book_leave", {"days": 3}, ask="it has an effect")])
    return history


def test_what_runs_and_what_waits_is_told_apart() -> None:
    history = running()
    assert trace(history.events).state == RunState.THINKING
    history.start_acting(0)
    assert trace(history.events).state == RunState.ACTING
    request = history.ask(call=1, reason="it has an effect")
    seen = trace(history.events)
    assert seen.state == RunState.WAITING
    assert [call.state for call in seen.turns[0].calls] == ["running", "waiting"]
    assert [asked.request for asked in seen.waiting] == [request]
    history.cancel("ann", "too late")
    assert trace(history.events).state == RunState.CANCELLING


def test_a_rejected_call_keeps_reason_person_and_time() -> None:
    history = running()
    history.act(0, "ok")
    request = history.ask(call=1, reason="it has an effect")
    history.decide(decision(request.id, Choice.REJECT, by="bob", reason="wrong account, use 42"))
    rejected = trace(history.events).turns[0].calls[1]
    assert (rejected.state, rejected.observation) == ("rejected", None)
    history.say(1, "not run: an operator (bob) rejected this call.")
    history.think(answer="Not done.")
    rejected = trace(history.events).turns[0].calls[1]
    assert (rejected.state, rejected.observation) == ("rejected", "not run: an operator (bob) rejected this call.")
    assert rejected.asked[0].settled is not None
    assert rejected.asked[0].settled.reason == "wrong account, use 42"


def test_a_decision_that_was_not_accepted_leaves_the_request_open_and_is_shown() -> None:
    history = running()
    request = history.ask(call=1, reason="it has an effect")
    history.decide(decision(request.id, Choice.APPROVE, by="eve"), why_not="eve may not approve")
    [asked] = trace(history.events).waiting
    assert [(ruling.by, ruling.accepted, ruling.why_not) for ruling in asked.rulings] == [
        ("eve", False, "eve may not approve")
    ]


def test_a_lost_call_asks_and_its_second_sending_is_part_of_the_same_call() -> None:
    history = running()
    history.lose(1, "timeout:heartbeat", "activity Heartbeat timeout")
    request = history.ask(call=1, reason="activity Heartbeat timeout", kind=RequestKind.UNKNOWN)
    assert trace(history.events).turns[0].calls[1].state == "waiting"
    history.decide(decision(request.id, Choice.RERUN))
    history.act(1, "booked", again=1)
    call = trace(history.events).turns[0].calls[1]
    assert (call.state, call.observation, len(call.executions)) == ("ok", "booked", 2)
    assert call.executions[0].failure == "timeout:heartbeat: activity Heartbeat timeout"


def test_a_model_that_cannot_be_asked_shows_with_its_turn() -> None:
    history = History("leave-3")
    history.open()
    history.think_in_vain("NeedsPerson", "the key is revoked")
    history.ask(reason="the key is revoked", kind=RequestKind.STUCK)
    seen = trace(history.events)
    assert seen.state == RunState.WAITING
    assert seen.turns[0].asked[0].request.kind == RequestKind.STUCK
    assert seen.turns[0].executions[0].failure == "NeedsPerson: the key is revoked"


def test_a_refused_call_shows_its_advice() -> None:
    history = History("leave-4")
    history.open()
    history.think(calls=[call("hr_look", "{}", refuse="no such tool; did you mean hr_lookup?", asked_name="hr look")])
    [refused] = trace(history.events).turns[0].calls
    assert (refused.state, refused.observation) == ("refused", "no such tool; did you mean hr_lookup?")
    assert refused.asked_name == "hr look"


def test_a_run_that_failed_says_why() -> None:
    history = History("leave-5")
    history.end(RunState.FAILED, reason="KeyError: 'x'")
    seen = trace(history.events)
    assert seen.state == RunState.FAILED
    assert seen.outcome is not None
    assert seen.outcome.reason == "KeyError: 'x'"


def test_a_suspended_run_is_loud_until_it_moves_again() -> None:
    history = running()
    history.suspend("[TMPRL1100] Nondeterminism error")
    assert [suspension.over for suspension in trace(history.events).suspensions] == [False]
    history.start_acting(0)
    assert [suspension.over for suspension in trace(history.events).suspensions] == [True]


def test_records_nobody_can_read_show_as_missing() -> None:
    history = running()
    events = [*history.events]
    seen = trace([event for event in events if getattr(event, "activity_id", "") != "think-1"])
    assert (seen.model, seen.budget) == ("", None)


def test_events_without_a_start_are_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="whole history"):
        trace(running().events[1:])


def test_a_call_that_was_sent_twice_under_one_id_shows_both_sendings() -> None:
    history = running()
    history.act(0, "first")
    history.act(0, "second")
    assert len(trace(history.events).turns[0].calls[0].executions) == 2
