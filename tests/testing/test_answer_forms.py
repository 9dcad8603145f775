"""Forms of answers that the vendors compile, and those that they answer with a 400."""

from typing import Any

import anthropic
import openai
import pytest

from perdure.testing import say

SCRIPT = lambda seen: say("{}")  # noqa: E731 - one reply for every question
TAKEN: dict[str, Any] = {
    "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False,
}  # fmt: skip
LOOSE = {**TAKEN, "additionalProperties": True}
LIST = {"type": "array", "items": {"type": "integer"}}


async def ask_anthropic(clients: Any, schema: Any, **more: Any) -> None:
    form = {"type": "json_schema", "schema": schema, **more}
    await clients.anthropic.messages.create(
        model="any", max_tokens=100, messages=[{"role": "user", "content": "go"}], output_config={"format": form}
    )


async def ask_responses(clients: Any, schema: Any, **more: Any) -> None:
    form = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True, **more}
    await clients.openai.responses.create(model="any", input="go", text={"format": form})


async def ask_chat(clients: Any, schema: Any, **more: Any) -> None:
    form = {"name": "answer", "schema": schema, "strict": True, **more}
    await clients.openai.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "go"}],
        response_format={"type": "json_schema", "json_schema": form},
    )  # fmt: skip


ASKED = [ask_anthropic, ask_responses, ask_chat]
REFUSED = (anthropic.BadRequestError, openai.BadRequestError)


@pytest.mark.parametrize("ask", ASKED)
async def test_a_strict_form_is_taken(ask: Any, play: Any) -> None:
    model, clients = play(SCRIPT)
    await ask(clients, TAKEN)
    assert model.violations == []


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("schema", [LOOSE, LIST, {**TAKEN, "properties": {"n": {"not": {}}}}])
async def test_a_form_that_no_grammar_holds_is_refused(ask: Any, schema: Any, play: Any) -> None:
    _, clients = play(SCRIPT)
    with pytest.raises(REFUSED):
        await ask(clients, schema)


@pytest.mark.parametrize(("ask", "more"), [(ask_anthropic, {"name": "answer"}), (ask_responses, {"name": "an answer"}),
                                           (ask_chat, {"name": ""})])  # fmt: skip
async def test_a_form_with_a_wrong_name_is_refused(ask: Any, more: Any, play: Any) -> None:
    _, clients = play(SCRIPT)
    with pytest.raises(REFUSED):
        await ask(clients, TAKEN, **more)


async def test_openai_takes_a_loose_form_that_does_not_ask_to_be_strict(play: Any) -> None:
    _, clients = play(SCRIPT)
    await ask_chat(clients, LOOSE, strict=False)
