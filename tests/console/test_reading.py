"""Looking at runs: text for people, JSON for programs, nothing forged, times with their zone (C57, C63, C65)."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.console import exits
from perdure.core.contracts import Choice, Decision, Effect, RequestKind, RunState
from perdure.testing.histories import History, call
from perdure.testing.runs import InMemoryRuns
from tests.console.conftest import Console

EVIL = "\x1b[2K\rfake\u202e\u200b<img src=x>" + " " * 5000 + "[bold]payload"


def gated(run_id: str, task: str, amount: int, minutes: int = 0) -> History:
    history = History(run_id, agent="billing", task=task, at=History("x").now + timedelta(minutes=minutes))
    history.open()
    history.think(f"{amount} is due.", calls=[call("pay", {"amount": amount}, ask="amount > 1", effect=Effect.ONCE)])
    history.ask(call=0, reason="amount > 1")
    return history


@pytest.fixture
def three(console: Console) -> Console:
    two = gated("pay-2", "Pay invoice 2.", 20, minutes=-60)
    console.world.port = InMemoryRuns(
        [gated("pay-1", "Pay invoice 1.", 10), two, gated("pay-3", "Pay invoice 3.", 30, 5)]
    )
    return console


def test_an_inbox_shows_each_item_whole_oldest_first(three: Console) -> None:
    told = three("inbox").stdout
    places = [told.index(f"Pay invoice {number}.") for number in (2, 1, 3)]
    assert places == sorted(places)
    for needed in ('pay {"amount":20}', "20 is due.", "amount > 1", "2026-11-29 11:00:01 +00:00", "perdure approve "):
        assert needed in told


def test_a_trace_that_waits_tells_how_to_decide(three: Console) -> None:
    assert "perdure show pay-1" in three("trace", "pay-1").stderr
    assert three("trace", "pay-1", "-o", "json").stderr == ""


def test_an_inbox_as_jsonl_gives_an_item_a_line(three: Console) -> None:
    items = [json.loads(line) for line in three("inbox", "-o", "jsonl").stdout.splitlines()]
    assert [item["run_id"] for item in items] == ["pay-2", "pay-1", "pay-3"]
    assert items[0]["call"]["arguments"] == '{"amount":20}'
    assert items[0]["request"]["since"] == "2026-11-29T11:00:01.900+00:00"
    assert items[0]["settled"] is None


def test_an_empty_inbox_says_so_and_is_no_error(console: Console) -> None:
    done = console("inbox")
    assert (done.exit_code, done.stdout, done.stderr) == (exits.DONE, "", "nothing waits\n")


def test_a_list_is_newest_first_and_tells_what_waits(three: Console) -> None:
    head, *lines = three("list").stdout.splitlines()
    assert head.split() == ["RUN", "STATE", "AGENT", "STARTED", "WHAT"]
    assert [line.split()[0] for line in lines] == ["pay-3", "pay-1", "pay-2"]
    assert "waiting" in lines[0]
    assert lines[0].split()[2] == "billing"
    assert 'approval pay {"amount":30} [' in lines[0]


def test_a_list_can_be_narrowed(three: Console) -> None:
    three("cancel", "pay-3")
    assert [row["run_id"] for row in json.loads(three("list", "--state", "waiting", "-o", "json").stdout)] == [
        "pay-1",
        "pay-2",
    ]
    assert json.loads(three("list", "--agent", "nobody", "-o", "json").stdout) == []


def test_a_request_can_be_shown_by_its_own_id(three: Console) -> None:
    [item] = [json.loads(line) for line in three("inbox", "-o", "jsonl").stdout.splitlines()][:1]
    told = three("show", item["request"]["id"][:6]).stdout
    assert 'pay {"amount":20}' in told


def test_a_run_can_be_named_by_how_its_id_begins(three: Console) -> None:
    assert three("show", "pay-3").exit_code == exits.DONE
    ambiguous = three("show", "pay-")
    assert ambiguous.exit_code == exits.NOT_FOUND
    assert "'pay-'" in ambiguous.stderr


@pytest.mark.parametrize("verb", ["show", "watch", "trace", "cancel"])
def test_a_run_nobody_knows_is_not_found(console: Console, verb: str) -> None:
    done = console(verb, "nope")
    assert done.exit_code == exits.NOT_FOUND
    assert "'nope'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_trace_needs_a_run_or_a_file(console: Console) -> None:
    assert console("trace").exit_code == exits.USAGE


def test_a_saved_history_reads_like_a_run(three: Console, tmp_path: Path) -> None:
    saved = tmp_path / "history.json"
    assert three("trace", "pay-1", "--save", str(saved)).exit_code == exits.DONE
    three.world.saved = {saved.read_text(): gated("pay-1", "Pay invoice 1.", 10).events}
    from_file = three("trace", "--file", str(saved))
    assert "Pay invoice 1." in from_file.stdout
    assert from_file.stderr == ""  # it may long be decided


def test_a_file_that_is_no_history_says_so(console: Console, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    done = console("trace", "--file", str(wrong))
    assert done.exit_code == exits.NOT_FOUND
    assert "no history of a run" in done.stderr
    assert console("trace", "--file", str(tmp_path / "missing.json")).exit_code == exits.NOT_FOUND


@pytest.mark.parametrize(
    "words",
    [("list",), ("inbox",), ("show", "evil"), ("trace", "evil", "--full"), ("watch", "evil", "--timeout", "0.05")],
)
def test_no_verb_lets_a_run_forge_what_is_shown(console: Console, words: tuple[str, ...]) -> None:
    history = History("evil" + EVIL, agent="agent" + EVIL, task="task" + EVIL)
    history.open()
    arguments = json.dumps({"to": EVIL.replace("\x1b", "\x9b")}, ensure_ascii=False)
    history.think("claim" + EVIL, calls=[call("pay" + EVIL, arguments, ask="why" + EVIL, effect=Effect.ONCE)])
    history.ask(call=0, reason="why" + EVIL, request_id="id" + EVIL)
    console.world.port = InMemoryRuns([history])
    done = console(*words)
    for told in (done.stdout, done.stderr):
        assert told.replace("\n", "").isprintable()
    assert "<5,000 spaces>[bold]payload" in done.stdout


def test_an_error_cannot_be_forged_either(console: Console) -> None:
    told = console("show", "no\x1b[2K\u202e").stderr
    assert told.replace("\n", "").isprintable()


def lost_call() -> History:
    history = History("pay-1", agent="billing", task="Pay invoice 1.")
    history.open()
    history.think("It is due.", calls=[call("pay", {"amount": 10}, effect=Effect.ONCE)])
    history.lose(0, "timeout:heartbeat", "activity Heartbeat timeout", worker="17@host [billing]")
    history.ask(call=0, reason="activity Heartbeat timeout", kind=RequestKind.UNKNOWN, request_id="10570000")
    return history


@pytest.mark.parametrize("words", [("inbox",), ("show", "pay-1"), ("show", "1057"), ("trace", "pay-1")])
def test_what_one_needs_to_look_a_lost_call_up_is_shown(console: Console, words: tuple[str, ...]) -> None:
    console.world.port = InMemoryRuns([lost_call()])
    told = console(*words).stdout
    assert "key      key-0" in told
    assert "to worker 17@host [billing] (act-1-0)" in told
    assert "2026-11-29 12:00:02 +00:00" in told
    assert told.count("activity Heartbeat timeout") == 1
    data = console(*words, "-o", "json").stdout
    if words != ("show", "pay-1"):
        assert '"key": "key-0"' in data
        assert '"worker": "17@host [billing]"' in data


def test_what_is_shown_of_a_run_holds_what_waits_whole(console: Console) -> None:
    console.world.port = InMemoryRuns([lost_call()])
    [item] = json.loads(console("show", "pay-1", "-o", "json").stdout)["waiting"]
    assert item["call"]["key"] == "key-0"


def test_a_decision_left_with_the_run_says_when_it_takes_effect(console: Console) -> None:
    history = gated("pay-1", "Pay invoice 1.", 10)
    [request_id] = history.requests
    history.leave(Decision(id="d", request=request_id, choice=Choice.APPROVE, by="ann"))
    console.world.port = InMemoryRuns([history])
    told = console("show", "pay-1").stdout
    assert "left with the run; takes effect when a worker is up" in told
    assert "not accepted" not in told


def test_attempts_and_questions_stand_in_the_order_of_time_and_once(console: Console) -> None:
    history = History("hello-1")
    history.open()
    for again in (1, 2):
        history.think_in_vain("NeedsPerson", f"the key is revoked ({again})")
        request = history.ask(reason=f"the key is revoked ({again})", kind=RequestKind.STUCK)
        history.decide(Decision(id=f"d{again}", request=request.id, choice=Choice.RETRY, by="ann"))
    history.think(answer="Hello.")
    history.end(answer="Hello.")
    console.world.port = InMemoryRuns([history])
    told = console("trace", "hello-1").stdout
    assert "NeedsPerson" not in told
    places = [told.index(word) for word in ("revoked (1)", "retry by ann", "revoked (2)")]
    assert places == sorted(places)
    assert told.count("revoked (1)") == 1


def test_a_reason_that_comes_again_is_told_once(console: Console) -> None:
    console("start", "still_stuck", "Hello.", "--id", "hello-1")
    for request, choice in (("57ac0000", "retry"), ("57ac2222", "stop")):
        console("answer", request, choice)
    told = console("trace", "hello-1").stdout
    assert told.count("the key is revoked") == 1
    assert "stuck    again, for the same reason" in told


def test_a_cancelled_run_says_why_and_what_it_was_stuck_on(console: Console) -> None:
    history = History("hello-1")
    history.open()
    history.think_in_vain("NeedsPerson", "the key is revoked")
    history.ask(reason="the key is revoked", kind=RequestKind.STUCK)
    console.world.port = InMemoryRuns([history])
    console("cancel", "hello-1", "--reason", "not needed")
    told = console("show", "hello-1").stdout
    assert "not needed" in told
    assert "stuck    the key is revoked" in told


def test_saving_a_history_says_where_and_shows_nothing(three: Console, tmp_path: Path) -> None:
    saved = tmp_path / "my history.json"
    done = three("trace", "pay-1", "--save", str(saved))
    assert (done.exit_code, done.stdout) == (exits.DONE, "")
    assert f"perdure trace --file '{saved}'" in done.stderr


def test_a_history_that_cannot_be_saved_is_an_expected_error(three: Console, tmp_path: Path) -> None:
    done = three("trace", "pay-1", "--save", str(tmp_path / "none" / "x.json"))
    assert done.exit_code == exits.NOT_FOUND
    assert "cannot write" in done.stderr


def test_a_list_says_why_what_is_stuck_or_failed_is_so(console: Console) -> None:
    console("start", "stuck", "Hello.", "--id", "stuck-1")
    console("start", "lost", "Pay.", "--id", "lost-1")
    told = console("list").stdout
    assert "stuck: the key is revoked [57ac0000]" in told
    assert 'unknown pay {"amount":5} [10570000]' in told


def test_a_list_tells_reasons_without_class_names(console: Console) -> None:
    history = History("failed-1")
    history.open()
    history.end(RunState.FAILED, reason="ApplicationError: Stopped: stopped by 'ann': no key")
    broken = History("failed-2")
    broken.open()
    broken.end(RunState.FAILED, reason="ValueError: too many")
    console.world.port = InMemoryRuns([history, broken])
    told = console("list").stdout
    assert "stopped by 'ann': no key" in told
    assert "too many" in told
    assert "Error" not in told


def test_a_list_that_nothing_matches_says_so(three: Console) -> None:
    assert three("list", "--agent", "nosuch").stderr == "none match\n"


def test_a_list_is_not_told_answers_and_show_is(console: Console) -> None:
    console("start", "leave_desk", "Book.", "--id", "leave-17")
    console("approve", "a1b2c3d4")
    [row] = json.loads(console("list", "-n", "1", "-o", "json").stdout)
    assert "answer" not in row["outcome"]
    told = json.loads(console("show", "leave-17", "-o", "json").stdout)
    assert told["answer"] == told["outcome"]["answer"] == "Booked as LV-1042."


def test_for_which_run_a_run_works_is_told_wherever_it_is_shown(console: Console) -> None:
    history = History("payroll-7", agent="payroll", task="Pay ann.", parent="plan-1")
    history.open()
    history.think("10 is due.", calls=[call("pay", {"amount": 10}, ask="it acts", effect=Effect.ONCE)])
    history.ask(call=0, reason="it acts")
    console.world.port = InMemoryRuns([history])
    assert "for plan-1; approval pay" in console("list").stdout
    assert "payroll-7 (payroll), turn 1, for run plan-1" in console("inbox").stdout
    for verb in ("show", "trace"):
        assert "  for      run plan-1\n" in console(verb, "payroll-7").stdout
    for words in (("list",), ("inbox",), ("show", "payroll-7"), ("trace", "payroll-7")):
        assert json.loads(console(*words, "-o", "jsonl").stdout)["parent"] == "plan-1"


def test_the_list_says_which_runs_own_run_holds_it_up(console: Console) -> None:
    plan, payroll = History("plan-1", agent="plan", task="Pay all."), History("payroll-7", "payroll", parent="plan-1")
    plan.open()
    plan.think(calls=[call("payroll", {"task": "Pay ann."})])
    payroll.open()
    payroll.think(calls=[call("pay", {"amount": 10}, ask="it acts", effect=Effect.ONCE)])
    console.world.port = InMemoryRuns([plan, payroll])
    assert "its run payroll-7 waits" not in console("list").stdout
    payroll.ask(call=0, reason="it acts")
    assert "its run payroll-7 waits" in console("list").stdout
