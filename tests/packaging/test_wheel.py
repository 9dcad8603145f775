"""The wheel in an empty environment, beside a package that claims one of our names, used from an author's folder."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
TAKEN = "llama-index-workflows"  # ships a top-level `workflows`

AGENT = '''
from perdure import Agent, tool
from activities import DAYS  # the author's own module of that name


@tool(effect="read")
async def holidays(name: str) -> int:
    """How many holiday days an employee has.

    Args:
        name: The employee's first name.
    """
    return DAYS


desk = Agent("own-desk", model="anthropic:claude-opus-5-5", instructions="Answer.", tools=[holidays])
'''

# Building a worker brings every workflow into the sandbox, under its name in the wheel.
WORKER = """
import asyncio, sys
from pathlib import Path
from perdure import _home
from perdure.temporal.connect import connect
from perdure.temporal.embedded import DevServer
async def main():
    worker = _home.load("worker")
    async with DevServer(Path(sys.argv[1]), fast=True, ui=False):
        async with worker.build(await connect(), {}, key=b"0" * 32):
            print(worker.__name__)
asyncio.run(main())
"""

# As an author's test does, without a test runner; the exit code is ours, see perdure/testing/fixtures.py.
PLAY = """
import asyncio, atexit, os
from agent import desk
from perdure.testing import call, play, say
played = asyncio.run(play(desk, [call("holidays", name="ann"), say("28 days.")], "How many?"))
print(played.observations, played.outcome.answer, flush=True)
atexit._run_exitfuncs()
os._exit(0)
"""

EVERY_MODULE = """
import importlib, pkgutil
import perdure._app as app
for module in pkgutil.walk_packages(app.__path__, "perdure._app."):
    importlib.import_module(module.name)
    print(module.name)
"""


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, so that the sdist is known to hold all that is needed."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", out, cwd=ROOT)
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(out, filter="data")
    source = out / sdist.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", out, cwd=source)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that holds the wheel, its dependencies as locked, and the other package."""
    home = tmp_path_factory.mktemp("empty")
    locked = re.findall(r"^[a-z][^\\\n]*==[^\\\n]*", (ROOT / "requirements.lock").read_text(), flags=re.M)
    (home / "constraints.txt").write_text("\n".join(line.strip() for line in locked))  # pip: no hashes beside a wheel
    python = home / "venv/bin/python"
    wanted = ["--constraint", home / "constraints.txt", wheel, TAKEN]
    if uv := shutil.which("uv"):
        run(uv, "venv", "--quiet", "--python", sys.executable, home / "venv", cwd=home)
        run(uv, "pip", "install", "--quiet", "--python", python, *wanted, cwd=home)
    else:
        run(sys.executable, "-m", "venv", home / "venv", cwd=home)
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted, cwd=home)
    return python.parent


@pytest.fixture
def author(tmp_path: Path) -> Path:
    (tmp_path / "activities.py").write_text("DAYS = 28\n")
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


def environment(installed: Path, state: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TEMPORAL", "VIRTUAL"))}
    return {**kept, "PATH": f"{installed}:{os.environ['PATH']}", "PERDURE_STATE": str(state)}


def test_of_ours_only_perdure_is_at_the_top_of_site_packages(installed: Path) -> None:
    folder = Path(sysconfig.get_path("purelib", vars={"base": str(installed.parent)}))
    (record,) = folder.glob("perdure-*.dist-info/RECORD")
    tops = {line.split("/")[0] for line in record.read_text().splitlines()} - {".."}  # ..: the script in bin
    assert tops == {"perdure", record.parent.name}


def test_the_other_package_is_whole(installed: Path, tmp_path: Path) -> None:
    run(installed / "python", "-c", "from workflows import Workflow", cwd=tmp_path)


def test_every_module_of_the_app_imports(installed: Path, tmp_path: Path) -> None:
    look = "import pkgutil, importlib, perdure._app as app\n"
    look += (
        "for m in pkgutil.walk_packages(app.__path__, 'perdure._app.'): importlib.import_module(m.name); print(m.name)"
    )
    names = run(installed / "python", "-c", look, cwd=tmp_path).split()
    assert {"perdure._app.worker", "perdure._app.client", "perdure._app.workflows.run"} <= set(names)


def test_the_worker_takes_the_moved_workflows_into_its_sandbox(installed: Path, author: Path) -> None:
    told = environment(installed, author / "state")
    assert run(installed / "python", "-c", WORKER, author / "state", cwd=author, env=told).split() == [
        "perdure._app.worker"
    ]


def test_the_command_says_what_it_can(installed: Path, tmp_path: Path) -> None:
    assert "perdure" in run(installed / "perdure", "--help", cwd=tmp_path, env=environment(installed, tmp_path))


def test_an_author_may_have_an_activities_module(installed: Path, author: Path) -> None:
    listed = run(installed / "perdure", "agents", "agent.py", cwd=author, env=environment(installed, author / "state"))
    assert "own-desk" in listed


def test_an_author_can_play_an_agent(installed: Path, author: Path) -> None:
    (author / "check.py").write_text(PLAY)
    told = environment(installed, author / "state")
    assert run(installed / "python", "check.py", cwd=author, env=told).endswith("['28'] 28 days.\n")


def test_the_leave_desk_runs_with_its_worker_killed_on_the_way(installed: Path, author: Path) -> None:
    told = environment(installed, author / "state")
    keyless = {name: value for name, value in told.items() if name not in {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}}
    command = [installed / "python", "-P", "-m", "perdure._app.examples.demo", "--yes"]
    shown = run(*command, cwd=author, env=keyless)
    assert "You have 7 days of holiday left" in shown
    assert "Bookings in the HR database: 1" in shown
