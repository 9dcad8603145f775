"""Looking at runs: text for people, JSON for programs, nothing forged, times with their zone (C57, C63, C65)."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.console import exits
from perdure.core.contracts import Effect
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
    for needed in ('pay {"amount":20}', "20 is due.", "amount > 1", "2026-11-29 11:00:02 +00:00", "perdure approve "):
        assert needed in told


def test_an_inbox_as_jsonl_gives_an_item_a_line(three: Console) -> None:
    items = [json.loads(line) for line in three("inbox", "-o", "jsonl").stdout.splitlines()]
    assert [item["run_id"] for item in items] == ["pay-2", "pay-1", "pay-3"]
    assert items[0]["call"]["arguments"] == '{"amount":20}'
    assert items[0]["request"]["since"] == "2026-11-29T11:00:02.900+00:00"
    assert items[0]["settled"] is None


def test_an_empty_inbox_says_so_and_is_no_error(console: Console) -> None:
    done = console("inbox")
    assert (done.exit_code, done.stdout, done.stderr) == (exits.DONE, "", "nothing waits\n")


def test_a_list_is_newest_first_and_tells_what_waits(three: Console) -> None:
    lines = three("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["pay-3", "pay-1", "pay-2"]
    assert "waiting" in lines[0]
    assert "pay [" in lines[0]


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
    assert "Pay invoice 1." in three("trace", "--file", str(saved)).stdout


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
