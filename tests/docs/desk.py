"""A desk to run documented commands at: what `perdure dev` starts, serving the documents' own agents and scripts."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from perdure import Runs
from perdure.core.contracts import RunState
from perdure.core.runs import RunRow
from perdure.testing import ScriptedModel
from perdure.testing.script_file import load_scripts
from tests.docs.pages import ROOT, of_kind

REQUEST = "a1b2c3d4"  # in documents: the request that waits
_PATIENCE = 60.0  # seconds, on a busy machine


@dataclass
class LiveDesk:
    folder: Path
    env: Mapping[str, str]
    shown: str = ""
    _started: int = 0  # runs

    def run(self, *words: str) -> None:
        """Run a command, and keep what it shows."""
        done = self._done(*words)
        self.shown += done.stdout + done.stderr

    def _done(self, *words: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=_PATIENCE)
        assert done.returncode == 0, f"{shlex.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def type(self, line: str) -> None:
        """Run one documented command."""
        if REQUEST in line:
            line = line.replace(REQUEST, self._waiting())
        self._started += line.startswith("perdure start")
        self.run(*shlex.split(line, comments=True))

    def _waiting(self) -> str:
        """The one request that waits."""
        limit = time.monotonic() + _PATIENCE
        while not (found := [request.id for row in self._rows() for request in row.requests]):
            assert time.monotonic() < limit, f"nothing waits:\n{self.shown}"
        [waiting] = found
        return waiting

    def settle(self) -> None:
        """Wait until lists show every run, as waiting or ended: a reader is slower than this test."""
        limit = time.monotonic() + _PATIENCE
        while len([row for row in self._rows() if row.ended]) + len(self._rows(RunState.WAITING)) < self._started:
            assert time.monotonic() < limit, self.shown

    def _rows(self, state: RunState | None = None) -> Sequence[RunRow]:
        async def rows() -> Sequence[RunRow]:
            server = json.loads((self.folder / "state" / "server.json").read_text())
            client = await Client.connect(server["address"], data_converter=pydantic_data_converter)
            return await Runs(client).list(state=state)

        return asyncio.run(rows())


def write_files(folder: Path) -> None:
    for block in of_kind("python file", "yaml file", "yaml case", "yaml expect"):
        (folder / block.file).write_text(block.text)


def environment(folder: Path) -> dict[str, str]:
    """A reader's: no Temporal elsewhere, no key, `perdure` on the path."""
    theirs = ("TEMPORAL_", "PERDURE_", "ANTHROPIC_", "OPENAI_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    ours = {"PERDURE_STATE": str(folder / "state"), "PERDURE_OPERATOR": "ann", "COLUMNS": "100", "NO_COLOR": "1"}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return {**kept, **ours, "PATH": path, "PYTHONPATH": str(ROOT)}


@contextmanager
def live_desk(folder: Path) -> Iterator[LiveDesk]:
    write_files(folder)
    scripts = [script for block in of_kind("yaml file") for script in load_scripts(folder / block.file)]
    with ExitStack() as stack:
        model = stack.enter_context(ScriptedModel(*scripts))
        env = {**environment(folder), **model.env()}
        log = stack.enter_context((folder / "dev.log").open("w"))
        agents = [block.file for block in of_kind("python file")]
        dev = subprocess.Popen(["perdure", "dev", *agents], cwd=folder, env=env, stdout=log, stderr=log)
        try:
            _until_up(dev, folder / "dev.log")
            yield LiveDesk(folder, env)
        finally:
            dev.terminate()
            dev.wait(_PATIENCE)
    assert [refused.refusal for refused in model.violations] == []


def _until_up(dev: "subprocess.Popen[bytes]", log: Path) -> None:
    limit = time.monotonic() + _PATIENCE
    while "in another terminal" not in log.read_text():
        assert dev.poll() is None, log.read_text()
        assert time.monotonic() < limit, log.read_text()
        time.sleep(0.1)


_DIFFERS = [  # what no two runs share, and what stands for it
    (re.compile(r"\b[0-9a-f]{64}\b"), "SHA256"),
    (re.compile(r"perdure-[0-9a-f]{40}"), "KEY"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+00:00"), "TIME"),
    (re.compile(r"^\d\d:\d\d:\d\dZ", re.MULTILINE), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "REQUEST"),
    (re.compile(r"\bleave-[0-9a-f]{6}\b"), "RUN"),
    (re.compile(r"\((now|[^()\n]* ago)\)"), "(AGO)"),
    (re.compile(r"\b\d+ (s|min|h) ago|\bnow\b"), "AGO"),
    (re.compile(r"\b[\d.]+ (ms|s|min|h)\b( \d+ (s|min)\b)?"), "WHILE"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d+ December \d{4}\b"), "DATE"),
    (re.compile(r"\b\d+@\S+"), "WORKER"),
    (re.compile(r"\b(Worker|process) \d+"), "PROCESS"),
    (re.compile(r"[ \t]+"), " "),
]


def comparable(text: str) -> list[str]:
    """The lines of an output, with what differs from run to run replaced."""
    for pattern, standing in _DIFFERS:
        text = pattern.sub(standing, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def missing(said: str, shown: str) -> list[str]:
    """The lines of `said` that `shown` does not hold, in order. A line of three dots stands for any lines."""
    lines = iter(comparable(shown))
    return [line for line in comparable(said) if line != "..." and not any(line == seen for seen in lines)][:1]
