"""OpenAI's Responses: how a request reads, and how a turn looks. What is refused: `responses_grammar.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from perdure.testing.known import Known
from perdure.testing.openai_cache import prompt_of, written_tokens
from perdure.testing.openai_errors import bearer, error_body
from perdure.testing.prompt_cache import Prompt
from perdure.testing.responses_grammar import OUTPUT, Sent, check_request, items_of, reasoning_mark, turns_in
from perdure.testing.script import ABSENT, Blank, Block, Call, Failed, Refuse, Say, Think, Turn
from perdure.testing.wire import (
    NO_MARK,
    Asked,
    Cue,
    RefusalError,
    digest,
    issue_id,
    seal,
    task_of,
    text_of,
    tokens,
)

_INCOMPLETE: Final = ("max_output_tokens", "max_messages", "content_filter", "steered")


class OpenAIResponses:
    """The dialect of `POST /v1/responses`."""

    name = "openai-responses"
    path = "/v1/responses"

    def __init__(self) -> None:
        self.known = Known(Sent, "input")

    def admit(self, headers: Mapping[str, str]) -> str:
        return bearer(headers)

    def check(self, body: dict[str, Any], issued: set[str]) -> None:
        check_request(body, issued)

    def ask(self, body: dict[str, Any]) -> Asked:
        items = items_of(body)
        task = next((task_of(each["content"]) for each in items if each.get("role") == "user"), "")
        system = [text_of(each["content"]) for each in items if each.get("role") in ("system", "developer")]
        last = max((index for index, each in enumerate(items) if each.kind in OUTPUT), default=-1)
        offered = body.get("tools", []) if body.get("tool_choice") != "none" else []
        return Asked(
            model=body["model"],
            conversation=digest(body["model"], body.get("instructions"), system[:1], task),
            task=task,
            turns=turns_in(items),
            stream=bool(body.get("stream")),
            tools=[tool["name"] for tool in offered],
            observations=[each.observation for each in items if "output" in each],
            latest=[each.observation for each in items[last + 1 :] if "output" in each],
        )

    def prompt(self, body: dict[str, Any]) -> Prompt:
        items = items_of(body)
        first = (*body.get("tools", ()), (body.get("text") or {}).get("format"), body.get("instructions"))
        heard = [index for index, each in enumerate(items) if "output" in each or each.get("role") == "user"]
        return prompt_of(body, first=first, messages=items, heard=heard)

    def render(self, turn: Turn, cue: Cue) -> dict[str, Any]:
        thought = sum(tokens(part.text) for part in turn.content if isinstance(part, Think))
        output = _output(turn, cue)
        reason = turn.stop if turn.stop in _INCOMPLETE else "max_output_tokens" if turn.truncated else None
        status: object = "incomplete" if reason else "completed" if turn.stop is ABSENT else turn.stop
        return {
            **_envelope(cue),
            "status": status,
            "incomplete_details": {"reason": reason} if reason else None,
            "output": output,
            "usage": _usage(cue, tokens(output or "") + thought, thought),
        }

    def fail(self, failure: Failed, cue: Cue) -> dict[str, Any]:
        error = {"code": failure.code, "message": failure.message}
        return {**_envelope(cue), "status": "failed", "error": error, "output": [], "usage": None}

    def stream(self, reply: dict[str, Any], cue: Cue) -> Iterator[tuple[str | None, object]]:
        for number, (kind, more) in enumerate(_events(reply)):
            yield kind, {"type": kind, "sequence_number": number, **more}

    def error(self, refusal: RefusalError) -> dict[str, Any]:
        return error_body(refusal)


def _output(turn: Turn, cue: Cue) -> list[dict[str, Any]] | None:
    if Blank("null") in turn.content:
        return None
    input = cue.body.get("input")
    held = {item["id"] for item in input if item.get("id")} if isinstance(input, list) else set()
    items = _items(turn, cue.script, cue.number)
    if any(item.get("id") in held for item in items):  # a transcript made shorter: this number was due before
        items = _items(turn, cue.script, digest(cue.number, sorted(held)))
    return items


def _items(turn: Turn, script: str, number: object) -> list[dict[str, Any]]:
    """The items of a turn; their ids are drawn from its number."""
    items: list[dict[str, Any]] = []
    mark = NO_MARK
    for index, part in enumerate(turn.content):
        item = _item(part, (script, number, index), mark)
        if item is not None:
            items.append(item)
        if isinstance(part, Think) and item is not None:
            mark = reasoning_mark(item["id"])
    if turn.truncated and items:
        items[-1]["status"] = "incomplete"
        if "arguments" in items[-1]:
            items[-1]["arguments"] = items[-1]["arguments"][: len(items[-1]["arguments"]) // 2]
    return items


def _item(part: object, facts: tuple[object, ...], mark: str) -> dict[str, Any] | None:
    match part:
        case Think(text, redacted):
            summary = [] if redacted else [{"type": "summary_text", "text": text}]
            sealed_text = "gAAAAA" + seal(text, *facts)
            return {"id": f"rs_{digest(*facts)}", "type": "reasoning", "summary": summary,
                    "encrypted_content": sealed_text}  # fmt: skip
        case Call():
            arguments = json.dumps(dict(part.arguments)) if part.raw is ABSENT else part.raw
            call_id = part.id if part.id is not None else issue_id("call", mark, *facts)
            return {"id": issue_id("fc", mark, *facts), "type": "function_call", "status": "completed",
                    "call_id": call_id, "name": part.name, "arguments": arguments}  # fmt: skip
        case Say(text):
            return _message(facts, mark, {"type": "output_text", "text": text, "annotations": [], "logprobs": []})
        case Blank("text"):
            return _message(facts, mark, {"type": "output_text", "text": "", "annotations": [], "logprobs": []})
        case Refuse(text):
            return _message(facts, mark, {"type": "refusal", "refusal": text})
        case Block(content):
            return dict(content)
    return None


def _message(facts: tuple[object, ...], mark: str, content: dict[str, Any]) -> dict[str, Any]:
    message_id = issue_id("msg", mark, *facts)
    return {"id": message_id, "type": "message", "status": "completed", "role": "assistant", "content": [content]}


def _envelope(cue: Cue) -> dict[str, Any]:
    asked = cue.body
    return {
        "id": f"resp_{digest('response', cue.script, cue.number, size=32)}",
        "object": "response",
        "created_at": 1_764_000_000,
        "model": cue.model,
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata") or {},
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "temperature": asked.get("temperature"),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools", []),
        "top_p": asked.get("top_p"),
        "store": asked.get("store", True),
    }


def _usage(cue: Cue, spoken: int, thought: int) -> dict[str, Any]:
    return {
        "input_tokens": cue.used.total,
        "input_tokens_details": {"cached_tokens": cue.used.read, "cache_write_tokens": written_tokens(cue)},
        "output_tokens": spoken,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": cue.used.total + spoken,
    }


def _events(reply: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    opening = {**reply, "status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None}
    yield "response.created", {"response": opening}
    yield "response.in_progress", {"response": opening}
    for index, item in enumerate(reply["output"] or []):
        hollow: dict[str, Any] = {
            key: [] if key == "content" else "" if key == "arguments" else value for key, value in item.items()
        }
        yield "response.output_item.added", {"output_index": index, "item": hollow}
        where = {"item_id": item.get("id", ""), "output_index": index}
        if item["type"] == "function_call":
            yield from _argument_events(item["arguments"] or "", where, item["name"])
        parts = item["content"] if item["type"] == "message" else []
        for number, part in enumerate(parts):
            yield from _part_events(part, {**where, "content_index": number})
        yield "response.output_item.done", {"output_index": index, "item": item}
    if reply["status"] is not None:
        yield f"response.{reply['status']}", {"response": reply}


def _argument_events(arguments: str, where: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for piece in re.findall(r".{1,16}", arguments, re.DOTALL):
        yield "response.function_call_arguments.delta", {**where, "delta": piece}
    yield "response.function_call_arguments.done", {**where, "name": name, "arguments": arguments}


def _part_events(part: dict[str, Any], where: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind, key = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
    extra: dict[str, Any] = {"logprobs": []} if key == "text" else {}
    yield "response.content_part.added", {**where, "part": {**part, key: ""}}
    for piece in re.findall(r".{1,16}", part[key], re.DOTALL):
        yield f"response.{kind}.delta", {**where, "delta": piece, **extra}
    yield f"response.{kind}.done", {**where, key: part[key], **extra}
    yield "response.content_part.done", {**where, "part": part}
