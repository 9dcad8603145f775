"""The demo as people start it: real server, real worker, real kills, and nothing left behind."""

import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from examples.leave_desk_model import SCRIPT
from perdure import _home
from perdure.console.exits import FAILED, INTERRUPTED, SETUP
from perdure.testing import ScriptedModel
from tests.demo.conftest import ON_LINUX, Playing

pytestmark = [ON_LINUX, pytest.mark.timeout(300)]
Play = Callable[..., Playing]


def bookings(state: Path) -> int:
    with closing(sqlite3.connect(state / "demo" / "hr.sqlite")) as hr:
        [count] = hr.execute("SELECT count(*) FROM bookings").fetchone()
    return int(count)


def trace_of(shown: str) -> str:
    return shown[shown.index("This is the trace") :]


def test_the_worker_is_killed_in_mid_call_and_the_run_answers_with_one_booking(play: Play, state: Path) -> None:
    demo = play()
    assert demo.end() == 0, demo.shown

    killed = re.search(r"Worker (\d+) was in the middle of leave_records.*SIGKILL", demo.shown)
    other = re.search(r"Worker (\d+) starts in its place", demo.shown)
    assert killed
    assert other
    assert {int(killed[1]), int(other[1])} <= demo.started
    assert f"leave_records: attempt 2 on {other[1]}@" in demo.shown

    trace = trace_of(demo.shown)
    for observed in ('{"entitlement_days": 28}', '{"taken_days": 19, "pending_days": 2}', "pending days count as used"):
        assert observed in trace
    assert 'calculator {"expression":"28 - 19 - 2"}' in trace
    assert "why      it acts" in demo.shown
    assert "approve by demo" in trace
    assert "each stands in an observation" in trace
    assert "You have 7 days of holiday left, and 3 of them are booked" in trace

    assert "Bookings in the HR database: 1" in demo.shown
    assert bookings(state) == 1
    assert re.search(r"http://127\.0\.0\.1:\d+/namespaces/default/workflows/leave-\w+/[\w-]+/history", demo.shown)
    assert not (state / "demo" / "play.json").exists()  # the next one begins anew
    assert demo.left_behind() == set()


@pytest.mark.slow
def test_interrupted_anywhere_it_goes_on_where_it_was_and_leaves_no_process_behind(play: Play, state: Path) -> None:
    """One run, through five demos: each ends another way, at another place."""
    starting = play(terminal=True)
    starting.until("server")
    starting.tell(signal.SIGINT)
    assert starting.end() == INTERRUPTED
    assert "goes on" in starting.shown
    assert starting.left_behind() == set()

    in_the_call = play()
    in_the_call.until("call      leave_records")
    in_the_call.tell(signal.SIGKILL)
    assert in_the_call.end() == -signal.SIGKILL
    assert in_the_call.left_behind() == set()

    in_the_silence = play(terminal=True)
    in_the_silence.until("starts in its place")
    in_the_silence.tell(signal.SIGINT)
    assert in_the_silence.end() == INTERRUPTED
    assert in_the_silence.left_behind() == set()

    while_asked = play(terminal=True)
    while_asked.until("approve?")
    while_asked.hang_up()
    assert while_asked.left_behind() == set()
    assert "starts in its place" not in while_asked.shown  # one kill is enough
    assert bookings(state) == 0

    last = play(terminal=True)
    last.until("approve?")
    assert f"PERDURE_STATE={state / 'demo'} perdure inbox" in last.shown
    assert re.search(rf"PERDURE_STATE={state / 'demo'} perdure approve \w{{8}}", last.shown)
    last.type("n too many are away")
    last.until("reject with the reason 'too many are away'?")
    last.type("y")
    last.until("Enter")
    last.type("")
    assert last.end() == 0
    assert last.left_behind() == set()
    runs = {run for each in (starting, last) for run in re.findall(r"run +(leave-\w+)", each.shown)}
    assert len(runs) == 1
    assert "going on" in last.shown
    assert "reject" in trace_of(last.shown)
    assert "Nothing was booked: an operator declined it, saying: too many are away." in " ".join(last.shown.split())
    assert "Bookings in the HR database: 0" in last.shown
    assert bookings(state) == 0


@pytest.mark.slow
def test_with_a_key_the_model_it_is_for_is_asked(play: Play, state: Path) -> None:
    """Where the vendor is a strict stand-in that knows one key, at the address that its SDK is told."""
    with ScriptedModel(SCRIPT, key="the right key") as vendor:
        demo = play(OPENAI_API_KEY="the right key", OPENAI_BASE_URL=vendor.openai_url, NO_PROXY="127.0.0.1")
        assert demo.end() == 0
    assert "openai:gpt-6.1-sol, the real one" in demo.shown
    assert {asked.protocol for asked in vendor.requests} == {"openai-responses"}
    assert vendor.violations == []
    assert bookings(state) == 1


@pytest.mark.slow
def test_a_wrong_key_is_told_and_the_run_ends_by_the_demos_own_word(play: Play, state: Path) -> None:
    with ScriptedModel(SCRIPT, key="the right key") as vendor:
        demo = play(OPENAI_API_KEY="a wrong key", OPENAI_BASE_URL=vendor.openai_url, NO_PROXY="127.0.0.1")
        assert demo.end() == FAILED
    assert "Set a valid OPENAI_API_KEY" in demo.shown
    assert "a wrong key" not in demo.shown
    assert "Bookings in the HR database: 0" in demo.shown
    assert demo.left_behind() == set()


@pytest.mark.slow
def test_a_worker_that_somebody_else_kills_is_replaced(play: Play, state: Path) -> None:
    demo = play()
    demo.until("starts in its place")
    [worker] = re.findall(r"Worker (\d+) starts in its place", demo.shown)
    os.kill(int(worker), signal.SIGKILL)
    assert demo.end() == 0
    assert f"Worker {worker} has ended, and the demo did not do it" in demo.shown
    assert bookings(state) == 1
    assert demo.left_behind() == set()


@pytest.mark.slow
def test_a_worker_that_cannot_start_ends_the_demo_with_the_workers_own_words(play: Play) -> None:
    demo = play(PERDURE_GRANT_KEY="too short")
    assert demo.end() == SETUP
    assert "PERDURE_GRANT_KEY is too short" in demo.shown
    assert demo.left_behind() == set()


@pytest.mark.slow
def test_a_decision_from_another_terminal_is_taken_while_the_demo_asks(play: Play, state: Path) -> None:
    demo = play(terminal=True)
    demo.until("approve?")
    [request] = set(re.findall(r"perdure approve (\w+)", demo.shown))
    elsewhere = {**os.environ, "PERDURE_STATE": str(state / "demo")}
    subprocess.run(_home.command("client", "approve", request, "--by", "ann"), env=elsewhere, check=True)
    demo.until("Enter")
    demo.type("")
    assert demo.end() == 0
    assert "approve by ann" in trace_of(demo.shown)
    assert bookings(state) == 1


@pytest.mark.slow
def test_interrupted_before_the_server_is_up_it_leaves_nothing(play: Play) -> None:
    demo = play(terminal=True)
    demo.until("starting")
    demo.tell(signal.SIGINT)
    assert demo.end() == INTERRUPTED
    assert demo.left_behind() == set()


@pytest.mark.slow
def test_begun_anew_it_leaves_the_old_run_cancelled_and_plays_another(play: Play, state: Path) -> None:
    first = play("--yes")
    first.until("call      leave_records")
    first.tell(signal.SIGTERM)
    assert first.end() == INTERRUPTED
    assert first.left_behind() == set()
    second = play("--yes", "--anew")
    assert second.end() == 0
    [old], [new] = ({*re.findall(r"run +(leave-\w+)", each.shown)} for each in (first, second))
    assert old != new
    assert bookings(state) == 1
