"""Text mode: ReAct over a chat, for models that cannot call tools.

A wrapper around a provider. Tools stand in the prompt (`perdure.tools.text_prompt`), which is recorded when the run
opens, and none are declared to the vendor. What the model writes is read (`perdure.providers.react`) into one call, or
an answer, or advice; observations go to it as the user's messages. A call from here is a call like any other: admitted,
judged, gated, recorded.

The recorded message holds what was believed and nothing else, in the vendor's own form: so an observation that the
model made up is in no later request.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from perdure.core.contracts import Opening, Stop
from perdure.core.labels import TEXT_MODE
from perdure.core.transcript import Entry, Heard, Result, Retold, Task
from perdure.providers.protocol import AskedCall, Provider, Reply
from perdure.providers.react import Action, FinalAnswer, Span, parse

# At a line's beginning and with its colon: a model may think the word. The Responses API takes no stop sequence.
_OBSERVATION: Final = "\nObservation:"
_STOPS: Final = {"anthropic": "stop_sequences", "openai-chat": "stop"}
_FORM: Final = """\
Nothing of it ran. Write one action, and nothing after it:

Thought: ...
Action: the tool's name
Action Input: {"argument": "value"}

Or, when you are done:

Final Answer: ..."""
_ANSWER_NOW: Final = "Observation: no action can be taken any more. Write your final answer now, after 'Final Answer:'."
_MOST_WHY: Final = 500  # characters


class TextMode:
    """The provider for `Opening.protocol` "text+..." over the provider of the protocol that carries it."""

    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self.protocol = TEXT_MODE + inner.protocol

    def encode(self, entries: Sequence[Entry]) -> bytes:
        return self._inner.encode([told for entry in entries for told in _told(entry)])

    def body(self, opening: Opening, messages: bytes, *, tools: bool, sent: int = 0, run: str = "") -> bytes:
        stop = _STOPS.get(self._inner.protocol)
        settings = {**({stop: [_OBSERVATION]} if stop else {}), **opening.settings}
        if not tools:
            messages = b",".join(filter(None, (messages, self._inner.encode([Task(_ANSWER_NOW)]))))
        offered = opening.model_copy(update={"tools": (), "settings": settings})
        return self._inner.body(offered, messages, tools=True, sent=sent, run=run)

    async def post(self, body: bytes) -> bytes:
        return await self._inner.post(body)

    async def close(self) -> None:
        await self._inner.close()

    def read(self, answer: bytes, opening: Opening) -> Reply:
        reply = self._inner.read(answer, opening)
        text = "".join(_words(reply.message))
        if reply.stop in (Stop.REFUSED, Stop.PAUSED, Stop.BLANK):
            return reply
        cut = reply.stop is Stop.CUT
        found = parse(text, opening.tools)
        reply = replace(reply, message=_kept(reply.message, found.kept), calls=(), answer="")
        match found:
            case Action(name, arguments, ended=ended):
                call = AskedCall("", name, arguments, whole=ended or not cut)
                return replace(reply, stop=Stop.CALLS, calls=(call,))
            case FinalAnswer(said):
                return replace(reply, stop=Stop.CUT if cut else Stop.ANSWER, answer=said)
            case _ if cut:
                return reply
            case _:
                why = " ".join(found.why.split())[:_MOST_WHY]
                return replace(reply, stop=Stop.UNREAD, advice=f"Your last message could not be read: {why}.\n{_FORM}")


# --- what the model is told -------------------------------------------------------------------------------------------


def _told(entry: Entry) -> Iterator[Entry]:
    """An entry as the inner provider can say it: there are only users' texts, and the model's own words."""
    if isinstance(entry, Retold):
        actions = (f"Action: {call.name}\nAction Input: {call.arguments}" for call in entry.calls)
        thought = f"Thought: {entry.text}" if entry.calls and entry.text else entry.text
        yield Retold("\n".join(filter(None, (thought, *actions))))
        return
    if not isinstance(entry, Heard):
        yield entry
        return
    results = [_observation(result) for result in entry.results]
    notes = list(entry.notes)
    if notes and not results:
        notes[0] = f"Observation: {notes[0]}"
    if results or notes:
        files = tuple(file for result in entry.results for file in result.files)
        yield Task("\n\n".join((*results, *notes)), files)


def _observation(result: Result) -> str:
    return f"Observation: {'error: ' if result.is_error else ''}{result.text}"


# --- what is kept of a message ----------------------------------------------------------------------------------------


def _words(message: Any) -> list[str]:
    """The texts of a message, in order."""
    said: list[str] = []

    def collect(words: str) -> str:
        said.append(words)
        return words

    _changed(message, collect)
    return said


def _kept(message: Any, spans: Sequence[Span]) -> Any:
    """The message with these spans of its text, taken over all its parts."""
    at = 0

    def keep(words: str) -> str:
        nonlocal at
        start, at = at, at + len(words)
        return "".join(words[max(first - start, 0) : max(last - start, 0)] for first, last in spans)

    return _changed(message, keep)


def _changed(message: Any, change: Callable[[str], str]) -> Any:
    """A vendor's message with each of its texts changed, without those that become empty, and without calls."""
    if isinstance(message, list):  # blocks, or output items
        blocks = (_block(block, change) for block in message)
        return [block for block in blocks if block is not None]
    if not isinstance(message, dict):
        return message
    changed = {key: each for key, each in message.items() if key not in ("tool_calls", "function_call")}
    content = message.get("content")
    changed["content"] = change(content) if isinstance(content, str) else _changed(content, change)
    return changed


def _block(block: Any, change: Callable[[str], str]) -> Any:
    match block:
        case {"type": "text" | "output_text" as kind, "text": str(words)}:
            said = change(words)
            if not said or said == words:
                return block if said else None
            return {"type": kind, "text": said, **({"annotations": []} if kind == "output_text" else {})}
        case {"type": "message", "content": list()}:
            content = _changed(block["content"], change)
            return {**block, "content": content} if content else None
        case {"type": "tool_use" | "function_call" | "custom_tool_call"}:
            return None
    return block
