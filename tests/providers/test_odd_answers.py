"""What models and imitating servers really send: each must leave a transcript that a strict server takes."""

from typing import Any

import pytest

from perdure.core.contracts import Stop
from perdure.core.transcript import Heard
from perdure.providers import PROTOCOLS
from perdure.testing import blank, call, pause, refuse, say, think

protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


@pytest.mark.parametrize(
    ("protocol", "id"), [*((each, "call_1") for each in PROTOCOLS), ("openai-responses", ""), ("openai-chat", "")]
)
async def test_calls_that_share_an_id_are_answered_apart(protocol: str, id: str, converse: Any) -> None:
    twins = [call("hr_lookup", {"employee": name}, id=id) for name in ("ann", "bob")]
    conversation = converse(protocol, [twins, say("Done.")])
    reply = await conversation.turn()
    assert [asked.id for asked in reply.calls] == [id, id]
    conversation.hear("28", "30")
    assert (await conversation.turn()).answer == "Done."


@protocols
@pytest.mark.parametrize(
    "name", ["multi_tool_use.parallel", 'hr_lookup(employee="ann")', "functions.hr_lookup", "x" * 90]
)
async def test_a_name_no_api_takes_goes_back_as_one_it_does(protocol: str, name: str, converse: Any) -> None:
    conversation = converse(protocol, [[say("Hm."), call(name, {"employee": "ann"})], say("Done.")])
    reply = await conversation.turn()
    assert [asked.name for asked in reply.calls] == [name]
    conversation.hear(f"no tool {name!r}", error=True)
    assert (await conversation.turn()).answer == "Done."


@protocols
@pytest.mark.parametrize("raw", ["", None, "[]", "5", '{"employee": "an'])
async def test_arguments_that_are_no_object_leave_the_next_turn_valid(
    protocol: str, raw: str | None, converse: Any
) -> None:
    conversation = converse(protocol, [[call("hr_lookup", raw=raw)], say("Done.")])
    reply = await conversation.turn()
    if protocol != "anthropic":  # which has objects on the wire
        assert [asked.arguments for asked in reply.calls] == [raw or ""]
    conversation.hear("'employee' is missing", error=True)
    assert (await conversation.turn()).answer == "Done."


@protocols
@pytest.mark.parametrize("form", ["empty", "null", "text"])
async def test_a_blank_turn_is_seen_as_one(protocol: str, form: Any, converse: Any) -> None:
    conversation = converse(protocol, [blank(form), say("Done.")])
    assert (await conversation.turn()).stop is Stop.BLANK
    conversation.entries[-1] = Heard(notes=("You said nothing.",))  # such a turn is not sent back
    assert (await conversation.turn()).answer == "Done."


@pytest.mark.parametrize("protocol", ["anthropic", "openai-responses"])
async def test_a_turn_of_thoughts_alone_is_blank(protocol: str, converse: Any) -> None:
    assert (await converse(protocol, [[think("Hm.")]]).turn()).stop is Stop.BLANK


@protocols
async def test_a_refusal_is_seen_as_one(protocol: str, converse: Any) -> None:
    reply = await converse(protocol, [refuse("I can't book that.")]).turn()
    assert (reply.stop, reply.calls, reply.answer) == (Stop.REFUSED, (), "I can't book that.")


async def test_a_turn_may_pause_any_number_of_times(converse: Any) -> None:
    conversation = converse(
        "anthropic", [*([pause("web_search", query=str(time))] for time in range(12)), say("Found.")]
    )
    stops = [(await conversation.turn()).stop for _ in range(13)]
    assert stops == [Stop.PAUSED] * 12 + [Stop.ANSWER]
