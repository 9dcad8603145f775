"""The doors before the grammar, what is recorded, and the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from perdure.testing import ScriptError
from perdure.testing.__main__ import main
from perdure.testing.script_file import FORMAT, load_scripts

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
BODY = b'{"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "go"}]}'


async def post(url: str, content: bytes = BODY, **headers: str | None) -> httpx2.Response:
    sent = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx2.AsyncClient() as client:
        kept = {name: value for name, value in sent.items() if value is not None}
        return await client.post(f"{url}/v1/messages", content=content, headers=kept)


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        ({}, BODY, 200),
        ({"x_api_key": None, "authorization": "Bearer token"}, BODY, 200),
        ({"x_api_key": None}, BODY, 401),
        ({"anthropic_version": None}, BODY, 400),
        ({"content_type": "text/plain"}, BODY, 415),
        ({}, b"{", 400),
        ({}, b"[]", 400),
        ({}, BODY.replace(b"go", b"\xff"), 400),
        ({}, BODY.replace(b"go", b"\\ud800"), 400),
        ({}, BODY.replace(b"5", b"NaN"), 400),
    ],
)
async def test_headers_and_json_are_checked_first(play: Any, headers: Any, content: bytes, status: int) -> None:
    model, _ = play(["one"])

    answer = await post(model.url, content, **headers)

    assert answer.status_code == status
    assert (answer.json()["type"] == "error") == (status != 200)


async def test_only_the_one_key_opens(play: Any) -> None:
    model, clients = play(["one"], key="right")

    with pytest.raises(anthropic.AuthenticationError):
        await clients.anthropic.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "go"}])
    with pytest.raises(openai.AuthenticationError):
        await clients.openai.responses.create(model="m", input="go")
    clients.openai.api_key = model.env()["OPENAI_API_KEY"]
    assert (await clients.openai.responses.create(model="m", input="go")).output_text == "one"


async def test_requests_are_recorded_without_their_keys(play: Any) -> None:
    model, clients = play(["one"])
    await clients.openai.responses.create(model="m", input="go")
    await post(model.url, b"{")

    first, second = model.requests
    assert (first.protocol, first.status, first.turn, first.body["input"]) == ("openai-responses", 200, 0, "go")
    assert (second.protocol, second.status, second.body) == ("anthropic", 400, None)
    assert model.violations == [second]
    assert not {"authorization", "x-api-key"} & {*first.headers, *second.headers}


async def test_the_record_is_bounded(play: Any) -> None:
    model, _ = play(["one"], record_bytes=len(BODY) * 2)
    for _ in range(5):
        await post(model.url)

    assert len(model.requests) == 2


async def test_the_environment_points_both_sdks_at_the_model(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = play(["one"])
    for name, value in model.env().items():
        monkeypatch.setenv(name, value)

    async with anthropic.AsyncAnthropic() as messages, openai.AsyncOpenAI() as responses:
        asked: Any = [{"role": "user", "content": "go"}]
        message = await messages.messages.create(model="m", max_tokens=5, messages=asked)
        assert message.to_dict()["content"][0]["text"] == "one"  # type: ignore[index]
        assert (await responses.responses.create(model="m", input="go")).output_text == "one"


def test_the_taught_example_is_a_script(tmp_path: Path) -> None:
    example = FORMAT.partition("\n\n")[2].partition("\n\n")[0]
    (tmp_path / "script.yaml").write_text(example)

    (script,) = load_scripts(tmp_path / "script.yaml")

    assert script.model == "scripted-leave"
    assert len(script.turns) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- say: 5", "turn 1, part 1: `say` has text = 5"),
        ("- call: {nam: x}", "lacks 'name'; it takes name, arguments, id, raw"),
        ("- call: {name: x, args: {}}", "has the unknown key 'args'"),
        ("- one\n- foo: 1", "turn 2, part 1: 'foo' is no part of a turn; known are say, think"),
        ("- blank: weird", "input should be 'empty', 'null' or 'text'"),
        ("- block: {a: 1}", "needs a `type`"),
        ("- []", "turn 1: a turn is empty"),
        ("a: 1", "must be a list of turns"),
        ("{turns: [], models: x}", "the unknown key 'models'"),
        ("scripts: 5", "must be a list of"),
        ("{", "neither YAML nor JSON"),
    ],
)
def test_a_wrong_file_says_where_and_what(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "script.yaml").write_text(content)

    with pytest.raises(ScriptError) as wrong:
        load_scripts(tmp_path / "script.yaml")
    assert message in str(wrong.value)
    assert "script.yaml" in str(wrong.value)


def test_a_missing_file_ends_the_command_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere.yaml"]) == 2
    assert "can't read 'nowhere.yaml'" in capsys.readouterr().err


async def test_the_command_serves_until_interrupted(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('[["one"], {"say": "two"}]')
    command = [sys.executable, "-m", "perdure.testing", str(tmp_path / "script.json"), "--model", "m"]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": os.getcwd()})
    assert serving.stdout is not None
    try:
        lines = [serving.stdout.readline().strip() for _ in range(5)]
        settings = dict(line.removeprefix("export ").split("=", 1) for line in lines[1:])
        answer = await post(settings["ANTHROPIC_BASE_URL"], x_api_key=settings["ANTHROPIC_API_KEY"])
        serving.send_signal(signal.SIGINT)

        assert answer.json()["content"][0]["text"] == "one"
        assert serving.wait(timeout=20) == 0
    finally:
        serving.kill()
        serving.stdout.close()


async def test_a_reply_ends_at_a_stop_sequence_as_with_the_vendors(play: Any) -> None:
    _, clients = play(lambda seen: "Thought: x\nObservation: y")
    user = [{"role": "user", "content": "go"}]

    message = await clients.anthropic.messages.create(
        model="m", max_tokens=5, messages=user, stop_sequences=["END", "\nObservation:"]
    )
    completion = await clients.openai.chat.completions.create(model="m", messages=user, stop="\nObservation:")

    assert (message.content[0].text, message.stop_reason) == ("Thought: x", "stop_sequence")
    assert message.stop_sequence == "\nObservation:"
    assert completion.choices[0].message.content == "Thought: x"
    assert completion.choices[0].finish_reason == "stop"


async def test_observations_told_as_text_are_seen_too(play: Any) -> None:
    _, clients = play(lambda seen: f"{list(seen.observations)} {list(seen.latest)}")
    told = "Observation: error: <data-0a1b2c>\nno\nsuch thing\n</data-0a1b2c>\n\nGo on."
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "Action: f[1]"},
        {"role": "user", "content": told},
    ]

    completion = await clients.openai.chat.completions.create(model="m", messages=messages)
    message = await clients.anthropic.messages.create(model="m", max_tokens=5, messages=messages)
    response = await clients.openai.responses.create(model="m", input=messages, store=False)

    shown = "['no\\nsuch thing'] ['no\\nsuch thing']"
    assert [completion.choices[0].message.content, message.content[0].text, response.output_text] == [shown] * 3
