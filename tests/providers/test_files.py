"""Files in messages: as each vendor takes them, by its SDK's own types and by the strict server's rules."""

import base64
import json
from typing import Any

import pytest

from perdure.core.contracts import FileRef
from perdure.core.transcript import Heard, Result, Task
from perdure.files import File, checked
from perdure.providers import PROTOCOLS, provider
from perdure.testing import Seen, call, say
from tests.samples import CSV, TAKEN, pdf, png

protocols = pytest.mark.parametrize("protocol", PROTOCOLS)
MEDIA = {kind: content for kind, content in TAKEN.items() if not kind.startswith("text/")}


def loaded(name: str, content: bytes) -> FileRef:
    return checked(File(name, content)).model_copy(update={"data": base64.b64encode(content).decode()})


@protocols
async def test_files_of_the_task_and_of_tools_reach_the_model_whole(
    protocol: str, converse: Any, vendor_takes: Any
) -> None:
    def reply(seen: Seen) -> Any:
        if seen.turn == 0:
            return [call("hr_lookup", employee="ann"), call("leave_records", employee="ann")]
        return say("; ".join(f"{file.media_type} {len(file.content)}" for file in seen.files))

    conversation = converse(protocol, reply)
    conversation.entries = [Task("What is this?", tuple(loaded(f"f.{kind}", MEDIA[kind]) for kind in MEDIA))]
    asked = await conversation.turn()
    first, second = asked.calls
    conversation.entries.append(
        Heard(
            (
                Result(first.id, first.name, "seen", False, files=(loaded("label.png", png(9, 9)),)),
                Result(second.id, second.name, "seen", False, files=(loaded("slip.pdf", pdf(2)),)),
            ),
            ("and a note",),
        )
    )
    answer = (await conversation.turn()).answer
    sent = [*MEDIA.items(), ("image/png", png(9, 9)), ("application/pdf", pdf(2))]
    assert answer == "; ".join(f"{kind} {len(content)}" for kind, content in sent)
    vendor_takes(conversation)
    assert conversation.cold().startswith(conversation.encoded)


@protocols
async def test_a_text_file_is_text_marked_as_data(protocol: str, converse: Any) -> None:
    conversation = converse(protocol, lambda seen: say(f"{seen.task}|{len(seen.files)}"))
    conversation.entries = [Task("Add it up", (loaded("prices.csv", CSV.encode()),))]
    assert (await conversation.turn()).answer == "Add it up|0"
    content = conversation.messages[-1]["content"]
    assert content[-1]["text"].startswith("[file prices.csv (text/csv, 27 bytes)]\n<data-")
    assert f">\n{CSV}\n</data-" in content[-1]["text"]


@protocols
def test_a_file_that_does_not_fit_any_more_is_named(protocol: str) -> None:
    left_out = checked(File("late.png", png()))
    encoded = provider(protocol).encode([Task("look", (left_out,))])
    assert b"[file late.png (image/png, " in encoded
    assert b"is not shown" in encoded
    assert b"base64" not in encoded


@protocols
def test_every_picture_and_pdf_stands_under_a_line_that_names_it(protocol: str) -> None:
    encoded = provider(protocol).encode([Task("look", (loaded("a.png", png()), loaded("b.pdf", pdf())))])
    told = encoded.decode()
    places = [told.index(f"[file {name}") for name in ("a.png", "b.pdf")]
    contents = [told.index(base64.b64encode(content).decode()) for content in (png(), pdf())]
    assert sorted([*places, *contents]) == [places[0], contents[0], places[1], contents[1]]


@protocols
async def test_text_mode_shows_files_beside_the_observation(protocol: str, converse: Any) -> None:
    def reply(seen: Seen) -> Any:
        if seen.turn == 0:
            return say('Thought: look\nAction: hr_lookup\nAction Input: {"employee": "ann"}')
        return say(f"Final Answer: {[file.media_type for file in seen.files]}")

    conversation = converse(f"text+{protocol}", reply)
    conversation.entries = [Task("What is this?", (loaded("a.png", png()),))]
    await conversation.turn()
    result = Result("call_1_0", "hr_lookup", "seen", False, files=(loaded("b.pdf", pdf()),))
    conversation.entries.append(Heard((result,)))
    assert (await conversation.turn()).answer == "['image/png', 'application/pdf']"
    assert "Observation: seen" in json.dumps(json.loads(conversation.sent))


def test_chat_carries_a_tools_files_in_the_users_message_after_all_results() -> None:
    heard = Heard(
        (
            Result("c1", "f", "one", False, files=(loaded("a.png", png()),)),
            Result("c2", "g", "two", False),
        ),
        ("note",),
    )
    messages = json.loads(b"[" + provider("openai-chat").encode([heard]) + b"]")
    assert [each["role"] for each in messages] == ["tool", "tool", "user"]
    kinds = [part.get("text", part["type"]) for part in messages[2]["content"]]
    assert kinds == [
        "[files that the call c1 of f returned, as data]",
        f"[file a.png (image/png, {len(png())} bytes)]",
        "image_url",
        "note",
    ]
