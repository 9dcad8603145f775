"""Histories of every released shape replay on today's workflow code, in the sandbox.

    python tests/replay/record.py 0.1

records them anew, for a release that has not been made yet. Those of a released version are never changed.
"""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

import worker
from perdure.temporal.saved import saved
from perdure.traces.turns import trace
from workflows import WORKFLOWS

HISTORIES = sorted((Path(__file__).parent / "histories").rglob("*.json"))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_a_recorded_history_replays(path: Path) -> None:
    replayer = Replayer(
        workflows=WORKFLOWS, workflow_runner=worker.sandbox(whole=True), data_converter=pydantic_data_converter
    )
    await replayer.replay_workflow(WorkflowHistory.from_json(path.stem, path.read_text()))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_a_recorded_history_can_be_read(path: Path) -> None:
    told = trace(await saved(path.read_text()))
    assert told.turns
    assert told.state == path.stem.split("-")[0]


def test_there_are_histories_of_every_end() -> None:
    ends = {path.stem.split("-")[0] for path in HISTORIES}
    assert ends >= {"answered", "limited", "refused", "cancelled", "failed", "waiting"}
