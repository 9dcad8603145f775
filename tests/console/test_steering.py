"""Speaking to a run that did not ask: what is said, who paused it and why, is seen wherever the run is."""

import json

import pytest

from perdure.console import exits
from perdure.testing.histories import History
from perdure.testing.runs import InMemoryRuns
from tests.console.conftest import Console


@pytest.fixture
def waiting(console: Console) -> Console:
    console("start", "leave_desk", "Book 3 days.", "--id", "leave-17")
    return console


def test_what_is_said_is_in_the_trace_with_who_said_it_and_whether_it_was_heard(waiting: Console) -> None:
    done = waiting("say", "leave", "Not on Monday.")
    assert done.exit_code == exits.DONE
    assert "said     leave-17 by ann (unverified)" in done.stdout
    told = waiting("trace", "leave-17").stdout
    assert "by ann (unverified)" in told
    assert "Not on Monday. — not heard yet" in told
    waiting("approve", "a1b2")
    assert "Not on Monday.\n" in waiting("trace", "leave-17").stdout
    assert "by ann (unverified): Not on Monday." in waiting("watch", "leave-17").stdout


def test_the_same_word_again_is_harmless_and_says_so(waiting: Console) -> None:
    waiting("say", "leave", "Not on Monday.", "--id", "word-1")
    again = waiting("say", "leave", "Not on Monday.", "--id", "word-1")
    assert (again.exit_code, "nothing changed" in again.stdout) == (exits.DONE, True)


def test_a_paused_run_is_listed_with_who_and_why_and_still_in_the_inbox(waiting: Console) -> None:
    told = json.loads(waiting("pause", "leave", "--reason", "closed", "--by", "bob", "-o", "json").stdout)
    assert (told["steer"], told["by"], told["again"]) == ("pause", "bob", False)
    listed = waiting("list", "--state", "paused").stdout
    assert "paused" in listed
    assert "by bob: closed; approval" in listed
    assert json.loads(waiting("list", "-o", "jsonl").stdout)["paused"]["by"] == "bob"
    assert "a1b2c3d4" in waiting("inbox").stdout
    shown = waiting("show", "leave-17").stdout
    assert "by bob (unverified)" in shown
    assert "closed" in shown
    assert "nothing changed" in waiting("pause", "leave").stdout


def test_a_resumed_run_waits_as_before(waiting: Console) -> None:
    waiting("pause", "leave")
    assert waiting("resume", "leave").exit_code == exits.DONE
    assert json.loads(waiting("show", "leave-17", "-o", "json").stdout)["state"] == "waiting"
    document = json.loads(waiting("trace", "leave-17", "-o", "json").stdout)
    assert [word["steer"] for word in document["spoken"]] == ["pause", "resume"]
    assert document["paused"] is None


@pytest.mark.parametrize(
    ("verb", "why"),
    [
        (("say", "leave", "Hello."), "Nothing can be said to it any more"),
        (("pause", "leave"), "Nothing was paused"),
        (("resume", "leave"), "Nothing was resumed"),
    ],
)
def test_nothing_can_be_said_to_a_run_that_has_ended(waiting: Console, verb: tuple[str, ...], why: str) -> None:
    waiting("approve", "a1b2")
    done = waiting(*verb)
    assert done.exit_code == exits.NOT_TAKEN
    assert f"has ended: answered. {why}" in done.stderr


def test_a_failed_run_goes_on_and_says_who_took_it_on(console: Console) -> None:
    console("start", "still_stuck", "Hello.", "--id", "hello-1")
    console("answer", "57ac", "stop")
    failed = console("show", "hello-1")
    assert failed.stdout.splitlines()[0].endswith("failed")
    assert "perdure retry hello-1" in failed.stderr
    done = console("retry", "hello-1", "--reason", "the key is new", "--by", "bob")
    assert done.exit_code == exits.DONE
    shown = console("show", "hello-1").stdout
    assert "failed" not in shown.splitlines()[0]
    assert "retried  by bob (unverified)" in shown
    assert "the key is new" in shown


def test_what_has_not_failed_is_not_retried(waiting: Console) -> None:
    done = waiting("retry", "leave")
    assert (done.exit_code, "has not failed" in done.stderr) == (exits.NOT_TAKEN, True)


def test_saying_nothing_is_a_wrong_usage(waiting: Console) -> None:
    assert waiting("say", "leave", " ").exit_code == exits.USAGE
    assert waiting("say", "leave", "x", "--id", "").exit_code == exits.USAGE


def test_what_was_said_cannot_act_on_a_terminal(console: Console) -> None:
    history = History("run-1")
    history.open()
    console.world.port = InMemoryRuns([history])
    console("say", "run-1", "a\x1b[2Jb", "--by", "e\x1b[31mve")
    for told in (console("trace", "run-1").stdout, console("list").stdout):
        assert "\x1b" not in told


def test_nothing_is_waited_for_after_a_decision_on_a_paused_run(waiting: Console) -> None:
    waiting("pause", "leave", "--by", "bob")
    done = waiting("approve", "a1b2")
    assert done.exit_code == exits.DONE
    assert "paused by bob" in done.stderr
    assert "perdure resume leave-17" in done.stderr
    assert "LV-1042" not in done.stdout
