"""What a run may be started with, and what is said of the rest."""

import uuid

import pytest

from perdure.core.contracts import RunState
from perdure.core.runs import MOST_ID, MOST_TASK, StartRefusedError
from perdure.testing import say
from tests.conftest import StageOf

WHOLE = {"agent": "desk", "task": "do it", "run_id": "run-1"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"agent": ""}, "the agent's name is empty"),
        ({"agent": "a" * 256}, "256 characters"),
        ({"agent": "de\udc80sk"}, "half a character"),
        ({"task": ""}, "the task is empty"),
        ({"task": " \n\t"}, "say what is to be done"),
        ({"task": "pay \udc80"}, "half a character. Give it in UTF-8"),
        ({"task": "x" * 2_200_000}, "2,200,000 bytes .* at most 1,000,000"),
        ({"task": "\0" * 400_000}, "2,400,000 as recorded"),
        ({"run_id": " "}, "the run's id is empty"),
        ({"run_id": "x" * 2_000}, "2,000 characters .* at most 255"),
        ({"run_id": "\U0001f4b6" * 255}, "255 characters"),
        ({"run_id": "invoice\n7"}, "printable characters alone"),
        ({"run_id": "invoice\x1b[2K"}, "printable characters alone"),
        ({"run_id": "in\ud83dvoice"}, "half a character"),
    ],
)
async def test_a_start_that_the_server_would_not_take_is_refused_in_words(
    stage: StageOf, given: dict[str, str], said: str
) -> None:
    async with stage([]) as desk:
        asked = WHOLE | given
        with pytest.raises(StartRefusedError, match=said) as refused:
            await desk.runs.start(asked["agent"], asked["task"], run_id=asked["run_id"])
        assert len(str(refused.value)) < 400
        str(refused.value).encode()


@pytest.mark.parametrize("unit", ["x", '"', "é"])
async def test_the_longest_task_and_the_longest_id_are_taken(stage: StageOf, unit: str) -> None:
    async with stage([say("read")]) as desk:
        task = unit * (MOST_TASK // len(unit.encode()))
        run_id = uuid.uuid4().hex.ljust(MOST_ID, "é")
        assert await desk.start(task, run_id) == run_id
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
