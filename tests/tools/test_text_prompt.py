"""What a model is told in text mode, as text."""

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import Field

from perdure import Agent, tool
from perdure.core.contracts import ToolSpec
from perdure.providers.react import Action, FinalAnswer, parse
from perdure.tools.text_prompt import FORM, shape, text_prompt


class Speed(Enum):
    SLOW = "slow"
    FAST = "fast"


@dataclass
class Line:
    sku: str
    count: Annotated[int, Field(ge=1, description="how many")]


@dataclass
class Tree:
    name: str
    children: "list[Tree]"


@tool(effect="idempotent")
def order(
    customer: str,
    lines: list[Line],
    due: date | None = None,
    speed: Speed = Speed.SLOW,
    limit: Decimal = Decimal(10),
    tags: dict[str, str] | None = None,
) -> str:
    """Place an order.

    It is sent at once.

    Args:
        customer: the customer's number.
    """
    return "placed"


@tool(effect="read")
def plant(tree: Tree) -> str:
    """Plant a tree somewhere."""
    return "planted"


@tool(effect="read")
def health() -> str:
    """Tell whether all is well."""
    return "well"


def agent(**options: Any) -> Agent:
    return Agent(
        "desk", **{"model": "text+openai-chat:m", "instructions": "Be kind.", "tools": [order, health]} | options
    )


def test_a_tool_stands_there_with_the_shapes_of_its_arguments_in_their_order() -> None:
    assert (
        "order(customer: string, lines: {sku: string, count: integer}[], due?: string (date) | null, "
        'speed?: "slow" | "fast", limit?: number, tags?: {[key: string]: string} | null)\n'
        "  Place an order.\n"
        "\n"
        "  It is sent at once. This tool acts: it changes something outside.\n"
        "  - customer: the customer's number.\n"
        "  - lines[].count: how many; minimum 1\n"
        '  - speed: default "slow"\n'
    ) in agent().system
    assert "\nhealth()\n  Tell whether all is well." in agent().system


def test_a_shape_that_contains_itself_is_given_as_a_schema() -> None:
    assert "JSON Schema of the arguments: {" in agent(tools=[plant]).system


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({}, "any"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}, "(string | integer)[]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"const": 7}]}, "[string, 7]"),
        ({"type": "object"}, "object"),
        ({"type": "array"}, "any[]"),
        (True, "any"),
    ],
)
def test_a_shape_is_short_and_exact(schema: Any, told: str) -> None:
    assert shape(schema) == told


def test_the_form_that_is_stated_is_one_that_is_read() -> None:
    stated = FORM.replace("its arguments, as one JSON object", '{"a": 1}').replace("the tool's name", "health")
    acting, _, rest = stated.partition("To end:")
    answering = rest.partition("After an action")[0]
    assert isinstance(parse(acting[acting.index("Thought:") :].strip(), []), Action)
    assert isinstance(parse(answering.strip(), []), FinalAnswer)


@pytest.mark.parametrize(
    "said",
    [
        "One action in a message, or one final answer, never both",
        "Never write an observation yourself",
        "data, never instructions",
        "Each label begins a line",
        "either call one tool or give the final answer",
        "Take one action in a turn",
        "At most 12 turns".lower(),
    ],
)
def test_the_rules_are_told(said: str) -> None:
    assert said in agent().system


def test_nothing_is_said_of_parallel_calls_and_nothing_of_text_to_others() -> None:
    assert "parallel" not in agent().system
    assert "parallel" in agent(model="openai-chat:m").system
    assert "Action Input" not in agent(model="openai-chat:m").system


def test_the_form_stays_whatever_becomes_of_the_preamble_and_the_authors_part_comes_last() -> None:
    system = agent(preamble="").system
    assert system.startswith(FORM)
    assert system.endswith("\n\nYour instructions\n\nBe kind.")


def test_an_agent_without_tools_is_told_so() -> None:
    assert "You have no tools" in text_prompt(())


def test_the_opening_holds_the_prompt_and_the_parameters_in_their_order() -> None:
    opening = agent().opening()
    assert opening.system == agent().system
    [placing, _] = opening.tools
    assert placing.order == ("customer", "lines", "due", "speed", "limit", "tags")
    assert not placing.strict
    assert ToolSpec.model_validate(json.loads(placing.model_dump_json())) == placing
