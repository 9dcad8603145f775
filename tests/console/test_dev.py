"""dev serves what was saved last, as long as it loads."""

import asyncio
import io
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from perdure.console.desk import Desk
from perdure.console.screen import Screen
from perdure.console.serving import Bench, watched
from perdure.testing.runs import InMemoryRuns
from tests.console.conftest import InMemoryWorld

# Stands for both verbs: `agents` fails for a broken file; `worker` says what it serves, until it is told to go.
VERB = """
import pathlib, signal, sys
verb, log, *_, file = sys.argv[1:]
text = pathlib.Path(file).read_text()
if verb == "agents":
    print("a warning of", text.partition(" ")[0], file=sys.stderr)
    sys.exit(11 if "broken" in text else 0)
with open(log, "a") as out:
    out.write(f"serves {text}\\n")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.pause()
"""


@dataclass
class DevWorld(InMemoryWorld):
    log: Path = Path()

    def command(self, *words: str) -> Sequence[str]:
        verb, *files = words
        return [sys.executable, "-c", VERB, verb, str(self.log), *files]


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.02)


async def settled(bench: Bench, work: Callable[[], Awaitable[None]]) -> None:
    tasks = [asyncio.create_task(bench.serve()), asyncio.ensure_future(work())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await bench.close()


async def test_a_change_is_served_and_a_broken_one_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    file, log = folder / "agent.py", tmp_path / "log"
    file.write_text("one")
    log.touch()
    told = io.StringIO()
    bench = Bench(Desk(DevWorld(InMemoryRuns(), log=log), Screen(err=Console(file=told))), [str(file)])

    async def work() -> None:
        await until(lambda: "serves one" in log.read_text())
        first = bench.worker
        file.write_text("broken")
        await until(lambda: "goes on with what it has" in told.getvalue())
        assert bench.worker is first
        file.write_text("three")
        await until(lambda: "serves three" in log.read_text())
        await until(lambda: bench.worker is not first)

    await settled(bench, work)


async def test_a_warning_is_told_anew_only_when_it_changed(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    file, log = folder / "agent.py", tmp_path / "log"
    file.write_text("one a")
    log.touch()
    told = io.StringIO()
    bench = Bench(Desk(DevWorld(InMemoryRuns(), log=log), Screen(err=Console(file=told))), [str(file)])

    async def work() -> None:
        for text in ("one a", "one b", "two c"):
            file.write_text(text)
            await until(lambda text=text: f"serves {text}" in log.read_text())  # type: ignore[misc]

    await settled(bench, work)
    assert told.getvalue().count("a warning of one") == 1
    assert told.getvalue().count("a warning of two") == 1


async def test_a_worker_that_dies_is_followed_by_another(tmp_path: Path) -> None:
    file, log = tmp_path / "agent.py", tmp_path / "log"
    file.write_text("one")
    log.touch()
    told = io.StringIO()
    bench = Bench(Desk(DevWorld(InMemoryRuns(), log=log), Screen(err=Console(file=told))), [str(file)])

    async def work() -> None:
        await until(lambda: "serves one" in log.read_text())
        assert bench.worker is not None
        bench.worker.kill()
        await until(lambda: log.read_text().count("serves one") == 2)
        assert "ended by itself (code -9)" in told.getvalue()

    await settled(bench, work)


async def test_no_worker_is_left_behind(tmp_path: Path) -> None:
    file, log = tmp_path / "agent.py", tmp_path / "log"
    file.write_text("one")
    log.touch()
    bench = Bench(Desk(DevWorld(InMemoryRuns(), log=log)), [str(file)])
    left: list[int] = []

    async def work() -> None:
        await until(lambda: "serves one" in log.read_text())
        assert bench.worker is not None
        left.append(bench.worker.pid)

    await settled(bench, work)
    with pytest.raises(ProcessLookupError):
        os.kill(left[0], 0)


def test_the_folders_of_files_are_watched_and_for_modules_where_one_works(tmp_path: Path) -> None:
    file = tmp_path / "agent.py"
    file.touch()
    assert watched([f"{file}:desk"]) == [tmp_path]
    assert watched(["some.module"]) == [Path.cwd()]
