"""OpenAI's Chat Completions: how a request reads, and how a turn looks. What is refused: `chat_grammar.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from perdure.testing.chat_grammar import Sent, check_request
from perdure.testing.known import Known
from perdure.testing.openai_cache import prompt_of, written_tokens
from perdure.testing.openai_errors import bearer, error_body
from perdure.testing.prompt_cache import Prompt
from perdure.testing.script import ABSENT, Blank, Block, Call, Failed, Refuse, Say, Think, Turn
from perdure.testing.wire import (
    NO_MARK,
    Asked,
    Cue,
    RefusalError,
    digest,
    issue_id,
    stopped,
    task_of,
    text_of,
    tokens,
)


class OpenAIChat:
    """The dialect of `POST /v1/chat/completions`."""

    name = "openai-chat"
    path = "/v1/chat/completions"

    def __init__(self) -> None:
        self.known = Known(Sent, "messages")

    def admit(self, headers: Mapping[str, str]) -> str:
        return bearer(headers)

    def check(self, body: dict[str, Any], issued: set[str]) -> None:
        check_request(body, issued)

    def ask(self, body: dict[str, Any]) -> Asked:
        messages = Sent.of(body["messages"])
        task = next((task_of(each["content"]) for each in messages if each["role"] == "user"), "")
        system = [text_of(each["content"]) for each in messages if each["role"] in ("system", "developer")]
        last = max((index for index, each in enumerate(messages) if each["role"] == "assistant"), default=-1)
        offered = body.get("tools", []) if body.get("tool_choice") != "none" else []
        return Asked(
            model=body["model"],
            conversation=digest(body["model"], system[:1], task),
            task=task,
            turns=sum(each["role"] == "assistant" for each in messages),
            stream=bool(body.get("stream")),
            tools=[tool["function"]["name"] for tool in offered],
            observations=[each.observation for each in messages if each["role"] == "tool"],
            latest=[each.observation for each in messages[last + 1 :] if each["role"] == "tool"],
        )

    def prompt(self, body: dict[str, Any]) -> Prompt:
        messages = Sent.of(body["messages"])
        first = (*body.get("tools", ()), body.get("response_format"))
        heard = [index for index, each in enumerate(messages) if each["role"] in ("tool", "user")]
        return prompt_of(body, first=first, messages=messages, heard=heard)

    def render(self, turn: Turn, cue: Cue) -> dict[str, Any]:
        turn, _ = stopped(turn, cue.body.get("stop"))
        thought = sum(tokens(part.text) for part in turn.content if isinstance(part, Think))
        message = _message(turn, cue)
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(turn), "logprobs": None}
        return {**_envelope(cue), "choices": [choice], "usage": _usage(cue, tokens(message) + thought, thought)}

    def fail(self, failure: Failed, cue: Cue) -> dict[str, Any]:
        return self.error(RefusalError(failure.message, status=500, kind="server_error", code=failure.code))

    def stream(self, reply: dict[str, Any], cue: Cue) -> Iterator[tuple[str | None, object]]:
        if "error" in reply:
            yield None, reply
            return
        envelope = {**_envelope(cue), "object": "chat.completion.chunk"}
        choice = reply["choices"][0]
        for delta in _deltas(choice["message"]):
            yield None, {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        if choice["finish_reason"] is None:
            return
        yield None, {**envelope, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
        if (cue.body.get("stream_options") or {}).get("include_usage"):
            yield None, {**envelope, "choices": [], "usage": reply["usage"]}
        yield None, "[DONE]"

    def error(self, refusal: RefusalError) -> dict[str, Any]:
        return error_body(refusal)


def _envelope(cue: Cue) -> dict[str, Any]:
    reply_id = f"chatcmpl-{digest('chat', cue.script, cue.number, size=24)}"
    return {"id": reply_id, "object": "chat.completion", "created": 1_764_000_000, "model": cue.model}


def _message(turn: Turn, cue: Cue) -> dict[str, Any]:
    said = "".join(part.text for part in turn.content if isinstance(part, Say))
    refusals = [part.text for part in turn.content if isinstance(part, Refuse)]
    blanks = [part.form for part in turn.content if isinstance(part, Blank)]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": said or ("" if blanks and blanks[0] != "null" else None),
        "refusal": refusals[0] if refusals else None,
    }
    calls = [_tool_call(part, cue, index) for index, part in enumerate(turn.content) if isinstance(part, Call)]
    if calls:
        if turn.truncated:
            cut_call = calls[-1]["function"]
            cut_call["arguments"] = cut_call["arguments"][: len(cut_call["arguments"]) // 2]
        message["tool_calls"] = calls
    return message | {part.content["type"]: dict(part.content) for part in turn.content if isinstance(part, Block)}


def _tool_call(call: Call, cue: Cue, index: int) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments)) if call.raw is ABSENT else call.raw
    call_id = call.id if call.id is not None else issue_id("call", NO_MARK, cue.script, cue.number, index)
    return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _finish_reason(turn: Turn) -> object:
    if turn.stop is not ABSENT:
        return turn.stop
    kinds = {type(part) for part in turn.content}
    reasons = ((Refuse, "content_filter"), (Call, "tool_calls"))
    return "length" if turn.truncated else next((reason for kind, reason in reasons if kind in kinds), "stop")


def _usage(cue: Cue, spoken: int, thought: int) -> dict[str, Any]:
    return {
        "prompt_tokens": cue.used.total,
        "completion_tokens": spoken,
        "total_tokens": cue.used.total + spoken,
        "prompt_tokens_details": {"cached_tokens": cue.used.read, "cache_write_tokens": written_tokens(cue)},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    plain = {key: value for key, value in message.items() if key not in ("content", "tool_calls")}
    yield {**plain, "content": "" if message["content"] is not None else None}
    for piece in re.findall(r".{1,16}", message["content"] or "", re.DOTALL):
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield {"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]}
        for piece in re.findall(r".{1,16}", function["arguments"] or "", re.DOTALL):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
