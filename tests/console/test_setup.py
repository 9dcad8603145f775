"""What is wrong with a set-up is told with the next command; the process ends with the code it means."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.console import exits
from perdure.console.desk import Finding
from perdure.console.entry import program
from perdure.providers.rates import VARIABLE, rates_from_env
from perdure.store import Store
from tests.console.conftest import Console

ROOT = Path(__file__).parent.parent.parent
AGENT = '''
from perdure import Agent, tool

@tool(effect="read")
def order(order_id: str) -> str:
    """Look up an order in the shop, by its number.

    Args:
        order_id: the number printed on the parcel.
    """
    return order_id

@tool(effect="once", ask="amount > 100")
def refund(amount: int) -> str:
    """Refund."""
    return "done"

desk = Agent("refunds", model="anthropic:claude-opus-5-5", instructions="You refund.", tools=[order, refund])
'''


@pytest.fixture
def agent(tmp_path: Path) -> str:
    path = tmp_path / "refunds.py"
    path.write_text(AGENT)
    return str(path)


def test_agents_are_listed_with_which_calls_ask(console: Console, agent: str) -> None:
    done = console("agents", agent)
    assert done.exit_code == exits.DONE
    assert "refunds  anthropic:claude-opus-5-5, at most 12 turns" in done.stdout
    assert "read, never asks" in done.stdout
    assert "once, asks if amount > 100" in done.stdout
    assert "warning" in done.stderr


def test_an_agent_is_shown_with_all_that_a_run_is_opened_with(console: Console, agent: str) -> None:
    told = console("agents", "show", "refunds", agent).stdout
    for needed in ("You refund.", "Look up an order in the shop", '"order_id"', "the number printed on the parcel"):
        assert needed in told


def test_an_agent_is_shown_with_its_critic_whose_key_is_missed_too(
    console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "reviewed.py"
    options = "answer=int, critic=Critic(model='openai:gpt-6-luna', instructions='Look twice.')"
    path.write_text(
        f"from perdure import Agent, Critic\nsum = Agent('sum', model='anthropic:x', instructions='Add.', {options})\n"
    )
    told = console("agents", "show", "sum", str(path)).stdout
    assert "critic   gpt-6-luna (openai-responses)" in told
    assert "Look twice." in told
    assert '{"type": "integer"}' in told
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "OPENAI_API_KEY is not set: runs of sum will be stuck" in console("agents", "--keys", str(path)).stderr


def test_agents_as_json(console: Console, agent: str) -> None:
    [told] = json.loads(console("agents", agent, "-o", "json").stdout)
    assert told["policy"]["refund"] == {"effect": "once", "asks": "asks if amount > 100"}
    assert told["opening"]["model"] == "claude-opus-5-5"


def test_an_agent_nobody_knows_names_those_there_are(console: Console, agent: str) -> None:
    done = console("agents", "show", "nope", agent)
    assert done.exit_code == exits.SETUP
    assert "'refunds'" in done.stderr


def test_a_file_that_does_not_load_is_a_set_up_error(console: Console, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    done = console("agents", str(broken))
    assert done.exit_code == exits.SETUP
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_finds_what_is_wrong_and_says_the_next_command(
    console: Console, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    console.world.findings = [Finding("server", False, "nothing answers", "perdure dev FILE")]
    done = console("doctor", agent)
    assert done.exit_code == exits.SETUP
    assert "wrong  server: nothing answers" in done.stdout
    assert "perdure dev FILE" in done.stdout
    assert "export ANTHROPIC_API_KEY=..." in done.stdout


def test_doctor_is_content_with_what_works(console: Console, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sentinel-key")
    console.world.findings = [Finding("server", True, "localhost:7233")]
    done = console("doctor", agent, "-o", "json")
    assert done.exit_code == exits.DONE
    assert all(finding["ok"] for finding in json.loads(done.stdout))
    assert "sentinel-key" not in done.output


def stores(console: Console, agent: str) -> dict[str, object]:
    [finding] = [each for each in json.loads(console("doctor", agent, "-o", "json").stdout) if each["check"] == "store"]
    assert isinstance(finding, dict)
    return finding


def test_doctor_tries_to_write_to_the_store_and_leaves_nothing(
    console: Console, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STORE", str(tmp_path / "kept"))
    assert stores(console, agent)["ok"]
    assert [path for path in (tmp_path / "kept").rglob("*") if path.is_file()] == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("PERDURE_STORE", str(tmp_path / "file"))
    found = stores(console, agent)
    assert found["ok"] is False
    assert "PERDURE_STORE" in str(found["next"])
    monkeypatch.setenv("PERDURE_STORE", "nowhere://x")
    assert stores(console, agent)["ok"] is False
    monkeypatch.delenv("PERDURE_STORE")
    assert "not set in this terminal" in str(stores(console, agent)["found"])


def test_an_agent_is_shown_as_a_worker_with_this_store_serves_it(
    console: Console, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    assert "read_more" not in console("agents", "show", "refunds", agent).stdout
    monkeypatch.setenv("PERDURE_STORE", str(tmp_path))
    assert "read_more" in console("agents", "show", "refunds", agent).stdout
    monkeypatch.setenv("PERDURE_STORE", "nowhere://x")
    assert console("agents", "show", "refunds", agent).exit_code == exits.SETUP


def test_help_teaches_with_examples_and_exit_codes(console: Console) -> None:
    assert "Exit codes" in console("--help").stdout
    assert "perdure approve a1b2c3d4" in console("approve", "--help").stdout


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("answer", "--help")])
def test_a_flag_is_shown_without_a_value(console: Console, words: tuple[str, ...]) -> None:
    told = console(*words).stdout
    assert "--help" in told
    assert "<bool>" not in told


def test_the_help_of_the_model_names_the_verb(console: Console) -> None:
    assert console("model", "--help").stdout.startswith("usage: perdure model ")


def test_a_wrong_option_is_a_usage_error(console: Console) -> None:
    assert console("list", "--nope").exit_code == exits.USAGE


def test_a_missing_key_is_told_where_a_worker_would_lack_it(
    console: Console, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    told = console("agents", "--keys", agent).stderr
    assert "ANTHROPIC_API_KEY is not set: runs of refunds will be stuck" in told
    assert "perdure model --help" in told
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sentinel-key")
    assert "ANTHROPIC_API_KEY" not in console("agents", "--keys", agent).stderr


def test_doctor_claims_of_a_key_no_more_than_it_knows(
    console: Console, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sentinel-key")
    assert "only the vendor knows if it is right" in console("doctor", agent).stdout


@pytest.mark.parametrize(
    ("reachable", "file", "code"),
    [(False, True, exits.UNREACHABLE), (True, True, exits.SETUP), (False, False, exits.SETUP)],
)
def test_a_worker_that_does_not_start_says_by_its_code_why(
    console: Console, agent: str, tmp_path: Path, reachable: bool, file: bool, code: int
) -> None:
    console.world.reachable, console.world.worked = reachable, 1
    assert console("worker", agent if file else str(tmp_path / "none.py")).exit_code == code


@pytest.mark.parametrize(
    ("started", "named"),
    [
        ("bin/perdure", "bin/perdure"),
        ("{here}/bin/perdure", "bin/perdure"),
        ("{here}/my bin/perdure", "'my bin/perdure'"),
        ("/opt/x/bin/perdure", "/opt/x/bin/perdure"),
        ("client.py", "python client.py"),
        ("/somewhere/client.py", "perdure"),
        ("", "perdure"),
    ],
)
def test_commands_are_suggested_as_perdure_was_started(
    started: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(sys, "argv", [started.format(here=tmp_path)])
    assert program() == named


def test_perdure_on_the_path_is_just_perdure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tmp_path / "perdure"
    found.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(found)])
    assert program() == "perdure"


def perdure(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **env}
    command = [sys.executable, str(ROOT / "client.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


def test_without_a_server_the_process_ends_with_the_code_that_says_so(tmp_path: Path) -> None:
    done = perdure("list", TEMPORAL_ADDRESS="127.0.0.1:1", PERDURE_STATE=str(tmp_path))
    assert done.returncode == exits.UNREACHABLE
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_encoding_that_lacks_a_character_shows_it_escaped(tmp_path: Path, agent: str) -> None:
    Path(agent).write_text(AGENT.replace("in the shop", "im Geschäft"))
    done = perdure("agents", agent, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == exits.DONE
    assert "Gesch\\xe4ft" in done.stdout


def test_a_worker_with_a_store_that_cannot_be_used_does_not_start(tmp_path: Path, agent: str) -> None:
    done = perdure(
        "worker", agent, PERDURE_STORE="nowhere://x", PERDURE_STATE=str(tmp_path), TEMPORAL_ADDRESS="127.0.0.1:1"
    )
    assert done.returncode != exits.DONE
    assert "PERDURE_STORE='nowhere://x' cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_budget_of_money_for_a_model_that_nobody_can_price_is_warned_of(console: Console, tmp_path: Path) -> None:
    def told(more: str) -> str:
        path = tmp_path / "home.py"
        path.write_text(
            "from perdure import Agent, Budget, Prices\n"
            "home = Agent('home', model='openai-chat:llama3:8b', instructions='You add up.',"
            f" budget=Budget(turns=3, money='0.50', ask=True){more})\n"
        )
        return console("agents", str(path)).output

    assert "at most 3 turns, $0.50; then an operator is asked for more" in told("")
    assert "nobody knows what 'llama3:8b' costs" in told("")
    assert "nobody knows" not in told(", prices=Prices(input=1, output=2)")


def test_a_worker_with_a_rate_that_cannot_be_read_does_not_start(tmp_path: Path, agent: str, console: Console) -> None:
    done = perdure(
        "worker", agent, PERDURE_RATES="anthropic=fast", PERDURE_STATE=str(tmp_path), TEMPORAL_ADDRESS="127.0.0.1:1"
    )
    assert done.returncode == exits.SETUP
    assert "'anthropic=fast' is no rate" in done.stderr
    refused = console("worker", agent, "--rate", "google=5")
    assert refused.exit_code == exits.USAGE
    assert "is no rate" in refused.output


def test_a_rate_of_the_command_line_goes_before_that_of_the_environment(
    console: Console, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "anthropic=5,openai=1")
    console("worker", agent, "--rate", "anthropic=300/min", "--rate", "openai=2")
    assert rates_from_env() == {"anthropic": 5.0, "openai": 2.0}


def test_a_tool_that_asks_a_person_is_said_to_ask(console: Console, tmp_path: Path) -> None:
    path = tmp_path / "asking.py"
    path.write_text(
        "from perdure import Agent\nfrom perdure.tools.builtin import ask_operator\n"
        "desk = Agent('desk', model='anthropic:x', instructions='Ask.', tools=[ask_operator])\n"
    )
    assert "read, always asks" in console("agents", str(path)).stdout


def test_doctor_looks_at_the_store_of_a_dev_server_where_none_is_named(
    console: Console, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    console.world.kept = Store(str(tmp_path))
    found = stores(console, agent)
    assert (found["ok"], str(tmp_path) in str(found["found"])) == (True, True)
    assert "perdure dev" in str(found["found"])


def test_a_paragraph_of_help_is_wrapped_by_the_terminal_and_an_example_is_not(console: Console) -> None:
    lines = [line.strip() for line in console("retry", "--help").stdout.splitlines()]
    assert "perdure retry order-17 --reason 'the key is renewed'" in lines
    assert "again, idempotent calls with the same" not in lines  # as the docstring is wrapped


def test_a_tool_that_is_another_agent_is_listed_as_one(console: Console, tmp_path: Path) -> None:
    more = 'lead = Agent("lead", model=desk.model, instructions="You lead.", tools=[desk.as_tool("Refunds orders.")])'
    (tmp_path / "lead.py").write_text(f"{AGENT}\n{more}\n")
    done = console("agents", f"{tmp_path / 'lead.py'}:lead")
    assert "  refunds             agent refunds, never asks  Refunds orders." in done.stdout
    assert "refunds  anthropic:claude-opus-5-5" in done.stdout
    [lead, _] = [
        json.loads(each)
        for each in console("agents", str(tmp_path / "lead.py") + ":lead", "-o", "jsonl").stdout.splitlines()
    ]
    assert lead["policy"] == {"refunds": {"effect": "read", "asks": "never asks", "agent": "refunds"}}
