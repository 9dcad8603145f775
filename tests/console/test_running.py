"""Starting and following runs: what goes to stdout, and what the exit code tells."""

import json
from pathlib import Path

import pytest

from perdure.console import exits
from perdure.core.contracts import FINAL_STATES, RunState
from perdure.testing.runs import InMemoryRuns
from tests.console.conftest import PLAYS, Console
from tests.samples import pdf, png


@pytest.mark.parametrize("state", sorted(FINAL_STATES))
def test_the_exit_code_tells_how_a_run_ended(console: Console, state: RunState) -> None:
    assert console("run", state.value, "task").exit_code == exits.OF_STATE[state]


def test_the_codes_of_all_ends_differ() -> None:
    codes = [value for name, value in vars(exits).items() if isinstance(value, int) and name.isupper()]
    assert len(codes) == len(set(codes))


def test_the_answer_goes_to_stdout_and_progress_does_not(console: Console) -> None:
    done = console("run", "leave_desk", "Book 3 days.", "--yes")
    assert done.exit_code == exits.DONE
    assert "Booked as LV-1042." in done.stdout
    assert "thinking" not in done.stdout
    assert "I need the entitlement." in done.stderr
    assert "decided   approve of a1b2c3d4 by ann (unverified): approved by --yes" in done.stderr


def test_a_run_that_waits_when_time_is_over_says_so(console: Console) -> None:
    done = console("run", "leave_desk", "Book.", "--timeout", "0.05")
    assert done.exit_code == exits.WAITING
    assert "perdure approve a1b2c3d4" in done.stderr
    assert "it goes on:\n  perdure watch leave_desk-" in done.stderr


def test_yes_answers_approvals_alone(console: Console) -> None:
    assert console("run", "lost", "Pay.", "--yes", "--timeout", "0.8").exit_code == exits.WAITING


def test_a_run_as_json_is_its_trace(console: Console) -> None:
    done = console("run", "leave_desk", "Book.", "--yes", "-o", "json")
    told = json.loads(done.stdout)
    assert (told["format"], told["state"], len(told["turns"])) == ("perdure.trace", "answered", 3)


def test_a_second_start_with_the_same_id_returns_the_first_run(console: Console) -> None:
    first = console("start", "leave_desk", "Book.", "--id", "leave-17")
    second = console("start", "leave_desk", "Book.", "--id", "leave-17", "-o", "json")
    assert first.stdout == "leave-17\n"
    assert json.loads(second.stdout) == {"run_id": "leave-17", "new": False}
    assert "nothing was started" in second.stderr


def test_a_run_that_is_not_waited_for_gives_its_id(console: Console) -> None:
    done = console("run", "leave_desk", "Book.", "--id", "leave-17", "--no-wait")
    assert (done.exit_code, done.stdout) == (exits.WAITING, "leave-17\n")


def test_a_run_that_is_not_waited_for_gives_its_id_as_json_where_that_is_asked(console: Console) -> None:
    done = console("run", "leave_desk", "Book.", "--id", "leave-17", "--no-wait", "-o", "json")
    assert json.loads(done.stdout) == {"run_id": "leave-17", "new": True}


def test_a_task_can_come_from_stdin(console: Console) -> None:
    console("start", "leave_desk", "-", "--id", "leave-17", input="Book 3 days.")
    assert "Book 3 days." in console("show", "leave-17").stdout


def test_an_empty_task_is_refused(console: Console) -> None:
    assert console("run", "leave_desk", " ").exit_code == exits.USAGE


def test_watching_an_ended_run_tells_it_again_on_stdout(console: Console) -> None:
    console("run", "leave_desk", "Book.", "--id", "leave-17", "--yes")
    done = console("watch", "leave-1")
    assert done.exit_code == exits.DONE
    assert "turn 1    thinking" in done.stdout
    assert "Booked as LV-1042." in done.stdout


def test_watching_as_jsonl_gives_every_event_a_line(console: Console) -> None:
    console("run", "leave_desk", "Book.", "--id", "leave-17", "--yes")
    events = [json.loads(line) for line in console("watch", "leave-17", "-o", "jsonl").stdout.splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["RunStarted", "RunEnded"]


def test_without_a_server_run_offers_dev(console: Console) -> None:
    console.world.reachable = False
    done = console("run", "leave_desk", "Book.")
    assert done.exit_code == exits.UNREACHABLE
    assert "perdure dev FILE" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("verb", ["run", "start"])
def test_nothing_is_started_for_an_agent_that_nobody_serves(console: Console, verb: str) -> None:
    done = console(verb, "nosuch", "Book.")
    assert done.exit_code == exits.NOT_FOUND
    assert "no worker serves an agent 'nosuch'" in done.stderr
    assert "'leave_desk'" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("leave_desk", "x" * 1_000_001), "1,000,001 bytes"),
        (("leave_desk", "Book.", "--id", "x" * 300), "300 characters"),
        (("leave_desk", "Book.", "--id", "a\x1b[2K"), "printable characters alone"),
        (("", "Book."), "the agent's name is empty"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "start"])
def test_a_start_that_cannot_be_is_a_matter_of_usage(
    console: Console, verb: str, words: tuple[str, ...], said: str
) -> None:
    done = console(verb, *words)
    assert done.exit_code == exits.USAGE
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert done.stdout == ""


@pytest.mark.parametrize("verb", ["run", "start"])
@pytest.mark.parametrize(
    ("agent", "task", "said"), [("stuck", "Book.", "agent 'leave_desk'"), ("leave_desk", "Other.", "the task 'Book.'")]
)
def test_an_id_that_another_run_has_is_refused(console: Console, verb: str, agent: str, task: str, said: str) -> None:
    console("start", "leave_desk", "Book.", "--id", "leave-17")
    done = console(verb, agent, task, "--id", "leave-17")
    assert done.exit_code == exits.NOT_TAKEN
    assert said in done.stderr
    assert "perdure show leave-17" in done.stderr
    assert done.stdout == ""


def test_an_empty_id_starts_nothing(console: Console) -> None:
    assert console("start", "leave_desk", "Book.", "--id", "").exit_code == exits.USAGE
    assert json.loads(console("list", "-o", "json").stdout) == []


@pytest.mark.parametrize(("workers", "told"), [((), True), (("worker-1",), False), (None, False)])
def test_a_run_without_a_worker_says_that_it_waits_for_one(
    console: Console, workers: tuple[str, ...] | None, told: bool
) -> None:
    console.world.port = InMemoryRuns(plays=PLAYS, workers=workers)
    done = console("start", "leave_desk", "Book.", "--id", "leave-17")
    assert (done.exit_code, done.stdout) == (exits.DONE, "leave-17\n")
    assert ("no worker is up: the run waits for one" in done.stderr) is told
    assert ("perdure worker FILE" in console("show", "leave-17").stderr) is told


@pytest.fixture
def invoice(tmp_path: Path) -> Path:
    path = tmp_path / "invoice.pdf"
    path.write_bytes(pdf())
    return path


@pytest.mark.parametrize("verb", ["run", "start"])
def test_files_go_along_with_the_task(console: Console, invoice: Path, verb: str) -> None:
    (invoice.parent / "scan.png").write_bytes(png())
    words = ["--file", str(invoice), "--file", str(invoice.parent / "scan.png"), "--id", "pay-17"]
    assert console(verb, "answered", "Pay this.", *words).exit_code == exits.DONE
    shown = console("trace", "pay-17")
    assert "invoice.pdf (application/pdf, " in shown.stdout
    assert "scan.png (image/png, " in shown.stdout
    told = json.loads(console("trace", "pay-17", "-o", "json").stdout)
    assert [(file["name"], file["media_type"]) for file in told["files"]] == [
        ("invoice.pdf", "application/pdf"),
        ("scan.png", "image/png"),
    ]


def test_a_file_that_cannot_be_read_starts_nothing(console: Console, invoice: Path) -> None:
    done = console("run", "answered", "Pay this.", "--file", str(invoice.with_name("none.pdf")), "--id", "pay-17")
    assert done.exit_code == exits.NOT_FOUND
    assert "none.pdf" in done.stderr
    assert console("show", "pay-17").exit_code == exits.NOT_FOUND


def test_a_file_that_no_model_takes_starts_nothing(console: Console, invoice: Path) -> None:
    invoice.write_bytes(b"MZ" + b"\0" * 99)
    done = console("run", "answered", "Pay this.", "--file", str(invoice), "--id", "pay-17")
    assert done.exit_code == exits.USAGE
    assert "Models take PDF" in done.stderr.replace("\n", " ")
    assert console("show", "pay-17").exit_code == exits.NOT_FOUND


def test_an_id_in_use_with_other_files_is_refused(console: Console, invoice: Path) -> None:
    words = ["start", "answered", "Pay this.", "--id", "pay-17"]
    console(*words, "--file", str(invoice))
    assert console(*words, "--file", str(invoice)).exit_code == exits.DONE
    other = console(*words)
    assert other.exit_code == exits.NOT_TAKEN
    assert "the files invoice.pdf" in other.stderr.replace("\n", " ")
