"""What is taken for an answer, and what is said of one that is not of its form."""

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

from perdure import Agent, calculator
from perdure.core.contracts import NotAnsweredError, Outcome, RunState
from perdure.testing.schemas import schema_problem
from perdure.tools.agents import AgentError
from perdure.tools.answers import AnswerForm, MisfitError, answer_form, held, without_form
from perdure.tools.models import Model


class Line(BaseModel):
    item: str = Field(description="as printed")
    amount: Decimal = Field(gt=0)


class Invoice(BaseModel):
    number: str
    due: date | None = None
    lines: list[Line]

    @field_validator("number")
    @classmethod
    def _known(cls, number: str) -> str:
        if number == "0":
            raise ValueError("there is no invoice 0")
        if number == "boom":
            raise RuntimeError("the register is down")
        return number


@dataclass
class Point:
    x: int
    y: int = 0


GIVEN = '{"number": "17", "lines": [{"item": "lamp", "amount": 49.90}]}'
FORM = answer_form(Invoice)


def taken(answer: str, form: AnswerForm = FORM) -> Any:
    return json.loads(held(form, form.schema, answer))


def misfit(answer: str, form: AnswerForm = FORM) -> str:
    with pytest.raises(MisfitError) as refused:
        held(form, form.schema, answer)
    return str(refused.value)


@pytest.mark.parametrize(
    "answer",
    [GIVEN, f"  \n{GIVEN}\n", f"```json\n{GIVEN}\n```", f"```\n{GIVEN}\n```", f"~~~\n{GIVEN}\n~~~", f"\ufeff{GIVEN}"],
)
def test_one_value_is_an_answer_alone_or_in_a_fence(answer: str) -> None:
    assert taken(answer) == {"number": "17", "due": None, "lines": [{"item": "lamp", "amount": "49.9"}]}


@pytest.mark.parametrize(
    "answer",
    [f"Here it is: {GIVEN}", f"{GIVEN}\nI hope this helps.", f"Sure:\n```json\n{GIVEN}\n```", "lamp", "", GIVEN[:-1],
     f"{GIVEN}{GIVEN}", '{"number": NaN}'],
)  # fmt: skip
def test_anything_else_is_no_answer(answer: str) -> None:
    assert "not one JSON value" in misfit(answer)


def test_words_around_a_value_are_named_as_what_is_wrong() -> None:
    assert "Leave out the words" in misfit(f"Here it is: {GIVEN}")
    assert "Leave out the words" not in misfit("lamp")


def test_what_is_wrong_is_named_with_its_place() -> None:
    told = misfit('{"number": 17, "lines": [{"item": "lamp", "amount": -1}, {"amount": 2}]}')
    assert "'number': input should be a valid string, not 17" in told
    assert "'lines.0.amount': input should be greater than 0" in told
    assert "missing key 'lines.1.item'" in told


def test_an_authors_own_check_is_told_and_one_that_breaks_is_no_crash() -> None:
    assert "there is no invoice 0" in misfit(GIVEN.replace("17", "0"))
    assert "RuntimeError: the register is down" in misfit(GIVEN.replace("17", "boom"))


@pytest.mark.parametrize(
    ("declared", "answer", "canonical"),
    [
        (Point, '{"x": "3"}', '{"x":3,"y":0}'),
        (list[Point], '[{"x": 1, "y": 2}]', '[{"x":1,"y":2}]'),
        (Literal["yes", "no"], '"yes"', '"yes"'),
        (int | None, "null", "null"),
        (dict[str, Decimal], '{"a": "0.10"}', '{"a":"0.10"}'),
    ],
)
def test_a_form_is_any_type_that_pydantic_takes(declared: Any, answer: str, canonical: str) -> None:
    form = answer_form(declared)
    assert held(form, form.schema, answer) == canonical
    outcome = Outcome(state=RunState.ANSWERED, answer=canonical)
    assert form.type.dump_json(outcome.answer_as(declared)).decode() == canonical


def test_null_stands_for_what_may_be_left_out() -> None:
    assert taken('{"x": 1, "y": null}', answer_form(Point)) == {"x": 1, "y": 0}


def test_a_type_without_a_schema_is_refused_when_the_agent_is_declared() -> None:
    class Live:
        pass

    for declared in (Live, AgentError("x"), "Nowhere"):
        with pytest.raises(AgentError, match="answer="):
            Agent("a", model="openai:x", instructions="", answer=declared)


def test_a_run_keeps_the_form_it_was_opened_with() -> None:
    """By the schema, once the type makes another one: what it asks for since is not asked of an older run."""
    newer = answer_form(Point)
    assert held(newer, FORM.schema, GIVEN) == '{"number":"17","lines":[{"item":"lamp","amount":49.9}]}'
    assert held(None, FORM.schema, GIVEN) == held(newer, FORM.schema, GIVEN)
    with pytest.raises(MisfitError, match="'lines' is a required property"):
        held(None, FORM.schema, '{"number": "17"}')


# --- what the model is told -------------------------------------------------------------------------------------------


def desk(model: str = "anthropic:x", **options: Any) -> Agent:
    given: dict[str, Any] = {"answer": Invoice, **options}
    return Agent("a", model=model, instructions="Be exact.", **given)


@pytest.mark.parametrize("model", ["anthropic:x", "openai:x", "openai-chat:x", "text+anthropic:x"])
def test_the_prompt_holds_the_form_on_every_protocol(model: str) -> None:
    system = desk(model, tools=[calculator]).system
    assert json.dumps(FORM.schema, ensure_ascii=False) in system
    assert "as printed" in system
    assert "in the form that is asked for" in system
    assert ('What follows "Final Answer:" is one JSON value' in system) == model.startswith("text+")
    assert system.endswith("\n\nYour instructions\n\nBe exact.")
    assert "what it rests on.\n" in desk(model, answer=None).system


FORMATS = {
    "anthropic:x": lambda settings: settings["output_config"]["format"]["schema"],
    "openai:x": lambda settings: settings["text"]["format"]["schema"],
    "openai-chat:x": lambda settings: settings["response_format"]["json_schema"]["schema"],
}


@pytest.mark.parametrize("model", FORMATS)
def test_without_tools_the_vendor_is_told_the_form_in_the_subset_it_takes(model: str) -> None:
    schema = FORMATS[model](desk(model).opening().settings)
    assert schema_problem(schema, "anthropic", strict=True) is None
    assert schema_problem(schema, "openai", strict=True) is None


@pytest.mark.parametrize("model", [*FORMATS, "text+openai-chat:x"])
def test_with_tools_words_beside_a_call_stay_free(model: str) -> None:
    assert desk(model, tools=[calculator]).opening().settings == {}
    assert desk("text+openai-chat:x").opening().settings == {}


@pytest.mark.parametrize("declared", [list[Point], int | Point, dict[str, int], Any])
def test_a_form_that_no_vendor_compiles_stands_in_the_prompt_alone(declared: Any) -> None:
    opening = desk(answer=declared).opening()
    assert opening.settings == {}
    assert opening.answer is not None


def test_an_authors_settings_stand_beside_the_vendors_form_and_win() -> None:
    beside = desk(settings={"output_config": {"effort": "low"}}).opening().settings["output_config"]
    assert (beside["effort"], beside["format"]["type"]) == ("low", "json_schema")
    assert desk("openai-chat:x", settings={"response_format": None}).opening().settings == {"response_format": None}


@pytest.mark.parametrize("model", FORMATS)
def test_a_question_beside_the_task_is_asked_without_the_form(model: str) -> None:
    given = desk(model, effort="low").opening().settings
    assert without_form(given) == Model(model).sent("low") != given


# --- reading it -------------------------------------------------------------------------------------------------------


def test_an_answer_is_read_as_its_type() -> None:
    outcome = Outcome(state=RunState.ANSWERED, answer=held(FORM, FORM.schema, GIVEN))
    assert outcome.answer_as(Invoice).lines[0].amount == Decimal("49.90")
    with pytest.raises(ValidationError):
        outcome.answer_as(Point)


def test_a_run_that_did_not_answer_has_no_answer_to_read() -> None:
    with pytest.raises(NotAnsweredError, match="limited"):
        Outcome(state=RunState.LIMITED, answer=GIVEN, reason="the budget is spent").answer_as(Invoice)
