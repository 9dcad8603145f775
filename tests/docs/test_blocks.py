"""What the documents show is so: every block is run, or checked against the real thing."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from perdure.console.entry import app
from perdure.testing import load_case
from perdure.testing.script_file import load_scripts
from perdure.tools.agents import lint
from perdure.tools.discovery import load
from perdure.traces import expectations
from tests.docs.desk import LiveDesk, environment, live_desk, missing, write_files
from tests.docs.pages import BLOCKS, KINDS, PAGES, ROOT, Block, of_kind

pytestmark = pytest.mark.slow


_CONFTEST = 'pytest_plugins = ["perdure.testing.fixtures"]\n'  # as the documents say
_PLAIN = {"cd", "curl", "docker", "echo", "export", "openssl", "pip", "temporal"}  # told, and not ours to check


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages_with(*kinds: str) -> list[Path]:
    return [page for page in PAGES if of_kind(*kinds, page=page)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_is_of_a_kind_that_is_checked(block: Block) -> None:
    assert block.kind in KINDS, f"{block}: ```{block.info} is checked by nobody; see tests/docs/pages.py"


# --- python -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the documents' files lie, as in a reader's folder."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


@pytest.mark.parametrize("block", of_kind("python file"), ids=str)
def test_an_agents_file_loads_and_describes_its_tools(block: Block, folder: Path) -> None:
    agents = load([block.file])
    assert agents
    assert [warning for agent in agents.values() for warning in lint(agent)] == []


@pytest.mark.parametrize("page", pages_with("python"), ids=name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, folder: Path) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for block in of_kind("python", page=page):
        exec(compile("\n" * block.line + block.text, str(page), "exec", dont_inherit=True), names)


# --- data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", of_kind("yaml file"), ids=str)
def test_a_script_is_taken_by_the_scripted_model(block: Block, folder: Path) -> None:
    assert load_scripts(folder / block.file)


@pytest.mark.parametrize("block", of_kind("yaml case"), ids=str)
def test_a_case_can_be_played(block: Block, folder: Path) -> None:
    assert load_case(folder / block.file)


@pytest.mark.parametrize("block", of_kind("yaml expect"), ids=str)
def test_expectations_can_be_read(block: Block) -> None:
    assert expectations.read(block.text)


@pytest.mark.parametrize("block", of_kind("json", "toml"), ids=str)
def test_data_parses(block: Block) -> None:
    assert json.loads(block.text) if block.kind == "json" else tomllib.loads(block.text)


# --- commands ---------------------------------------------------------------------------------------------------------


def commands(block: Block) -> list[list[str]]:
    joined = block.text.replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("block", of_kind("bash", "bash live"), ids=str)
def test_a_command_is_one_that_the_command_line_takes(block: Block, folder: Path) -> None:
    for words in commands(block):
        check(words)


def check(words: list[str]) -> None:
    match words:
        case ["perdure", "model", script, *_]:
            assert script == "--help" or Path(script).is_file(), words
        case ["perdure", *rest]:
            parse(rest)
        case ["make", target, *_]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), words
        case ["python", script, *options] if script.startswith("bench/"):
            told = subprocess.run(
                [sys.executable, script, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
            )
            assert all(f"[{option} " in told.stdout for option in options if option.startswith("--")), words
        case ["python" | "sh" | "pytest", script, *options]:
            source = (ROOT / script if (ROOT / script).is_file() else Path(script)).read_text()
            assert all(f'"{option}"' in source for option in options if option.startswith("--")), words
        case [setting] if re.fullmatch(r"[A-Z_]+=\S*", setting):
            assert setting.partition("=")[0] in (ROOT / "docker-compose.yml").read_text(), words
        case [program, *_]:
            assert program in _PLAIN, f"{words}: nobody checks {program!r}"


def parse(words: list[str]) -> None:
    """As the command line would, up to the point where the verb would begin. Raises its own usage error."""
    group = typer.main.get_command(app(lambda: None))  # type: ignore[arg-type, return-value]
    context = group.make_context("perdure", list(words))
    left = [*context._protected_args, *context.args]
    verb, command, rest = group.resolve_command(context, left)  # type: ignore[attr-defined]
    assert command is not None
    command.make_context(verb, rest, parent=context)


def test_a_command_that_does_not_exist_is_noticed(folder: Path) -> None:
    with pytest.raises(Exception, match="No such"):
        parse(["aprove", "a1b2c3d4"])
    with pytest.raises(Exception, match="No such option"):
        parse(["approve", "a1b2c3d4", "--reasons", "x"])


# --- what really runs -------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", pages_with("bash live", "python live"), ids=name)
def test_the_commands_of_a_page_do_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    with live_desk(tmp_path) as desk:
        for block in of_kind("bash live", "python live", "text live", page=page):
            play(desk, block)


def play(desk: LiveDesk, block: Block) -> None:
    match block.kind:
        case "text live":
            assert missing(block.text, desk.shown) == [], f"{block}\n{desk.shown}"
        case "python live":
            script = desk.folder / f"line_{block.line}.py"
            script.write_text(block.text)
            desk.shown = ""
            desk.run(sys.executable, script.name)
        case _:
            desk.shown = ""
            for words in commands(block):
                desk.type(shlex.join(words))
                desk.settle()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("block", of_kind("python test"), ids=str)
def test_a_documented_test_passes(block: Block, tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "test_documented.py").write_text(block.text)
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    words = (sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "test_documented.py")
    LiveDesk(tmp_path, environment(tmp_path)).run(*words)
