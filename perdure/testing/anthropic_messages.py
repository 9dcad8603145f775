"""Anthropic's Messages: how a request reads, and how a turn looks. What is refused: `anthropic_grammar.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from perdure.testing.anthropic_cache import prompt_of
from perdure.testing.anthropic_grammar import check_counted, check_request, layout_mark, signature
from perdure.testing.anthropic_transcript import Message
from perdure.testing.known import Known
from perdure.testing.prompt_cache import Prompt, counted
from perdure.testing.script import ABSENT, Blank, Block, Call, Failed, Pause, Refuse, Say, Think, Turn
from perdure.testing.wire import (
    Asked,
    Cue,
    RefusalError,
    digest,
    issue_id,
    seal,
    stopped,
    task_of,
    text_of,
    tokens,
)

_KINDS: Final = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error",
    529: "overloaded_error",
}  # fmt: skip


class AnthropicMessages:
    """The dialect of `POST /v1/messages`."""

    name = "anthropic"
    path = "/v1/messages"

    def __init__(self) -> None:
        self.known = Known(Message, "messages")

    def admit(self, headers: Mapping[str, str]) -> str:
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if not key:
            raise RefusalError("x-api-key header is required", status=401)
        if "anthropic-version" not in headers:
            raise RefusalError("anthropic-version: header is required")
        return key

    def check(self, body: dict[str, Any], issued: set[str]) -> None:
        check_request(body, issued)

    def count(self, body: dict[str, Any], issued: set[str]) -> dict[str, Any]:
        """The answer of `count_tokens`, under the same grammar."""
        check_counted(body, issued)
        return {"input_tokens": counted(prompt_of(body))}

    def ask(self, body: dict[str, Any]) -> Asked:
        messages = Message.of(body["messages"])
        task = task_of(messages[0]["content"])
        offered = body.get("tool_choice", {}).get("type") != "none"
        return Asked(
            model=body["model"],
            conversation=digest(body["model"], text_of(body.get("system")), task),
            task=task,
            turns=sum(each["role"] == "assistant" for each in messages),
            stream=body.get("stream", False),
            tools=[tool["name"] for tool in body.get("tools", ())] if offered else [],
            observations=[text for each in messages for text in each.observations],
            latest=messages[-1].observations,
        )

    def prompt(self, body: dict[str, Any]) -> Prompt:
        return prompt_of(body)

    def render(self, turn: Turn, cue: Cue) -> dict[str, Any]:
        turn, met = stopped(turn, cue.body.get("stop_sequences"))
        content = _content(turn, cue)
        thought = sum(tokens(part.text) for part in turn.content if isinstance(part, Think))
        spoken = tokens(content or "") + thought
        refused = any(isinstance(part, Refuse) for part in turn.content)
        return {
            "id": f"msg_01{digest('message', cue.script, cue.number, size=22)}",
            "type": "message",
            "role": "assistant",
            "model": cue.model,
            "content": content,
            "stop_reason": "stop_sequence" if met else _stop_reason(turn) if turn.stop is ABSENT else turn.stop,
            "stop_sequence": met,
            "stop_details": {"type": "refusal", "category": None, "explanation": None} if refused else None,
            "usage": _usage(cue, spoken, thought),
        }

    def fail(self, failure: Failed, cue: Cue) -> dict[str, Any]:
        return self.error(RefusalError(failure.message, status=500, kind="api_error"))

    def stream(self, reply: dict[str, Any], cue: Cue) -> Iterator[tuple[str | None, object]]:
        def event(kind: str, **more: object) -> tuple[str, object]:
            return kind, {"type": kind, **more}

        if reply["type"] == "error":
            yield "error", reply
            return
        opening = {**reply, "content": [], "stop_reason": None, "stop_details": None}
        yield event("message_start", message={**opening, "usage": {**reply["usage"], "output_tokens": 1}})
        for index, block in enumerate(reply["content"] or ()):
            bare, deltas = _deltas(block)
            yield event("content_block_start", index=index, content_block=bare)
            for delta in deltas:
                yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        if reply["stop_reason"] is None:
            return
        ending = {key: reply[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
        yield event("message_delta", delta=ending, usage=reply["usage"])
        yield event("message_stop")

    def error(self, refusal: RefusalError) -> dict[str, Any]:
        status_kind = _KINDS.get(refusal.status, "api_error" if refusal.status >= 500 else "invalid_request_error")
        known = refusal.kind is None or refusal.kind.endswith("_error") or refusal.kind in _KINDS.values()
        error: dict[str, Any] = {"type": (known and refusal.kind) or status_kind, "message": refusal.message}
        if not known:
            error["details"] = {"error_code": refusal.kind}
        return {"type": "error", "error": error, "request_id": f"req_{digest('request', refusal.message)}"}


def _content(turn: Turn, cue: Cue) -> list[dict[str, Any]] | None:
    if Blank("null") in turn.content:
        return None
    mark = layout_mark(_said(turn, cue, mark=""))  # of thoughts and places, not of ids: so it can go into the ids
    blocks = _said(turn, cue, mark)
    if turn.truncated and blocks and blocks[-1]["type"] == "tool_use":
        blocks[-1]["input"] = {}
    return blocks


def _said(turn: Turn, cue: Cue, mark: str) -> list[dict[str, Any]]:
    blocks = (_block(part, (cue.script, cue.number, index), mark) for index, part in enumerate(turn.content))
    return [block for block in blocks if block is not None]


def _block(part: object, facts: tuple[object, ...], mark: str) -> dict[str, Any] | None:
    match part:
        case Say(text) | Refuse(text):
            return {"type": "text", "text": text, "citations": None}
        case Think(text, redacted=True):
            return {"type": "redacted_thinking", "data": seal(text)}
        case Think(text):
            return {"type": "thinking", "thinking": text, "signature": signature(text)}
        case Call():
            call_id = part.id or issue_id("toolu", mark, *facts)
            return {"type": "tool_use", "id": call_id, "name": part.name, "input": _input(part)}
        case Pause():
            used = issue_id("srvtoolu", mark, *facts)
            return {"type": "server_tool_use", "id": used, "name": part.name, "input": dict(part.input)}
        case Block(content):
            return dict(content)
        case Blank("text"):
            return {"type": "text", "text": "", "citations": None}
    return None


def _input(call: Call) -> Any:
    """Anthropic sends objects; a raw argument string is what it parses to, or `{}`."""
    if not isinstance(call.raw, str):
        return dict(call.arguments)
    try:
        return json.loads(call.raw)
    except ValueError:
        return {}


def _stop_reason(turn: Turn) -> str:
    kinds = {type(part) for part in turn.content}
    reasons = ((Refuse, "refusal"), (Pause, "pause_turn"), (Call, "tool_use"))
    return "max_tokens" if turn.truncated else next((reason for kind, reason in reasons if kind in kinds), "end_turn")


def _usage(cue: Cue, spoken: int, thought: int) -> dict[str, Any]:
    used = cue.used
    return {
        "input_tokens": used.total - used.read - used.written,
        "output_tokens": spoken,
        "cache_creation_input_tokens": used.written,
        "cache_read_input_tokens": used.read,
        "output_tokens_details": {"thinking_tokens": thought},
        "service_tier": "standard",
    }


def _deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it starts, and what is then added to it."""
    match block["type"]:
        case "text":
            pieces = re.findall(r".{1,16}", block["text"], re.DOTALL)
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [thought, signed]
        case "tool_use" | "server_tool_use":
            pieces = re.findall(r".{1,16}", json.dumps(block["input"]), re.DOTALL)
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block, []
