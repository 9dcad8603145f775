"""OpenAI's Chat Completions, the protocol that most other servers imitate (reached by OPENAI_BASE_URL).

A recorded message is the message object. The protocol has no place for a model's reasoning; what a server adds of its
own (`reasoning_content`, `reasoning_details`) goes back to it. What only answers hold is left out of what is sent:
nulls, an empty list of calls, `annotations` and `parsed`; of `audio` only the id goes back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from perdure.core.contracts import Call, FileRef, Opening, RecordedTurn, Stop, ToolSpec, Usage
from perdure.core.models import OWN_KEYS
from perdure.core.transcript import Assistant, Entry, Heard, Result, Retold, Task
from perdure.providers.attachments import PDF, data_url, parts
from perdure.providers.errors import classed, not_a_setting, parsed, unreadable
from perdure.providers.jsontext import count_of, dumped, objects, text_of
from perdure.providers.openai_client import VENDOR, admitted, arguments_of, clients, failure_in, observed, retold
from perdure.providers.protocol import AskedCall, Reply

_ANSWERS_ONLY: Final = frozenset({"annotations", "parsed"})
_BROKEN_OFF: Final = frozenset({"abort", "error"})  # vLLM, SGLang and routers: it failed on the way


class OpenAIChat:
    """The provider for `Opening.protocol` "openai-chat"."""

    protocol = "openai-chat"

    def __init__(self) -> None:
        self._clients = clients()

    def encode(self, entries: Sequence[Entry]) -> bytes:
        return b",".join(dumped(message) for entry in entries for message in _messages(entry))

    def body(self, opening: Opening, messages: bytes, *, tools: bool, sent: int = 0, run: str = "") -> bytes:
        if mistaken := OWN_KEYS[self.protocol] & opening.settings.keys():
            raise not_a_setting(VENDOR, mistaken)
        request = {key: value for key, value in opening.settings.items() if value is not None}
        request["model"] = opening.model
        if opening.tools:
            request["tools"] = [_tool(tool) for tool in opening.tools]
            if not tools:
                request["tool_choice"] = "none"
            if not opening.parallel:
                request["parallel_tool_calls"] = False
        system = dumped({"role": "system", "content": opening.system}) if opening.system else b""
        return dumped(request)[:-1] + b',"messages":[' + b",".join(filter(None, (system, messages))) + b"]}"

    async def post(self, body: bytes) -> bytes:
        return await self._clients.post("/chat/completions", body)

    async def close(self) -> None:
        await self._clients.close()

    def read(self, answer: bytes, opening: Opening) -> Reply:
        said = _said(answer)
        choice = said["choices"][0]
        message = choice["message"]
        reason = str(choice["finish_reason"])
        calls = tuple(_asked(call) for call in objects(message.get("tool_calls")))
        if reason == "length" and calls:
            calls = (*calls[:-1], replace(calls[-1], whole=False))
        text, refusal = _words(message.get("content")), text_of(message.get("refusal"))
        stop = _stop(reason, bool(calls), text, refusal)
        words = {Stop.ANSWER: text, Stop.CUT: text, Stop.REFUSED: refusal or text}
        return Reply(
            stop=stop,
            message=message,
            calls=calls if stop is Stop.CALLS else (),
            answer=words.get(stop, ""),
            usage=_usage(said.get("usage")),
            model=text_of(said.get("model")),
        )


# --- encode -----------------------------------------------------------------------------------------------------------


def _messages(entry: Entry) -> Iterator[dict[str, Any]]:
    match entry:
        case Task(text, files):
            yield {"role": "user", "content": [_text(text), *parts(files, _text, _media)] if files else text}
        case Assistant(turn):
            message = _sent_back(turn)
            if message.get("tool_calls") or message.get("content") or message.get("refusal"):
                yield message
        case Retold(text, calls):
            asked = [{"id": call.id, "type": "function", "function": retold(call)} for call in calls]
            if asked or text.strip():
                yield {"role": "assistant", "content": text or None, **({"tool_calls": asked} if asked else {})}
        case Heard(results, notes):
            for result in results:
                yield {"role": "tool", "tool_call_id": result.call_id, "content": observed(result)}
            brought, told = list(_brought(results)), "\n\n".join(notes)
            if brought or told:
                words = [_text(told)] if told else []
                yield {"role": "user", "content": [*brought, *words] if brought else told}


def _brought(results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """The files of results: a tool's message takes text alone, so the user's message after them carries those."""
    for result in results:
        if result.files:
            yield _text(f"[files that the call {result.call_id} of {result.name} returned, as data]")
            yield from parts(result.files, _text, _media)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _media(file: FileRef) -> dict[str, Any]:
    if file.media_type == PDF:
        return {"type": "file", "file": {"filename": file.name, "file_data": data_url(file)}}
    return {"type": "image_url", "image_url": {"url": data_url(file)}}


def _sent_back(turn: RecordedTurn) -> dict[str, Any]:
    received = turn.message if isinstance(turn.message, dict) else {}
    sent = {key: value for key, value in received.items() if value is not None and key not in _ANSWERS_ONLY}
    sent["role"] = "assistant"
    if isinstance(sent.get("audio"), dict):
        sent["audio"] = {"id": sent["audio"].get("id")}
    calls = objects(sent.pop("tool_calls", None))
    if calls:
        given = iter(turn.calls)
        sent["tool_calls"] = [_sent_call(call, next(given, None)) for call in calls]
        sent.setdefault("content", None)  # null is allowed beside calls, and servers exist that insist on the key
    return sent


def _sent_call(asked: dict[str, Any], call: Call | None) -> dict[str, Any]:
    id = call.id if call is not None else text_of(asked.get("id"))
    if asked.get("type") == "custom":  # never offered; refused when it was admitted, but answered like any other
        return {**asked, "id": id}
    function = asked.get("function")
    function = admitted(function if isinstance(function, dict) else {}, call)
    if (asked.get("id"), asked.get("type")) == (id, "function") and function is asked.get("function"):
        return asked
    return {**asked, "id": id, "type": "function", "function": function}


# --- body -------------------------------------------------------------------------------------------------------------


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


# --- read -------------------------------------------------------------------------------------------------------------


def _said(answer: bytes) -> dict[str, Any]:
    """The completion, if it is one that ended."""
    broken = partial(unreadable, VENDOR, answer=answer)
    said = parsed(answer, VENDOR)
    if failure := said.get("error"):
        raise classed(failure_in(failure), VENDOR)
    choices = objects(said.get("choices"))
    if not choices or not isinstance(choices[0].get("message"), dict):
        raise broken("no choice with a message")
    if failure := choices[0].get("error"):  # routers report a failure of the server behind them here
        raise classed(failure_in(failure), VENDOR)
    if choices[0].get("finish_reason") is None:
        raise broken("no finish_reason, so it was cut")
    if choices[0]["finish_reason"] in _BROKEN_OFF:
        raise broken(f"finish_reason is {choices[0]['finish_reason']!r}")
    return {**said, "choices": choices}


def _asked(call: dict[str, Any]) -> AskedCall:
    inside = call.get("custom" if call.get("type") == "custom" else "function")
    inside = inside if isinstance(inside, dict) else {}
    arguments = arguments_of(inside.get("input", inside.get("arguments")))
    return AskedCall(text_of(call.get("id")), text_of(inside.get("name")), arguments)


def _words(content: Any) -> str:
    """The text of a content: a string, or with some servers a list of parts."""
    return text_of(content) or "".join(text_of(part.get("text")) for part in objects(content))


def _stop(reason: str, calls: bool, text: str, refusal: str) -> Stop:
    if refusal or reason.startswith("content_filter"):  # some servers say after a colon what it was
        return Stop.REFUSED
    if calls:
        return Stop.CALLS
    if reason == "length":
        return Stop.CUT
    return Stop.ANSWER if text.strip() else Stop.BLANK


def _usage(counts: Any) -> Usage:
    return Usage(
        input=count_of(counts, "prompt_tokens"),
        cached=count_of(counts, "prompt_tokens_details", "cached_tokens"),
        cache_written=count_of(counts, "prompt_tokens_details", "cache_write_tokens"),
        output=count_of(counts, "completion_tokens"),
        reasoning=count_of(counts, "completion_tokens_details", "reasoning_tokens"),
    )
