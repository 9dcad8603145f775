"""What counts as the time of a run."""

from datetime import UTC, datetime, timedelta

from workflows.stopwatch import Stopwatch

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def test_it_stands_still_while_something_waits():
    watch = Stopwatch(0, NOON, waiting=False)
    assert watch.read(at(1), waiting=True) == 60
    assert watch.read(at(100), waiting=True) == 60
    assert watch.read(at(200), waiting=False) == 60
    assert watch.read(at(201), waiting=False) == 120


def test_it_goes_on_from_where_the_segment_before_left_off():
    watch = Stopwatch(30, NOON, waiting=True)
    assert watch.read(at(60), waiting=False) == 30
    assert watch.read(at(61), waiting=False) == 90


def test_what_another_run_worked_meanwhile_is_added():
    watch = Stopwatch(0, NOON, waiting=False)
    watch.read(at(1), waiting=True)
    watch.add(90)
    assert watch.read(at(50), waiting=False) == 150
