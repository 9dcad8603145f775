"""Anthropic's Messages API (and servers that speak it, by ANTHROPIC_BASE_URL).

A recorded message is the list of content blocks. The API checks signatures of thinking blocks, their order and their
text, so blocks go back as they came. The exceptions are what the API would refuse to take back: text blocks without
text, and thinking at the very end of a message that was cut.

The prompt is cached up to breakpoints, of which a request may have four. Three are used: the end of the system text
(with the tools before it), which all runs of an agent have in common; where the request before this one ended, so that
its whole input is read, however much the turn between added; and the last block, by the top-level `cache_control`, for
the request after this one. From one breakpoint the API looks 20 blocks back for an entry, which a turn of thoughts and
calls in turn exceeds. The setting `cache_control` says how long entries live, or with None that there are none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from perdure.core.contracts import AdmittedCall, Call, FileRef, Opening, RecordedTurn, Stop, ToolSpec, Usage
from perdure.core.models import OWN_KEYS
from perdure.core.transcript import Assistant, Entry, Heard, Result, Retold, Task
from perdure.providers.attachments import PDF, parts
from perdure.providers.clients import TIMEOUT, Client, Clients
from perdure.providers.errors import Failure, Vendor, classed, no_key, not_a_setting, parsed, too_long, unreadable
from perdure.providers.jsontext import count_of, dumped, object_in, objects, text_of
from perdure.providers.protocol import AskedCall, Reply

VENDOR: Final = Vendor("Anthropic", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "ANTHROPIC_BASE_URL")
DEFAULTS: Final[dict[str, Any]] = {
    "max_tokens": 16_000,  # required by the API
    "cache_control": {"type": "ephemeral"},  # each turn repeats the prompt of the one before: always worth it
}
_CUTS: Final = ("max_tokens", "stop_sequence")  # a call they end with is not whole
_TO_GO_ON: Final = ("pause_turn", "compaction")  # sent back as it is, and the model goes on
_THINKING: Final = ("thinking", "redacted_thinking")
_HEARD_END: Final = b'}],"role":"user"}'  # how every message of ours ends: keys are sorted, content is a list


class Anthropic:
    """The provider for `Opening.protocol` "anthropic"."""

    protocol = "anthropic"

    def __init__(self) -> None:
        self._clients = Clients(VENDOR, _client)

    def encode(self, entries: Sequence[Entry]) -> bytes:
        messages = (_message(entry) for entry in entries)
        return b",".join(dumped(message) for message in messages if message["content"])

    def body(self, opening: Opening, messages: bytes, *, tools: bool, sent: int = 0, run: str = "") -> bytes:
        settings = {**DEFAULTS, **opening.settings}
        if mistaken := OWN_KEYS[self.protocol] & settings.keys():
            raise not_a_setting(VENDOR, mistaken)
        request = {key: value for key, value in settings.items() if value is not None}
        request["model"] = opening.model
        mark = {"cache_control": request["cache_control"]} if "cache_control" in request else {}
        if opening.system:
            request["system"] = [{"type": "text", "text": opening.system, **mark}]
        if opening.tools:
            request["tools"] = [_tool(tool) for tool in opening.tools]
            if not tools:
                request["tool_choice"] = {"type": "none"}
            elif not opening.parallel:
                request["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        return b"".join((dumped(request)[:-1], b',"messages":[', *_marked(messages, sent, mark), b"]}"))

    async def post(self, body: bytes) -> bytes:
        return await self._clients.post("/v1/messages", body)

    async def close(self) -> None:
        await self._clients.close()

    def read(self, answer: bytes, opening: Opening) -> Reply:
        said = _said(answer)
        blocks = objects(said["content"])
        calls = tuple(_asked(block) for block in blocks if block.get("type") == "tool_use")
        if said["stop_reason"] in _CUTS and calls and blocks[-1].get("type") == "tool_use":
            calls = (*calls[:-1], replace(calls[-1], whole=False))
        text = "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
        stop = _stop(said["stop_reason"], bool(calls), bool(text.strip()))
        words = {Stop.ANSWER: text, Stop.CUT: text, Stop.REFUSED: text or _explanation(said)}
        return Reply(
            stop=stop,
            message=said["content"],
            calls=calls if stop is Stop.CALLS else (),
            answer=words.get(stop, ""),
            usage=_usage(said.get("usage")),
            model=text_of(said.get("model")),
        )


def _client() -> Client:
    import anthropic  # importing takes long, and a worker may never need this vendor

    client = anthropic.AsyncAnthropic(max_retries=0, timeout=TIMEOUT)
    if client.api_key is None and client.auth_token is None and client.credentials is None:
        raise no_key(VENDOR)
    return client


# --- encode -----------------------------------------------------------------------------------------------------------


def _message(entry: Entry) -> dict[str, Any]:
    match entry:
        case Task(text, files):
            return {"role": "user", "content": [_text(text), *parts(files, _text, _media)]}
        case Assistant(turn):
            return {"role": "assistant", "content": _sent_back(turn)}
        case Retold(text, calls):
            texts = [_text(text)] if text.strip() else []
            return {"role": "assistant", "content": [*texts, *map(_retold_call, calls)]}
        case Heard(results, notes):  # the API takes results only in front
            return {"role": "user", "content": [*map(_result, results), *map(_text, notes)]}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _media(file: FileRef) -> dict[str, Any]:
    source = {"type": "base64", "media_type": file.media_type, "data": file.data}
    if file.media_type == PDF:
        return {"type": "document", "title": file.name, "source": source}
    return {"type": "image", "source": source}


def _retold_call(call: AdmittedCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": object_in(call.arguments) or {}}


def _result(result: Result) -> dict[str, Any]:
    content = [_text(result.text), *parts(result.files, _text, _media)] if result.files else result.text
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    return {**block, "is_error": True} if result.is_error else block


def _sent_back(turn: RecordedTurn) -> list[Any]:
    blocks = [block for block in turn.message or [] if not _empty(block)]
    if turn.stop is not Stop.PAUSED:
        while blocks and blocks[-1].get("type") in _THINKING:
            blocks.pop()
    calls = iter(turn.calls)
    return [_admitted(block, next(calls, None)) if block.get("type") == "tool_use" else block for block in blocks]


def _empty(block: Any) -> bool:
    return not isinstance(block, dict) or (block.get("type") == "text" and not text_of(block.get("text")).strip())


def _admitted(block: dict[str, Any], call: Call | None) -> dict[str, Any]:
    """A call under the id and name it was admitted with, with an object for input; the block itself if it has all."""
    if call is not None and (block.get("id"), block.get("name")) != (call.id, call.name):
        block = {**block, "id": call.id, "name": call.name}
    given = block.get("input")
    if isinstance(given, dict):
        return block
    return {**block, "input": object_in(given) or {}}


# --- body -------------------------------------------------------------------------------------------------------------


def _tool(tool: ToolSpec) -> dict[str, Any]:
    sent = {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
    return {**sent, "strict": True} if tool.strict else sent


def _marked(messages: bytes, sent: int, mark: dict[str, Any]) -> Iterator[bytes | memoryview]:
    """The messages, with a breakpoint on the block that the request before this one ended with.

    Only where that is one of ours: a paused turn of the model's own may end in a block that takes none.
    """
    place = sent - len(_HEARD_END)
    if not mark or place < 0 or messages[place:sent] != _HEARD_END:
        yield messages
        return
    view = memoryview(messages)
    yield from (view[:place], b"," + dumped(mark)[1:-1], view[place:])


# --- read -------------------------------------------------------------------------------------------------------------


def _said(answer: bytes) -> dict[str, Any]:
    """The message, if the answer is one that ended."""
    broken = partial(unreadable, VENDOR, answer=answer)
    said = parsed(answer, VENDOR)
    if said.get("type") == "error":
        raise classed(_failure(said), VENDOR)
    if not isinstance(said.get("content"), list | None) or "content" not in said:
        raise broken("no content")
    if said.get("stop_reason") is None:
        raise broken("no stop_reason, so it was cut")
    if said["stop_reason"] == "model_context_window_exceeded":
        raise too_long(VENDOR)
    return said


def _failure(said: dict[str, Any]) -> Failure:
    told = said.get("error")
    told = told if isinstance(told, dict) else {"message": told}
    return Failure(
        200,
        type=text_of(told.get("type")),
        message=text_of(told.get("message")),
        request_id=text_of(said.get("request_id")),
    )


def _asked(block: dict[str, Any]) -> AskedCall:
    given = block.get("input")
    arguments = given if isinstance(given, str) else "" if given is None else dumped(given).decode()
    return AskedCall(text_of(block.get("id")), text_of(block.get("name")), arguments)


def _stop(reason: str, calls: bool, text: bool) -> Stop:
    if reason == "refusal":
        return Stop.REFUSED
    if calls:
        return Stop.CALLS
    if reason in _TO_GO_ON:
        return Stop.PAUSED
    if reason == "max_tokens":
        return Stop.CUT
    return Stop.ANSWER if text else Stop.BLANK


def _explanation(said: dict[str, Any]) -> str:
    """Why the vendor's policy ended the message, where it says so."""
    details = said.get("stop_details")
    return text_of(details.get("explanation")) if isinstance(details, dict) else ""


def _usage(counts: Any) -> Usage:
    cached = count_of(counts, "cache_read_input_tokens")
    written = count_of(counts, "cache_creation_input_tokens")
    return Usage(
        input=count_of(counts, "input_tokens") + cached + written,
        cached=cached,
        cache_written=written,
        output=count_of(counts, "output_tokens"),
        reasoning=count_of(counts, "output_tokens_details", "thinking_tokens"),
    )
