"""Everything at once: what must hold of every run, whatever features meet in it, held against runs drawn by lot.

A failure names its plan, and `make fuzz-together SEED=17` plays that of seed 17 and those after it. A plan fixes what
the model says and what operators want; when their words arrive is up to the machine, so a fault may need several goes.
"""

import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from perdure.core.contracts import ASK_CRITIC, CALL_MODEL, COMPACT_TRANSCRIPT, FINAL_STATES, CallModel, RunState, Usage
from perdure.store import Store
from perdure.traces import cases
from perdure.traces.events import ActivityCompleted, ActivityScheduled
from perdure.traces.stats import stats
from perdure.traces.turns import trace
from tests.conftest import StageOf
from tests.servers import Place, shared, suggesting
from tests.workflow.drawn import Played, drawn, played

pytestmark = pytest.mark.slow


_SEEDS = (0, 3, 4, 6, 10, 11)  # between them: each protocol, and most of what may meet
_MOST_ASKED = 40_000  # bytes of an activity's input


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shortest(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with shared(tmp_path_factory, "shortest", **suggesting(40)) as found:  # so that a segment ends anywhere
        yield found


@pytest.fixture
def briefest(stage: StageOf, shortest: Place, monkeypatch: pytest.MonkeyPatch) -> StageOf:
    shortest.enter(monkeypatch)
    return stage


@pytest.mark.parametrize("seed", _SEEDS)
async def test_whatever_meets_in_a_run_it_ends_and_its_record_is_whole(briefest, tmp_path, seed):
    await _played_and_checked(briefest, tmp_path, seed)


@pytest.mark.timeout(0)
async def test_whatever_meets_in_many_runs(briefest: StageOf, tmp_path: Path) -> None:
    """For FUZZ_SECONDS, from SEED on; it tells of all faults at the end."""
    until, seed = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "60")), int(os.environ.get("SEED", "1000"))
    faults = []
    while time.monotonic() < until:
        try:
            await _played_and_checked(briefest, tmp_path / str(seed), seed)
        except Exception as fault:
            faults.append(fault)
        seed += 1
    if faults:
        raise ExceptionGroup(f"up to SEED={seed}", faults)


async def _played_and_checked(stage: StageOf, folder: Path, seed: int) -> None:
    plan = drawn(seed)
    try:
        async with played(plan, stage, Store(str(folder))) as ended:
            for check in CHECKS:
                check(ended)
            row = await ended.desk.runs.find(ended.run_id)
            assert (row.state, row.requests) == (ended.outcome.state, ())
    except BaseException as error:
        error.add_note(repr(plan))
        raise


def _it_ended(ended: Played) -> None:
    outcome = ended.outcome
    assert outcome.state in FINAL_STATES
    assert outcome.turns <= 8 * ended.plan.settings["budget"].turns + 10
    if outcome.state is RunState.FAILED:
        assert "stopped by" in outcome.reason


def _each_call_has_one_observation(ended: Played) -> None:
    turns = trace(ended.events).turns
    made = {turn.number: [call.index for call in turn.calls] for turn in turns}
    for asked in _asked(ended):
        number = asked.turn - 1
        told = [ref.call for ref in asked.since if ref.kind in ("observation", "advice", "said")]
        assert told == made.get(number, []), f"turn {asked.turn}"
    for turn in turns[:-1]:
        assert all(call.observation for call in turn.calls)


def _effects_happen_once_and_if_gated_once_approved(ended: Played) -> None:
    assert [done for done, times in Counter(ended.effects.done).items() if times > 1] == []
    calls = {call.key: call for turn in trace(ended.events).turns for call in turn.calls if call.key}
    for name, key in ended.effects.done:
        assert calls[key].tool == name
        if name in ("pay", "send"):
            assert "approve" in [asked.settled.choice for asked in calls[key].asked if asked.settled]


def _totals_are_the_sum_of_what_is_recorded(ended: Played) -> None:
    spent = [result for result in _results(ended, CALL_MODEL, ASK_CRITIC, COMPACT_TRANSCRIPT)]
    usage = sum((Usage.model_validate(each["usage"]) for each in spent), Usage())
    costs = [each["cost"] for each in spent]
    cost = None if None in costs else sum(map(Decimal, costs), Decimal(0))
    if ended.outcome.state is not RunState.CANCELLED:  # or the model's last word may have come too late
        assert (ended.outcome.usage, ended.outcome.cost) == (usage, cost)
    seen = trace(ended.events)
    assert seen.usage == usage
    assert seen.cost == (ended.outcome.cost if seen.limits else None)


def _the_trace_shows_each_turn_once(ended: Played) -> None:
    numbers = [turn.number for turn in trace(ended.events).turns]
    assert numbers == list(range(1, len(numbers) + 1))
    answered = [turn.number for turn in trace(ended.events).turns if turn.stop]
    assert len(answered) == ended.outcome.turns or ended.outcome.state is RunState.CANCELLED


def _no_event_grows_with_the_run(ended: Played) -> None:
    for event in ended.events:
        if isinstance(event, ActivityScheduled):
            assert len(str(event.input)) < _MOST_ASKED, event.activity_id


def _others_can_read_it(ended: Played) -> None:
    [_] = stats([trace(ended.events)])
    try:
        cases.case_text(ended.events)
        cases.conversation(ended.events)
    except cases.NothingToLearnError:
        assert not [turn for turn in trace(ended.events).turns if turn.answer or turn.calls]


CHECKS = (
    _it_ended,
    _each_call_has_one_observation,
    _effects_happen_once_and_if_gated_once_approved,
    _totals_are_the_sum_of_what_is_recorded,
    _the_trace_shows_each_turn_once,
    _no_event_grows_with_the_run,
    _others_can_read_it,
)


def _asked(ended: Played) -> Sequence[CallModel]:
    """Each question to the model, as it was asked first."""
    found = (each for each in ended.events if isinstance(each, ActivityScheduled) and each.activity == CALL_MODEL)
    return [CallModel.model_validate(each.input) for each in found]


def _results(ended: Played, *activities: str) -> Sequence[Any]:
    names = {e.activity_id: e.activity for e in ended.events if isinstance(e, ActivityScheduled)}
    done = (e for e in ended.events if isinstance(e, ActivityCompleted) and names[e.activity_id] in activities)
    return [each.result for each in done]
