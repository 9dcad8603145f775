"""Where a failed run is set back to: as late as it can be, and before what made it fail."""

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from perdure.core.runs import SteeringRefusedError
from perdure.temporal.retrying import point_before_failure


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


def test_a_run_that_never_took_a_step_has_nothing_to_go_on_from() -> None:
    with pytest.raises(SteeringRefusedError, match="Start another"):
        point_before_failure([HistoryEvent(event_id=1)], [])
