"""OpenAI's Responses API (and servers that speak it, by OPENAI_BASE_URL).

A recorded message is the list of output items. Nothing is stored at the vendor: reasoning items carry their encrypted
content and go back with the rest, or a model would forget between two calls why it made the first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from perdure.core.contracts import Call, FileRef, Opening, RecordedTurn, Stop, ToolSpec, Usage
from perdure.core.models import OWN_KEYS
from perdure.core.transcript import Assistant, Entry, Heard, Retold, Task
from perdure.providers.attachments import PDF, data_url, parts
from perdure.providers.errors import classed, not_a_setting, parsed, unreadable
from perdure.providers.jsontext import count_of, dumped, objects, text_of
from perdure.providers.openai_client import VENDOR, admitted, arguments_of, clients, failure_in, observed, retold
from perdure.providers.protocol import AskedCall, Reply

DEFAULTS: Final[dict[str, Any]] = {"include": ["reasoning.encrypted_content"]}  # by default now; not by every server
_POLICY: Final = frozenset({"bio_policy", "content_filter", "image_content_policy_violation"})
_KNOWN: Final = ("function_call", "message", "reasoning")


class OpenAIResponses:
    """The provider for `Opening.protocol` "openai-responses"."""

    protocol = "openai-responses"

    def __init__(self) -> None:
        self._clients = clients()

    def encode(self, entries: Sequence[Entry]) -> bytes:
        return b",".join(dumped(item) for entry in entries for item in _items(entry))

    def body(self, opening: Opening, messages: bytes, *, tools: bool, sent: int = 0, run: str = "") -> bytes:
        settings = {**DEFAULTS, "prompt_cache_key": run or None, **opening.settings}
        if mistaken := OWN_KEYS[self.protocol] & settings.keys():
            raise not_a_setting(VENDOR, mistaken)
        request = {key: value for key, value in settings.items() if value is not None}
        request |= {"model": opening.model, "store": False}
        if opening.system:
            request["instructions"] = opening.system
        if opening.tools:
            request["tools"] = [_tool(tool) for tool in opening.tools]
            if not tools:
                request["tool_choice"] = "none"
            if not opening.parallel:
                request["parallel_tool_calls"] = False
        return dumped(request)[:-1] + b',"input":[' + messages + b"]}"

    async def post(self, body: bytes) -> bytes:
        return await self._clients.post("/responses", body)

    async def close(self) -> None:
        await self._clients.close()

    def read(self, answer: bytes, opening: Opening) -> Reply:
        said = _said(answer)
        items = objects(said["output"])
        calls = tuple(_asked(item) for item in items if item.get("type") == "function_call")
        cut = said["status"] == "incomplete"
        if cut and calls and items[-1].get("type") == "function_call":
            calls = (*calls[:-1], replace(calls[-1], whole=False))
        text, refusal = _words(items)
        refusal = refusal or _policy(said)
        stop = _stop(_reason(said), bool(calls), text, refusal)
        words = {Stop.ANSWER: text, Stop.CUT: text, Stop.REFUSED: refusal or text}
        return Reply(
            stop=stop,
            message=said["output"],
            calls=calls if stop is Stop.CALLS else (),
            answer=words.get(stop, ""),
            usage=_usage(said.get("usage")),
            model=text_of(said.get("model")),
        )


# --- encode -----------------------------------------------------------------------------------------------------------


def _items(entry: Entry) -> Iterator[dict[str, Any]]:
    match entry:
        case Task(text, files):
            yield {"role": "user", "content": _content(text, files)}
        case Assistant(turn):
            yield from _sent_back(turn)
        case Retold(text, calls):
            if text.strip():
                yield {"role": "assistant", "content": text}
            for call in calls:
                yield {"type": "function_call", "call_id": call.id, **retold(call)}
        case Heard(results, notes):
            for result in results:
                output = _content(observed(result), result.files)
                yield {"type": "function_call_output", "call_id": result.call_id, "output": output}
            if notes:
                yield {"role": "user", "content": "\n\n".join(notes)}


def _content(text: str, files: Sequence[FileRef]) -> str | list[dict[str, Any]]:
    return [_text(text), *parts(files, _text, _media)] if files else text


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _media(file: FileRef) -> dict[str, Any]:
    if file.media_type == PDF:
        return {"type": "input_file", "filename": file.name, "file_data": data_url(file)}
    return {"type": "input_image", "detail": "auto", "image_url": data_url(file)}


def _sent_back(turn: RecordedTurn) -> list[dict[str, Any]]:
    items = objects(turn.message)
    while items and items[-1].get("type") == "reasoning":  # cut: the API takes none that nothing follows
        items.pop()
    calls = iter(turn.calls)
    return [_sent_item(item, next(calls, None) if item.get("type") == "function_call" else None) for item in items]


def _sent_item(item: dict[str, Any], call: Call | None) -> dict[str, Any]:
    """An item as received. Of the kinds known here, without nulls: some servers write them, and input allows none."""
    if item.get("type") not in _KNOWN:
        return item
    if item["type"] == "function_call":
        item = admitted(item, call)
        if call is not None and item.get("call_id") != call.id:
            item = {**item, "call_id": call.id}
    return {key: value for key, value in item.items() if value is not None}


# --- body -------------------------------------------------------------------------------------------------------------


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,  # required here
    }


# --- read -------------------------------------------------------------------------------------------------------------


def _said(answer: bytes) -> dict[str, Any]:
    """The response, if it is one that ended."""
    broken = partial(unreadable, VENDOR, answer=answer)
    said = parsed(answer, VENDOR)
    if (failure := said.get("error")) and not _policy(said):
        raise classed(failure_in(failure), VENDOR)
    status = said.get("status")
    if status == "failed" and _policy(said):
        return {**said, "output": said.get("output") or []}
    if status not in ("completed", "incomplete"):
        raise broken(f"status is {status!r}" if status else "no status, so it was cut")
    if not isinstance(said.get("output"), list | None) or "output" not in said:
        raise broken("no output")
    return said


def _policy(said: dict[str, Any]) -> str:
    """Why the vendor's policy ended the response, if it did. Such a failure is a refusal: asking again won't help."""
    error = said.get("error")
    if not isinstance(error, dict):
        return ""
    code = text_of(error.get("code"))
    told = text_of(error.get("message")) or code
    return told if code in _POLICY or code.endswith("policy_violation") else ""


def _reason(said: dict[str, Any]) -> str:
    """How the response ended: "completed", "content_filter", or what else cut it."""
    if said["status"] != "incomplete":
        return str(said["status"])
    details = said.get("incomplete_details")
    return (text_of(details.get("reason")) if isinstance(details, dict) else "") or "max_output_tokens"


def _asked(item: dict[str, Any]) -> AskedCall:
    return AskedCall(
        id=text_of(item.get("call_id")),
        name=text_of(item.get("name")),
        arguments=arguments_of(item.get("arguments")),
        whole=item.get("status") not in ("in_progress", "incomplete"),
    )


def _words(items: list[dict[str, Any]]) -> tuple[str, str]:
    """All text, and all refusals, of the response's messages."""
    parts = [part for item in items if item.get("type") == "message" for part in objects(item.get("content"))]
    texts = "".join(text_of(part.get("text")) for part in parts if part.get("type") == "output_text")
    refusals = "".join(text_of(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    return texts, refusals


def _stop(reason: str, calls: bool, text: str, refusal: str) -> Stop:
    if refusal or reason == "content_filter":
        return Stop.REFUSED
    if calls:
        return Stop.CALLS
    if reason != "completed":  # max_output_tokens, max_messages, and what may come: none of them is an end
        return Stop.CUT
    return Stop.ANSWER if text.strip() else Stop.BLANK


def _usage(counts: Any) -> Usage:
    return Usage(
        input=count_of(counts, "input_tokens"),
        cached=count_of(counts, "input_tokens_details", "cached_tokens"),
        cache_written=count_of(counts, "input_tokens_details", "cache_write_tokens"),
        output=count_of(counts, "output_tokens"),
        reasoning=count_of(counts, "output_tokens_details", "reasoning_tokens"),
    )
