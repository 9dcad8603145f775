"""What vendors cache of a prompt: only a run's newest messages are new, and breakpoints stand where requests ended."""

import json
from itertools import pairwise
from typing import Any

import pytest

from perdure.core.contracts import Opening
from perdure.core.transcript import Heard, Result, Task
from perdure.providers import PROTOCOLS, provider
from perdure.testing import call, pause, say, think

protocols = pytest.mark.parametrize("protocol", PROTOCOLS)
_EPHEMERAL = {"type": "ephemeral"}
_LOOP = [
    [think("Two facts."), call("hr_lookup", employee="ann"), think("One more."), call("leave_records", employee="ann")],
    [think("28 - 19"), say("Let me see."), call("leave_records", employee="ann")],
    call("hr_lookup", employee="bob"),
    say("9 days."),
]


async def _bodies(conversation: Any, turns: int = 4) -> list[bytes]:
    bodies = []
    for _ in range(turns):
        if conversation.sent:
            conversation.hear(*("28 days" for _ in conversation.entries[-1].turn.calls), notes=["Two turns are left."])
        await conversation.turn()
        bodies.append(conversation.sent)
    return bodies


@protocols
async def test_each_request_is_the_one_before_and_its_newest_messages(protocol: str, converse: Any) -> None:
    bodies = await _bodies(converse(protocol, _LOOP))
    bare = [body.replace(b',"cache_control":{"type":"ephemeral"}', b"") for body in bodies]
    for before, after in pairwise(bare):
        assert after.startswith(before.removesuffix(b"]}") + b",")


def _marks(body: dict[str, Any]) -> list[tuple[int, int]]:
    """(message, block) of each breakpoint in the messages."""
    return [
        (index, number)
        for index, message in enumerate(body["messages"])
        for number, block in enumerate(message["content"])
        if "cache_control" in block
    ]


async def test_a_breakpoint_stands_where_the_request_before_ended(converse: Any) -> None:
    conversation = converse("anthropic", _LOOP)
    bodies = [json.loads(body) for body in await _bodies(conversation)]
    assert [_marks(body) for body in bodies] == [[], [(0, 0)], [(2, 2)], [(4, 1)]]
    for body in bodies:
        assert body["cache_control"] == _EPHEMERAL
        assert body["system"] == [{"type": "text", "text": "Be exact.", "cache_control": _EPHEMERAL}]


async def test_no_breakpoint_stands_on_what_may_not_carry_one(converse: Any) -> None:
    conversation = converse("anthropic", [pause("web_search", query="leave"), pause("web_search"), say("Found.")])
    await conversation.turn()
    await conversation.turn()
    await conversation.turn()
    assert _marks(conversation.body) == []
    assert conversation.body["cache_control"] == _EPHEMERAL


async def test_breakpoints_live_as_long_as_the_author_says(converse: Any) -> None:
    hour = {"type": "ephemeral", "ttl": "1h"}
    conversation = converse("anthropic", _LOOP, cache_control=hour)
    await _bodies(conversation, turns=2)
    [(message, block)] = _marks(conversation.body)
    assert conversation.body["messages"][message]["content"][block]["cache_control"] == hour
    assert conversation.body["system"][0]["cache_control"] == hour


async def test_who_wants_no_cache_sends_no_breakpoint(converse: Any) -> None:
    conversation = converse("anthropic", _LOOP, cache_control=None)
    bodies = await _bodies(conversation, turns=2)
    assert not any(b"cache_control" in body for body in bodies)


def test_a_text_that_looks_like_the_end_of_a_message_takes_no_breakpoint() -> None:
    vendor = provider("anthropic")
    opening = Opening(digest="", turns=1, protocol="anthropic", model="m", system="")
    looks = '}],"role":"user"}'
    first = vendor.encode([Task(looks)])
    messages = b",".join((first, vendor.encode([Heard((Result("c", "f", looks, False),))])))
    body = json.loads(vendor.body(opening, messages, tools=True, sent=len(first)))
    assert body["messages"][0]["content"] == [{"type": "text", "text": looks, "cache_control": _EPHEMERAL}]
    assert body["messages"][1]["content"][0]["content"] == looks


async def test_a_runs_requests_are_kept_together_by_a_key_of_its_own(converse: Any) -> None:
    conversation = converse("openai-responses", _LOOP)
    bodies = [json.loads(body) for body in await _bodies(conversation)]
    assert [body["prompt_cache_key"] for body in bodies] == ["a" * 32] * 4
    theirs = converse("openai-responses", _LOOP, prompt_cache_key="mine")
    await theirs.turn()
    assert theirs.body["prompt_cache_key"] == "mine"
    other = converse("openai-chat", _LOOP)  # some servers refuse what they do not know
    await other.turn()
    assert "prompt_cache_key" not in other.body
