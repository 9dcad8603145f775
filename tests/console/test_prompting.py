"""At a terminal the operator is asked, once for each request that still waits."""

import io
from datetime import UTC

import pytest
from rich.console import Console

from perdure.console import exits
from perdure.console.desk import Desk
from perdure.console.running import Follower
from perdure.console.screen import Output, Screen
from perdure.testing.runs import InMemoryRuns
from tests.console.conftest import PLAYS, InMemoryWorld


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def followed(
    agent: str, typed: str, monkeypatch: pytest.MonkeyPatch, seconds: float = 60
) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of following a run while `typed` is typed."""
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("PERDURE_OPERATOR", "ann")
    runs = InMemoryRuns(plays=PLAYS)
    started = await runs.start(agent, "task")
    screen = Screen(out=Console(file=out), err=Console(file=err, force_terminal=True, width=100, no_color=True))
    desk = Desk(InMemoryWorld(runs), screen, zone=UTC)
    follower = Follower(desk, runs, started.run_id, Output.TEXT, approve_all=False, prompt=True, aside=True)
    code = await follower.follow(seconds)
    return code, out.getvalue(), err.getvalue()


async def test_yes_approves(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = await followed("leave_desk", "y\n", monkeypatch)
    assert code == exits.DONE
    assert "Booked as LV-1042." in out
    assert "approve? y, n, or why not" in err


async def test_no_rejects_with_the_reason_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = await followed("leave_desk", "n wrong days\ny\n", monkeypatch)
    assert code == exits.DONE
    assert "Nothing was booked." in out
    assert "reject of a1b2c3d4 by ann (unverified): wrong days" in err


async def test_ok_rejects_nothing_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = await followed("leave_desk", "ok\nn\ny\n", monkeypatch)
    assert "reject with the reason 'ok'?" in err
    assert (code, "Booked as LV-1042." in out) == (exits.DONE, True)


async def test_an_empty_line_leaves_it_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = await followed("leave_desk", "\n", monkeypatch, 1.5)
    assert code == exits.WAITING
    assert "left waiting, and still following" in err


async def test_an_unknown_outcome_is_asked_for_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = await followed("lost", "happened\nreceipt 9\n", monkeypatch)
    assert code == exits.DONE
    assert "Paid: receipt 9" in out


async def test_a_stuck_run_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = await followed("stuck", "retry\n", monkeypatch)
    assert (code, "Hello." in out) == (exits.DONE, True)
