"""The retail trial's script and comparison: a difference from the reference can't go unseen."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from perdure.core.contracts import Outcome, RunState
from perdure.core.runs import RunRow
from perdure.testing import Seen, call, say
from perdure.testing.script import Turn
from trials.retail.cases import Case, ReferenceCall
from trials.retail.play import differences, script

CASE = Case(
    task_id="12",
    task="Case 12. Serve this customer.",
    calls=(
        ReferenceCall("find_user", {"email": "ann@example.com"}, writes=False, error="User not found"),
        ReferenceCall("pay_in", {"cents": 5}, writes=True, error=None),
    ),
    expected_hash="hash of 5",
)
HEARD = [("find_user", "User not found"), ("pay_in", None)]


def seen(task: str, turn: int) -> Seen:
    return Seen(model="m", task=task, turn=turn, observations=(), latest=(), tools=(), body={}, asked=lambda: 0)


def ended(state: RunState) -> RunRow:
    began = datetime(2026, 11, 30, tzinfo=UTC)
    return RunRow("retail-12", "retail", state, began, began, (), Outcome(state=state, reason="spent"), "segment")


def test_the_model_plays_the_reference_calls_of_the_task_it_was_given_one_a_turn_then_answers() -> None:
    other = replace(CASE, task_id="1", task="Case 1. Serve this customer.", calls=())
    _, play = script([other, CASE]).at(0, 0)
    assert not isinstance(play, Turn)
    assert [play(seen(CASE.task, turn)) for turn in range(2)] == [
        call("find_user", email="ann@example.com"),
        call("pay_in", cents=5),
    ]
    assert play(seen(CASE.task, 2)) == play(seen(other.task, 0)) == say("Done, as far as the shop allowed.")


def test_a_run_that_did_what_the_reference_does_shows_no_difference() -> None:
    assert differences(CASE, ended(RunState.ANSWERED), HEARD, "hash of 5") == []


@pytest.mark.parametrize(
    ("state", "heard", "shop_hash", "told"),
    [
        (RunState.LIMITED, HEARD, "hash of 5", "ended limited: spent"),
        (RunState.ANSWERED, HEARD, "hash of 10", "the shop's database differs"),
        (RunState.ANSWERED, HEARD[:1], "hash of 5", "1 calls instead of 2"),
        (RunState.ANSWERED, [*HEARD, HEARD[1]], "hash of 5", "3 calls instead of 2"),
        (RunState.ANSWERED, [("find_user", None), HEARD[1]], "hash of 5", "told None instead of 'User not found'"),
        (RunState.ANSWERED, [HEARD[0], ("pay_in", "lost")], "hash of 5", "told 'lost' instead of None"),
    ],
)
def test_every_difference_from_the_reference_is_told(
    state: RunState, heard: Sequence[tuple[str, str | None]], shop_hash: str, told: str
) -> None:
    [difference] = differences(CASE, ended(state), heard, shop_hash)
    assert told in difference
