"""The names and types that workflow, activities and clients speak are the same on both sides."""

import inspect
from typing import get_type_hints

from temporalio import activity, workflow

from activities import activities
from perdure.core import contracts as c
from workflows import AgentRun, calls

SERVED = {activity._Definition.must_from_callable(each).name: each for each in activities({}, b"key")}
# activity -> what the workflow reads of its result
READ = {
    c.CALL_MODEL: (c.CallModel, c.Turn),
    c.RUN_TOOL: (c.RunTool, c.Observed),
    c.PROBE_TOOL: (c.RunTool, c.Observed),
    c.CHECK_DECISION: (c.CheckDecision, c.Checked),
    c.CHECK_STEERING: (c.CheckSteering, c.Checked),
    c.ASK_CRITIC: (c.AskCritic, c.Reviewed),
    c.COMPACT_TRANSCRIPT: (c.CompactTranscript, c.Carried),
    c.EXPORT_SEGMENT: (c.ExportSegment, c.Exported),
}


def test_every_activity_that_is_called_is_served_and_no_other():
    assert SERVED.keys() == READ.keys()


def test_every_activity_takes_what_the_workflow_sends():
    for name, function in SERVED.items():
        taken = [hint for key, hint in get_type_hints(function).items() if key != "return"]
        assert taken == [READ[name][0]], name


def test_the_workflow_reads_a_part_of_what_each_activity_records():
    for name, function in SERVED.items():
        recorded, read = get_type_hints(function)["return"].model_fields, READ[name][1].model_fields
        assert read.keys() <= recorded.keys(), name
        assert set(c.Call.model_fields) <= set(c.AdmittedCall.model_fields)


def test_every_call_function_speaks_of_one_activity():
    functions = {name: f for name, f in vars(calls).items() if inspect.iscoroutinefunction(f) and name[0] != "_"}
    assert get_type_hints(functions.pop("run_agent")) == {"start": c.Start, "run_id": str, "return": c.Delegated}
    assert functions.keys() == READ.keys()
    for name, function in functions.items():
        assert get_type_hints(function)["return"] is READ[name][1]


def test_the_run_serves_its_names():
    served = workflow._Definition.must_from_class(AgentRun)
    assert (served.name, set(served.signals), set(served.updates)) == (c.RUN, {c.DECIDE, c.STEER}, {c.DECIDE, c.STEER})
    assert set(served.queries) <= {"__temporal_workflow_metadata", "__stack_trace"}


def test_every_record_says_its_version():
    for record in (c.Start, c.Opening, c.RecordedTurn, c.Observation, c.Decision, c.Outcome, c.State):
        assert record.model_fields["v"].default == 1


def test_a_newer_record_is_read_by_what_is_known_of_it():
    assert c.Observed.model_validate({"digest": "d", "ending": "ok", "v": 2, "added_later": 1}).ending is c.Ending.OK


def test_each_kind_of_request_has_its_choices():
    assert c.CHOICES.keys() == set(c.RequestKind)
    assert {choice for choices in c.CHOICES.values() for choice in choices} == set(c.Choice)
