"""Every view shows what is untrusted inert, visible and whole, and says when, who, and what next (C57, C63, C65)."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from perdure.core.contracts import Choice, Decision, Effect, RequestKind, RunState, Steer, Steering
from perdure.testing.histories import History, call
from perdure.tools.admission import title
from perdure.traces import document, lines, text
from perdure.traces.clock import clock, lasted, relative, stamp
from perdure.traces.events import ActivityStarted
from perdure.traces.narrate import Narration
from perdure.traces.turns import trace

EVIL = "\x1b[2K\rfake \u202e\u200b<img src=x onerror=alert(1)>" + " " * 5000 + "[bold]payload[/bold]"
BRIEF = EVIL.replace(" " * 5000, " " * 100)  # in a decision, which is bounded
TINY = "\x1b[2K\rfake \u202e\u200b<img>"
MARK = "\\x1b[2K\\rfake <U+202E><U+200B><img src=x onerror=alert(1)><5,000 spaces>[bold]payload[/bold]"


def forged() -> History:
    """A run in which everything that anybody else wrote tries to forge the view."""
    history = History("run" + EVIL, agent="agent" + EVIL, task="task" + EVIL)
    history.open("model" + EVIL)
    arguments = json.dumps({"to": EVIL.replace("\x1b", "\x9b")}, ensure_ascii=False)
    calls = [
        call("pay" + EVIL, arguments, ask="why" + EVIL, effect=Effect.ONCE),
        call("look", "{}", refuse="advice" + EVIL),
        call("read", "{}", asked_name="asked" + EVIL),
    ]
    history.note("note" + EVIL)
    history.think("claim" + EVIL, {"type": "block" + EVIL, "x": EVIL}, calls=calls)
    history.act(2, "seen" + EVIL, attempt=2, worker="worker" + EVIL, last_failure="failure" + EVIL)
    history.lose(2, "kind" + EVIL, "message" + EVIL, again=1, worker="w" + EVIL)
    history.ask(call=0, reason="why" + EVIL, request_id="id" + TINY)
    said = Decision(id="d", request="id" + TINY, choice=Choice.APPROVE, by="eve" + BRIEF, reason="because" + BRIEF)
    history.decide(said, why_not="no" + EVIL)
    history.cancel("client" + EVIL, "cancel" + EVIL)
    history.suspend("suspend" + EVIL)
    return history


def narrated(history: History) -> str:
    narration = Narration(UTC)
    return lines.text(line for event in history.events for line in narration.feed(event))


def shown(history: History) -> str:
    seen = trace(history.events)
    return lines.text(text.traced(seen, text.View(now=seen.last, zone=UTC, limit=None)))


def item(history: History) -> str:
    seen = trace(history.events)
    view = text.View(now=seen.last + timedelta(minutes=5), zone=UTC)
    return "\n".join(lines.text(text.request(seen, asked, view)) for asked in seen.waiting)


def ended(history: History) -> str:
    history.end(RunState.CANCELLED, answer="answer" + EVIL, reason="reason" + EVIL, report=("report" + EVIL,))
    return shown(history)


@pytest.mark.parametrize("view", [narrated, shown, item, ended])
def test_no_view_can_be_forged(view: Callable[[History], str]) -> None:
    told = view(forged())
    assert told.replace("\n", "").isprintable()
    assert " " * 100 not in told
    assert MARK in told


def test_json_is_plain_ascii_and_holds_every_byte() -> None:
    history = forged()
    told = document.dumps(document.document(trace(history.events)))
    assert told.isascii()
    assert told.isprintable()
    assert json.loads(told)["turns"][0]["calls"][0]["tool"] == "pay" + EVIL


def test_the_arguments_of_a_request_are_shown_whole() -> None:
    arguments = {"rows": [{"account": f"DE{number:04}", "amount": number} for number in range(300)]}
    history = History("pay-1")
    history.open()
    history.think("Pay.", calls=[call("pay", arguments, ask="it has an effect", effect=Effect.ONCE)])
    history.ask(call=0, reason="it has an effect")
    told = item(history)
    assert all(f"DE{number:04}" in told for number in range(300))


def test_what_is_cut_says_how_much_and_how_to_see_it() -> None:
    history = History("long-1")
    history.open()
    history.think("Look.", calls=[call("read", "{}")])
    history.act(0, "word " * 1000)
    seen = trace(history.events)
    told = lines.text(text.traced(seen, text.View(now=seen.last, zone=UTC, limit=100)))
    assert "<4,900 more characters> (all of it: --full, or -o json)" in told


def test_an_item_says_all_that_one_needs_to_decide() -> None:
    history = History("pay-1", agent="billing", task="Pay invoice 17.")
    history.open()
    history.think(
        "The invoice is due.", calls=[call("pay", {"amount": "12.50"}, ask="amount > 10", effect=Effect.ONCE)]
    )
    history.ask(call=0, reason="amount > 10", request_id="a1b2c3d4")
    told = item(history)
    for needed in (
        "a1b2c3d4  approval  pay",
        "pay-1 (billing), turn 1",
        "Pay invoice 17.",
        "claims   The invoice is due.",
        'pay {"amount":"12.50"}',
        "amount > 10",
        "2026-11-29 12:00:01 +00:00 (5 min ago)",
        "perdure approve a1b2c3d4",
        "perdure reject a1b2c3d4 --reason '...'",
    ):
        assert needed in told


@pytest.mark.parametrize("kind", RequestKind)
def test_each_kind_of_request_offers_its_choices_as_commands(kind: RequestKind) -> None:
    history = History("pay-1")
    history.open()
    history.think("Pay.", calls=[call("pay", "{}")])
    history.ask(call=0, reason="lost", kind=kind, request_id="a1b2c3d4")
    commands = [line for line in item(history).splitlines() if line.strip().startswith("perdure ")]
    assert len(commands) == len(text.CHOICES[kind])


def test_a_command_cannot_be_made_to_run_something_else() -> None:
    assert text.command("x; rm -rf ~", Choice.APPROVE) == "perdure approve 'x; rm -rf ~'"


def test_a_narration_tells_attempts_waits_and_decisions() -> None:
    history = History("pay-1")
    history.open()
    history.think("Pay.", calls=[call("pay", {"amount": 5}, ask="it has an effect")])
    request = history.ask(call=0, reason="it has an effect", request_id="a1b2c3d4")
    history.decide(Decision(id="d", request=request.id, choice=Choice.APPROVE, by="ann", reason="fine"))
    history.act(0, "paid 5", attempt=2, worker="worker-2", last_failure="activity Heartbeat timeout")
    history.think(answer="Paid 5.")
    history.end(answer="Paid 5.")
    told = narrated(history)
    for known in (
        "turn 1    thinking",
        "claims    Pay.",
        'call      pay {"amount":5}',
        'waits     approval of pay {"amount":5} — it has an effect',
        "decided   approve of a1b2c3d4 by ann (unverified): fine",
        "retry     pay: attempt 2 on worker-2; before: activity Heartbeat timeout",
        "ok        pay (0.2 s): paid 5",
        "answered   Paid 5.",
        "900 tokens in (600 cached), 45 out",
    ):
        assert known in told


def test_an_attempt_is_told_once() -> None:
    history, narration = History("pay-1"), Narration(UTC)
    history.open()
    history.think("Look.", calls=[call("read", "{}")])
    history.start_acting(0)
    attempt = ActivityStarted(
        99, datetime(1970, 1, 1, tzinfo=UTC), "act-1-0", 2, "worker-2", "activity Heartbeat timeout"
    )
    told = [str(line) for event in [*history.events, attempt, attempt] for line in narration.feed(event)]
    assert sum("attempt 2 on worker-2" in line for line in told) == 1
    assert not any("1970" in line for line in told)


def test_a_narration_holds_what_waits_now() -> None:
    history, narration = History("pay-1"), Narration(UTC)
    history.open()
    history.think("Pay.", calls=[call("pay", "{}", ask="it has an effect")])
    request = history.ask(call=0, reason="it has an effect")
    for event in history.events:
        narration.feed(event)
    assert list(narration.requests) == [request.id]


def test_times_carry_their_zone() -> None:
    at = History("x").now.replace(hour=16, minute=41)
    tokyo, la = timezone(timedelta(hours=9)), timezone(timedelta(hours=-8))
    assert stamp(at, tokyo) == "2026-11-30 01:41:00 +09:00"
    assert stamp(at, la) == "2026-11-29 08:41:00 -08:00"
    assert (clock(at, UTC), clock(at, tokyo)) == ("16:41:00Z", "01:41:00+09:00")
    assert (relative(at, at + timedelta(hours=3)), relative(at, at - timedelta(hours=3))) == ("3 h ago", "in 3 h")


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.012, "12 ms"), (0.21, "0.2 s"), (41, "41 s"), (123, "2 min 3 s"), (90061, "1 d 1 h")]
)
def test_durations_are_told_in_two_units(seconds: float, told: str) -> None:
    assert lasted(seconds) == told


LONG = '{"text":"a, b: {c} \\"x\\"","amount":1.10,"list":[1,{}],"padding":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}'


def test_laying_out_changes_no_byte_but_the_space_between_tokens() -> None:
    out = lines.laid_out(LONG)
    assert json.loads(out) == json.loads(LONG)
    assert "1.10" in out
    assert '"a, b: {c} \\"x\\""' in out


def test_the_document_is_versioned_and_its_times_have_an_offset() -> None:
    told = document.document(trace(forged().events))
    assert (told["format"], told["v"]) == ("perdure.trace", 1)
    assert told["started"] == "2026-11-29T12:00:00.000+00:00"


def test_what_a_recorded_title_named_and_counted_is_not_named_again() -> None:
    long = title("pay", {"to": "\u202e" + "x" * 200})
    assert long.endswith("more characters>")
    assert text.titled(long) == long
    assert text.titled('pay(note="<5 more characters>")' + "\x1b[2J").startswith('pay(note="<U+003C>5 more')
    assert "\x1b" not in text.titled("pay\x1b[2J")


def test_a_call_that_nobody_began_is_said_to_be_not_run_yet() -> None:
    history = History("pay-1")
    history.open()
    history.think("Pay.", calls=[call("pay", {"amount": 5})])
    assert "pending  not run yet" in shown(history)


def test_what_was_left_with_no_worker_up_and_comes_again_is_told_once() -> None:
    history = History("pay-1")
    history.open()
    history.think("Pay.", calls=[call("pay", {"amount": 5}, ask="it acts")])
    history.ask(call=0, reason="it acts", request_id="a1b2c3d4")
    approval = Decision(id="d", request="a1b2c3d4", choice=Choice.APPROVE, by="ann")
    word = Steering(id="w", steer=Steer.SAY, by="ann", text="Be quick.")
    history.leave(approval)
    history.steer(word, via="signal")
    history.decide(approval)
    history.steer(word)
    assert shown(history).count("approve by ann") == 1
    told = narrated(history)
    assert (told.count("approve of a1b2c3d4"), told.count("Be quick.")) == (1, 1)
