"""Which turn of a script answers which request."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from perdure.testing import Script, ScriptedModel, ScriptError, Seen, blank, call, error, refuse, say, think

TOOL: Any = {"name": "look", "input_schema": {"type": "object"}}


async def ask(clients: Any, *said: str, model: str = "any", task: str = "go") -> Any:
    """Asks with these assistant turns in the transcript; each is followed by a user's "on"."""
    messages = [{"role": "user", "content": task}]
    for text in said:
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "on"}]
    return await clients.anthropic.messages.create(model=model, max_tokens=9, messages=messages)


def text(reply: Any) -> str:
    return "".join(each.text for each in reply.content if each.type == "text")


async def test_the_number_of_assistant_turns_selects_the_reply(play: Any) -> None:
    _, clients = play(["one", "two", "three"])

    assert text(await ask(clients, "x", "y")) == "three"
    assert text(await ask(clients)) == "one"
    assert text(await ask(clients)) == "one"
    assert text(await ask(clients, "x")) == "two"


async def test_the_same_request_gets_the_same_bytes_from_another_server(play: Any) -> None:
    script = [[think("hm"), call("look", q="a")]]
    _, clients = play(script)
    _, others = play(script)

    assert (await ask(clients)).to_json() == (await ask(others)).to_json()


async def test_ids_differ_between_calls_turns_and_scripts(play: Any) -> None:
    _, clients = play(Script([[call("look"), call("look")], call("look")], name="a"))
    _, others = play(Script([call("look")], name="b"))

    replies = [await ask(clients), await ask(clients, "x"), await ask(others)]
    ids = [each.id for reply in replies for each in reply.content]

    assert len(set(ids)) == len(ids) == 4


@pytest.mark.parametrize("unkept", [blank(), blank("null"), blank("text"), think("hm"), refuse()])
async def test_a_turn_that_is_not_sent_back_is_followed_by_the_next(play: Any, unkept: Any) -> None:
    _, clients = play([unkept, unkept, "two", "three"])

    first = await ask(clients)
    again = await ask(clients)
    nudged = await clients.anthropic.messages.create(
        model="any",
        max_tokens=9,
        messages=[{"role": "user", "content": "go"}, {"role": "user", "content": "say something"}],
    )
    nudged_twice = await clients.anthropic.messages.create(
        model="any",
        max_tokens=9,
        messages=[{"role": "user", "content": "go"}, *[{"role": "user", "content": "say something"}] * 2],
    )

    assert first.to_json() == again.to_json()
    assert nudged.stop_reason == first.stop_reason
    assert text(nudged_twice) == "two"
    assert text(await ask(clients, "two")) == "three"


async def test_attempts_are_counted_per_conversation_and_turn(play: Any) -> None:
    _, clients = play([[error(500), say("one")], [error(500), say("two")]])

    for said, task in (((), "go"), (("x",), "go"), ((), "other")):
        with pytest.raises(anthropic.InternalServerError):
            await ask(clients, *said, task=task)
        assert text(await ask(clients, *said, task=task)) in ("one", "two")


async def test_a_script_that_is_over_says_so(play: Any) -> None:
    model, clients = play(["one"])

    with pytest.raises(anthropic.BadRequestError, match="has no turn left: 1 were played"):
        await ask(clients, "x")
    assert "no turn left" in model.violations[0].refusal


async def test_a_bug_in_a_scripts_function_is_told(play: Any) -> None:
    _, clients = play(lambda seen: seen.observations[0])

    with pytest.raises(anthropic.BadRequestError, match=r"the function for turn 1 raised IndexError"):
        await ask(clients)


async def test_a_function_learns_how_often_it_was_asked(play: Any) -> None:
    _, clients = play(lambda seen: "done" if seen.asked() else blank())

    assert (await ask(clients)).content == []
    assert (await ask(clients)).content == []
    nudged = await clients.anthropic.messages.create(
        model="any", max_tokens=9, messages=[{"role": "user", "content": "go"}, {"role": "user", "content": "well?"}]
    )
    assert text(nudged) == "done"


async def test_a_reply_is_computed_from_what_is_seen(play: Any) -> None:
    seen: list[Seen] = []

    def sum_up(view: Seen) -> Any:
        seen.append(view)
        return call("look", q=view.turn) if view.turn < 2 else f"{view.task}: {', '.join(view.observations)}"

    _, clients = play(sum_up)
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for answer in ("1", "2"):
        reply = await clients.anthropic.messages.create(model="any", max_tokens=9, messages=messages, tools=[TOOL])
        result = {"type": "tool_result", "tool_use_id": reply.content[0].id, "content": answer}
        messages += [
            {"role": "assistant", "content": reply.to_dict()["content"]},
            {"role": "user", "content": [result]},
        ]
    reply = await clients.anthropic.messages.create(
        model="any", max_tokens=9, messages=messages, tools=[TOOL], tool_choice={"type": "none"}
    )

    assert text(reply) == "go: 1, 2"
    assert seen[-1].latest == ["2"]
    assert [list(each.tools) for each in seen] == [["look"], ["look"], []]


async def test_observations_are_seen_alike_in_all_protocols(play: Any) -> None:
    _, clients = play(lambda seen: f"{seen.task} {seen.latest} {seen.turn}")
    function = {"name": "look", "arguments": "{}"}
    chat = await clients.openai.chat.completions.create(
        model="any",
        messages=[
            {"role": "user", "content": "go"},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c", "content": "1"},
        ],
    )
    response = await clients.openai.responses.create(
        model="any",
        input=[
            {"role": "user", "content": "go"},
            {"type": "function_call", "call_id": "c", **function},
            {"type": "function_call_output", "call_id": "c", "output": "1"},
        ],
    )

    assert chat.choices[0].message.content == response.output_text == "go ['1'] 1"


async def test_scripts_are_told_apart_by_the_models_name(play: Any) -> None:
    _, clients = play(Script(["a"], model="scripted-a"), Script(["b"], model="scripted-b"), Script(["any"]))

    assert text(await ask(clients, model="scripted-a")) == "a"
    assert text(await ask(clients, model="scripted-b")) == "b"
    assert text(await ask(clients, model="other")) == "any"


async def test_a_model_nobody_knows_is_not_found(play: Any) -> None:
    _, clients = play(Script(["a"], model="scripted-a"), strict_models=True)

    with pytest.raises(anthropic.NotFoundError):
        await ask(clients, model="scripted-b")
    with pytest.raises(openai.NotFoundError) as raised:
        await clients.openai.responses.create(model="scripted-b", input="go")
    assert raised.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([[]], "turn 1: a turn is empty"),
        (["one", 5], "turn 2: 5 is no part of a turn"),
        ([[say("x"), "y"]], "'y' is no part"),
    ],
)
def test_a_wrong_script_names_its_turn(turns: Any, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        Script(turns)


def test_two_scripts_for_one_name_are_refused() -> None:
    with pytest.raises(ScriptError, match="give each Script its own model="):
        ScriptedModel(Script(["a"]), Script(["b"]))
