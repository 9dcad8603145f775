"""Learning from many runs at the desk: what they took, and runs as cases."""

import asyncio
import io
import json
from datetime import UTC, timedelta
from pathlib import Path

import pytest
import yaml
from rich.console import Console as Terminal

from perdure.console import exits
from perdure.console.desk import Desk
from perdure.console.entry import app
from perdure.console.screen import Screen
from perdure.core.contracts import Choice, Decision, Effect, RunState
from perdure.testing import load_case
from perdure.testing.histories import History, call
from perdure.testing.runs import InMemoryRuns
from perdure.traces.events import Event
from tests.console.conftest import Console

EVIL = "\x1b[2K\rfake\u202e\u200b[bold]payload"


def refund(number: int, *, lookups: int = 1, model: str = "claude-opus-5-5", agent: str = "refunds") -> History:
    start = History("x").now + timedelta(hours=number)
    history = History(f"order-{number}", agent, f"Refund order {number}.", at=start)
    history.open(model)
    for _ in range(lookups):
        history.think("I look.", calls=[call("order", {"id": number})])
        history.act(0, "paid 49.90")
    paying = call("refund", {"id": number}, ask="it acts", effect=Effect.IDEMPOTENT)
    history.think("I pay.", calls=[paying])
    request = history.ask(call=0, reason="it acts", request_id=f"a1b2c3d{number}")
    history.decide(Decision(id=f"d{number}", request=request.id, choice=Choice.APPROVE, by="ann"), seconds=600)
    history.act(0, "paid back")
    history.think(answer="Done.")
    history.end(answer="Done.")
    return history


@pytest.fixture
def desk(console: Console) -> Console:
    runs = [refund(1), refund(2, lookups=3), refund(3, model="claude-of-our-own"), refund(4, agent="letters")]
    console.world.port = InMemoryRuns(runs)
    return console


def rows(told: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in told.splitlines() if line.strip()}


# --- stats ------------------------------------------------------------------------------------------------------------


def test_stats_tell_what_an_agents_runs_took_and_a_budget_that_fits(desk: Console) -> None:
    done = desk("stats", "refunds")
    told = rows(done.stdout)
    assert (done.exit_code, "letters" in done.stdout) == (exits.DONE, False)
    assert told["refunds"][:2] == ["3", "runs,"]
    assert told["states"] == ["3", "answered"]
    assert told["turns"] == ["3", "5", "5", "11"]
    assert told["waiting"][:2] == ["10", "min"]
    assert told["order"][:4] == ["5", "5", "0", "2"]
    assert told["refund"][:4] == ["3", "3", "0", "0"]
    assert "Budget(turns=8, tokens=7_100, time=60)  (now: 12 turns)" in done.stdout
    assert "3 answered runs, and half as much again: few yet" in done.stdout


def test_an_unknown_price_is_said_beside_the_money(desk: Console) -> None:
    told = desk("stats", "refunds").stdout
    assert (
        "money is that of 2 runs, at list prices or the author's; nobody knows what these cost: claude-scripted (1 run)"
        in told
    )
    assert "$" in told


def test_stats_of_all_agents_are_a_block_each(desk: Console) -> None:
    heads = [line.split()[0] for line in desk("stats").stdout.splitlines() if "started since" in line]
    assert heads == ["refunds", "letters"]


def test_stats_as_json_hold_every_figure(desk: Console) -> None:
    [found] = json.loads(desk("stats", "refunds", "-o", "json").stdout)
    assert (found["format"], found["v"], found["agent"]) == ("perdure.stats", 1, "refunds")
    assert found["turns"] == {"count": 3, "median": 3, "p95": 5, "most": 5, "total": 11}
    assert found["money"]["total"].startswith("0.0")
    assert [tool["tool"] for tool in found["tools"]] == ["order", "refund"]
    assert [json.loads(line)["agent"] for line in desk("stats", "-o", "jsonl").stdout.splitlines()] == [
        "refunds",
        "letters",
    ]


def test_stats_are_of_the_newest_runs_and_say_so(desk: Console) -> None:
    done = desk("stats", "refunds", "-n", "2", "-o", "json")
    assert json.loads(done.stdout)[0]["runs"] == 2
    done = desk("stats", "refunds", "-n", "2")
    assert "the newest 2 runs; more with -n" in done.stderr


@pytest.mark.parametrize(("since", "runs"), [("2026-11-29T14:30:00+00:00", 1), ("2026-11-29", 3), ("1000w", 3)])
def test_stats_can_begin_at_a_time(desk: Console, since: str, runs: int) -> None:
    [found] = json.loads(desk("stats", "refunds", "--since", since, "-o", "json").stdout)
    assert found["runs"] == runs


@pytest.mark.parametrize("since", ["yesterday", "", "7", "999999999999w", "-3d"])
def test_a_time_that_is_none_is_refused_with_the_right_form(desk: Console, since: str) -> None:
    done = desk("stats", "--since", since)
    assert done.exit_code == exits.USAGE
    assert "7d" in done.stderr


def test_stats_of_no_runs_say_so(desk: Console) -> None:
    done = desk("stats", "nobody")
    assert (done.exit_code, done.stdout, done.stderr) == (exits.DONE, "", "no runs match\n")
    assert json.loads(desk("stats", "nobody", "-o", "json").stdout) == []


def test_stats_hold_runs_against_expectations(desk: Console, tmp_path: Path) -> None:
    file = tmp_path / "refunds.expect.yaml"
    file.write_text("- {task: 'refund*1.', tools: [order, refund]}\n- {task: '*', tools: [order, letter]}\n")
    told = desk("stats", "refunds", "--expect", str(file)).stdout
    assert "right in 1 of 3 expected runs (33%)" in told
    assert "missing  letter (2 runs)" in told
    assert "wrong    refund (2 runs)" in told
    file.write_text("- {task: 'book*', tools: [book]}")
    assert "no run's task fits an expectation" in desk("stats", "--expect", str(file)).stdout


def test_a_file_without_expectations_is_told_of(desk: Console, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("order: refund")
    done = desk("stats", "--expect", str(file))
    assert done.exit_code == exits.SETUP
    assert "holds no expectations" in done.stderr
    assert desk("stats", "--expect", str(tmp_path / "missing.yaml")).exit_code == exits.NOT_FOUND


def test_a_run_that_cannot_be_read_is_left_out_and_told_of(desk: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaky(InMemoryRuns):
        async def events(self, run_id: str) -> list[Event]:
            found = list(await super().events(run_id))
            return found[1:] if run_id == "order-2" else found

    desk.world.port = Leaky([refund(1), refund(2)])
    done = desk("stats", "refunds")
    assert "left out 'order-2'" in done.stderr
    assert "1 run, of which 1 ended" in done.stdout


def test_no_name_can_forge_what_stats_show(console: Console) -> None:
    history = History("order-1", "agent" + EVIL, "Refund." + EVIL)
    history.open("model" + EVIL)
    history.think("?", calls=[call("tool" + EVIL, {}, refuse="no such tool")])
    history.end(RunState.LIMITED, reason="as the test wants it")
    console.world.port = InMemoryRuns([history])
    told = console("stats").stdout
    assert told.replace("\n", "").isprintable()
    assert "[bold]payload" in told


@pytest.mark.parametrize("width", [80, 120])
def test_stats_fit_a_terminal(desk: Console, width: int) -> None:
    out = io.StringIO()
    terminal = Terminal(file=out, width=width, force_terminal=True, no_color=True, color_system=None)
    at = Desk(desk.world, Screen(out=terminal), zone=UTC)
    desk.runner.invoke(app(lambda: at), ["stats"])
    lines = out.getvalue().splitlines()
    assert lines
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("terminal", [True, False])
def test_reading_many_runs_shows_how_far_it_is_on_a_terminal_alone(desk: Console, terminal: bool) -> None:
    err = io.StringIO()
    shown = Terminal(file=err, width=80, force_terminal=terminal, no_color=True)
    desk.runner.invoke(app(lambda: Desk(desk.world, Screen(err=shown), zone=UTC)), ["stats", "-o", "json"])
    assert ("reading runs" in err.getvalue(), "4/4" in err.getvalue()) == (terminal, terminal)


# --- cases ------------------------------------------------------------------------------------------------------------


def test_a_run_becomes_a_case_that_the_scripted_model_takes(desk: Console, tmp_path: Path) -> None:
    done = desk("cases", "order-1")
    assert (done.exit_code, done.stderr) == (exits.DONE, "")
    (tmp_path / "case.yaml").write_text(done.stdout)
    case = load_case(tmp_path / "case.yaml")
    assert (case.task, len(case.script.turns)) == ("Refund order 1.", 3)
    assert [(each.turn, each.call, each.choice) for each in case.decisions] == [(2, 0, Choice.APPROVE)]


def test_a_trace_and_a_saved_history_make_the_same_case(desk: Console, tmp_path: Path) -> None:
    saved = tmp_path / "history.json"
    saved.write_text("saved")
    assert isinstance(desk.world.port, InMemoryRuns)
    desk.world.saved = {"saved": asyncio.run(desk.world.port.events("order-1"))}
    case, line = desk("cases", "order-1").stdout, desk("cases", "order-1", "-o", "jsonl").stdout

    for source in (["order-1"], ["--file", str(saved)]):
        assert desk("trace", *source, "--cases").stdout == case
        assert desk("trace", *source, "--cases", "-o", "jsonl").stdout == line


def test_a_trace_of_no_turn_makes_no_case(desk: Console) -> None:
    stuck = History("order-9", "refunds")
    stuck.open()
    desk.world.port = InMemoryRuns([stuck])
    done = desk("trace", "order-9", "--cases")
    assert (done.exit_code, done.stdout) == (exits.NOT_FOUND, "")
    assert "makes no case: its model never answered" in done.stderr


@pytest.mark.parametrize("beside", [["--save", "file.json"], ["-o", "json"]])
def test_a_case_has_two_forms_and_goes_to_stdout(desk: Console, beside: list[str]) -> None:
    assert desk("trace", "order-1", "--cases", *beside).exit_code == exits.USAGE


def test_many_runs_become_a_file_each(desk: Console, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cases"
    done = desk("cases", "--agent", "refunds", "--save", str(folder))
    assert done.exit_code == exits.DONE
    assert sorted(path.name for path in folder.iterdir()) == [f"order-{number}.yaml" for number in (1, 2, 3)]
    assert load_case(folder / "order-2.yaml").task == "Refund order 2."


def test_a_runs_id_names_no_file_elsewhere(console: Console, tmp_path: Path) -> None:
    history = History("../order/1", task="Refund it.")
    history.open()
    history.think(answer="No.")
    console.world.port = InMemoryRuns([history])
    assert console("cases", "../order/1", "--save", str(tmp_path / "cases")).exit_code == exits.DONE
    assert [path.name for path in (tmp_path / "cases").iterdir()] == ["..%2Forder%2F1.yaml"]


def test_runs_become_lines_to_train_on(desk: Console) -> None:
    lines = desk("cases", "--agent", "refunds", "--state", "answered", "-o", "jsonl").stdout.splitlines()
    assert len(lines) == 3
    for line in map(json.loads, lines):
        assert set(line) == {"messages", "tools"}
        assert line["messages"][0] == {"role": "system", "content": "You book."}
        assert line["messages"][-1] == {"role": "assistant", "content": "Done."}


def test_a_run_without_a_turn_is_left_out_and_told_of(desk: Console) -> None:
    stuck = History("order-9", "refunds", at=History("x").now)
    stuck.open()
    desk.world.port = InMemoryRuns([stuck, refund(1)])
    done = desk("cases", "--agent", "refunds", "-o", "jsonl")
    assert len(done.stdout.splitlines()) == 1
    assert "left out 'order-9': its model never answered" in done.stderr


def test_cases_of_no_runs_say_so(desk: Console) -> None:
    done = desk("cases", "--agent", "nobody", "-o", "jsonl")
    assert (done.exit_code, done.stdout, done.stderr) == (exits.DONE, "", "no runs match\n")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("order-1", "--agent", "refunds"),
        ("order-1", "order-2"),
        ("order-1", "-o", "jsonl", "--save", "cases"),
        ("",),
    ],
)
def test_cases_say_what_they_need(desk: Console, words: tuple[str, ...]) -> None:
    done = desk("cases", *words)
    assert done.exit_code == exits.USAGE
    assert done.stdout == ""


def test_a_case_cannot_act_on_a_terminal(console: Console) -> None:
    history = History("order-1", task="Refund." + EVIL)
    history.open()
    history.think("I look." + EVIL, calls=[call("order", {})])
    console.world.port = InMemoryRuns([history])
    told = console("cases", "order-1").stdout
    assert told.replace("\n", "").isprintable()
    assert yaml.safe_load(told)["task"] == "Refund." + EVIL
