"""Pictures and documents at the strict server: it refuses what a vendor refuses, and counts what they cost."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

from perdure.testing import Seen, say
from tests.samples import GIF, JPEG, WEBP, pdf, png

Part = dict[str, Any]
SCRIPT = [say("seen")]


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64(content)}"


# --- Anthropic --------------------------------------------------------------------------------------------------------


def image(kind: str, data: str) -> Part:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def document(data: str, **more: Any) -> Part:
    return {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}, **more}


async def messages(clients: Any, *parts: Part) -> Any:
    content = [{"type": "text", "text": "look"}, *parts]
    body = {"model": "any", "max_tokens": 500, "messages": [{"role": "user", "content": content}]}
    return await clients.anthropic.post("/v1/messages", body=body, cast_to=object)


@pytest.mark.parametrize(
    "part",
    [
        image("image/png", b64(png())),
        image("image/jpeg", b64(JPEG)),
        image("image/gif", b64(GIF)),
        image("image/webp", b64(WEBP)),
        image("image/png", b64(png(8_000, 10))),
        document(b64(pdf())),
        document(b64(pdf()), title="invoice.pdf"),
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hello"}},
    ],
)
async def test_anthropic_takes(play: Any, part: Part) -> None:
    model, clients = play(SCRIPT)
    assert (await messages(clients, part))["content"][0]["text"] == "seen"
    assert model.violations == []


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (image("image/png", "not base64!"), "invalid base64"),
        (image("image/png", b64(JPEG)), "does not match the provided media type"),
        (image("image/png", b64(pdf())), "does not match the provided media type"),
        (image("image/tiff", b64(png())), r"messages\.0\.content\.1\.image\.source\.base64\.media_type"),
        (image("image/png", b64(png(weight=4_000_000))), "image exceeds 5 MB maximum"),
        (image("image/png", b64(png(8_001, 10))), "max allowed size: 8000 pixels"),
        (document(b64(png())), "PDF specified was not valid"),
        (document("%%%"), "PDF specified was not valid"),
        (document(b64(pdf()), name="invoice.pdf"), "name: Extra inputs"),
        ({"type": "image"}, "source: Field required"),
        ({"type": "image", "source": {"type": "base64", "data": b64(png())}}, "media_type: Field required"),
    ],
)
async def test_anthropic_refuses(play: Any, part: Part, why: str) -> None:
    _, clients = play(SCRIPT)
    with pytest.raises(anthropic.BadRequestError, match=why):
        await messages(clients, part)


async def test_anthropic_takes_fewer_pixels_of_many_pictures(play: Any) -> None:
    _, clients = play(SCRIPT)
    wide = image("image/png", b64(png(2_001, 10)))
    await messages(clients, *[wide] * 20)
    with pytest.raises(anthropic.BadRequestError, match="many-image requests"):
        await messages(clients, *[wide] * 21)


# --- OpenAI -----------------------------------------------------------------------------------------------------------


async def responses(clients: Any, *parts: Part) -> Any:
    content = [{"type": "input_text", "text": "look"}, *parts]
    body = {"model": "any", "input": [{"role": "user", "content": content}]}
    return await clients.openai.post("/responses", body=body, cast_to=object)


async def chat(clients: Any, *parts: Part) -> Any:
    content = [{"type": "text", "text": "look"}, *parts]
    body = {"model": "any", "messages": [{"role": "user", "content": content}]}
    return await clients.openai.post("/chat/completions", body=body, cast_to=object)


@pytest.mark.parametrize(
    ("ask", "part"),
    [
        (responses, {"type": "input_image", "detail": "auto", "image_url": url("image/png", png())}),
        (responses, {"type": "input_image", "detail": "auto", "image_url": "https://example.org/a.png"}),
        (
            responses,
            {"type": "input_file", "filename": "a.pdf", "file_data": url("application/pdf", pdf())},
        ),
        (chat, {"type": "image_url", "image_url": {"url": url("image/webp", WEBP)}}),
        (chat, {"type": "file", "file": {"filename": "a.pdf", "file_data": url("application/pdf", pdf())}}),
    ],
)
async def test_openai_takes(play: Any, ask: Callable[..., Any], part: Part) -> None:
    model, clients = play(SCRIPT)
    await ask(clients, part)
    assert model.violations == []


@pytest.mark.parametrize(
    ("ask", "part", "why"),
    [
        (responses, {"type": "input_image", "image_url": url("image/tiff", png())}, "image MIME type"),
        (responses, {"type": "input_image", "image_url": url("image/jpeg", png())}, "image MIME type"),
        (responses, {"type": "input_image", "image_url": b64(png())}, "image MIME type"),
        (responses, {"type": "input_image", "image_url": "data:image/png;base64,?"}, "image MIME type"),
        (responses, {"type": "input_image"}, "exactly one of"),
        (responses, {"type": "input_file", "file_data": url("application/pdf", pdf())}, "filename"),
        (responses, {"type": "input_file", "filename": "a.pdf", "file_data": b64(pdf())}, "data URL"),
        (
            responses,
            {"type": "input_file", "filename": "a.pdf", "file_data": url("application/pdf", png())},
            "application/pdf",
        ),
        (chat, {"type": "image_url", "image_url": url("image/png", png())}, "image_url"),
        (chat, {"type": "file", "file": {"file_data": url("application/pdf", pdf())}}, "filename"),
        (
            chat,
            {"type": "file", "file": {"filename": "a.csv", "file_data": url("text/csv", b"a,b")}},
            "application/pdf",
        ),
    ],
)
async def test_openai_refuses(play: Any, ask: Callable[..., Any], part: Part, why: str) -> None:
    _, clients = play(SCRIPT)
    with pytest.raises(openai.BadRequestError, match=why):
        await ask(clients, part)


async def test_a_tools_message_in_chat_takes_text_alone(play: Any) -> None:
    _, clients = play(SCRIPT)
    asked = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    picture = {"type": "image_url", "image_url": {"url": url("image/png", png())}}
    body = {
        "model": "any",
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": "c1", "content": [picture]},
        ],
    }
    with pytest.raises(openai.BadRequestError, match="only allowed in messages with role 'user'"):
        await clients.openai.post("/chat/completions", body=body, cast_to=object)


# --- what it costs, and what a script sees ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "cost"),
    [(image("image/png", b64(png(750, 100))), 100), (document(b64(pdf(3, weight=90_000))), 4_500)],
)
async def test_what_a_file_costs_goes_by_pixels_and_pages_and_not_by_bytes(play: Any, part: Part, cost: int) -> None:
    _, clients = play([say("seen")])
    without = (await messages(clients))["usage"]["input_tokens"]
    assert cost <= (await messages(clients, part))["usage"]["input_tokens"] - without < cost + 40


async def test_a_script_sees_the_files_and_the_task_without_them(play: Any) -> None:
    def reply(seen: Seen) -> Any:
        [file] = seen.files
        return say(f"{seen.task}: {file.name} {file.media_type} {file.content == pdf()}")

    _, clients = play(reply)
    told = await messages(clients, {"type": "text", "text": "[file]"}, document(b64(pdf()), title="a.pdf"))
    assert told["content"][0]["text"] == "look: a.pdf application/pdf True"
