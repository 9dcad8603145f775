"""Where a failed run is set back to: as late as it can be, and before what made it fail."""

from datetime import UTC, datetime

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from perdure.core.contracts import Outcome, RunState, Standing
from perdure.core.runs import SteeringRefusedError
from perdure.temporal.retrying import point_before_failure
from perdure.traces.events import StandingChanged


def _task(started: int) -> list[HistoryEvent]:
    end = HistoryEvent(event_id=started + 1, event_type=EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
    end.workflow_task_completed_event_attributes.started_event_id = started
    return [HistoryEvent(event_id=started, event_type=EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED), end]


def _told_to_end(id: int, by: int) -> HistoryEvent:
    event = HistoryEvent(event_id=id, event_type=EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED)
    event.activity_task_cancel_requested_event_attributes.workflow_task_completed_event_id = by
    return event


def test_a_run_goes_back_to_the_step_that_ended_it() -> None:
    assert point_before_failure([*_task(3), *_task(9)], []) == 10


def test_a_run_that_a_bug_broke_goes_back_to_before_it_told_its_calls_to_end() -> None:
    assert point_before_failure([*_task(3), *_task(9), _told_to_end(11, by=10), *_task(14)], []) == 10


def test_what_is_done_after_the_end_was_published_is_gone_back_over() -> None:
    """The trace is kept in the store before the run is over."""
    published = HistoryEvent(event_id=11, event_type=EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED)
    published.workflow_properties_modified_event_attributes.workflow_task_completed_event_id = 10
    ended = Standing(outcome=Outcome(state=RunState.FAILED))
    told = [StandingChanged(11, datetime(2026, 11, 30, tzinfo=UTC), ended)]
    assert point_before_failure([*_task(3), *_task(9), published, *_task(14)], told) == 10


def test_a_run_that_never_took_a_step_has_nothing_to_go_on_from() -> None:
    with pytest.raises(SteeringRefusedError, match="Start another"):
        point_before_failure([HistoryEvent(event_id=1)], [])
