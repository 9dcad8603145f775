"""`play`: a test of an agent in a few lines, by which it is itself tested here."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Budget, ToolContext, tool
from perdure.core.contracts import Choice, Request, RunState
from perdure.testing import (
    PlayError,
    RefusedRequestError,
    Script,
    ScriptError,
    UnexpectedWaitError,
    call,
    error,
    ground,
    play,
    raw,
    say,
    think,
)

pytestmark = pytest.mark.slow


MODELS = ["anthropic:claude-opus-5-5", "openai:gpt-6.2-sol", "openai-chat:gpt-6-luna"]
BOOKED = "booked 3 days for ann"


@pytest.fixture(scope="module", autouse=True)
def _server_ends_with_this_file() -> Iterator[None]:
    yield
    asyncio.run(ground.end_server())


@tool(effect="read")
def days_left(employee: str) -> int:
    """Look up how many days of holiday an employee has left."""
    return 7


@tool(effect="idempotent")
def book_leave(ctx: ToolContext, employee: str, days: int) -> str:
    """Book days of holiday."""
    return f"booked {days} days for {employee}"


@tool(effect="once", ask=False)
def post_letter(employee: str) -> str:
    """Post a letter."""
    raise ConnectionError("the line went dead")


@tool(effect="read", timeout=300)
async def wait_for_ever() -> str:
    """Wait."""
    await asyncio.sleep(3600)
    return "never"


def desk(model: str = MODELS[0], **more: Any) -> Agent:
    tools = [days_left, book_leave, post_letter, wait_for_ever]
    return Agent("desk", model=model, instructions="You are the leave desk.", tools=tools, **more)


BOOK = [
    [think("First the balance."), call("days_left", employee="ann")],
    call("book_leave", employee="ann", days=3),
    lambda seen: say(f"Done: {seen.latest[0]}"),
]


# --- to the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
async def test_a_run_is_played_to_its_answer_on_every_protocol(model: str) -> None:
    played = await play(desk(model), BOOK, "Book 3 days for ann", approve=True)

    assert (played.outcome.state, played.outcome.answer) == (RunState.ANSWERED, f"Done: {BOOKED}")
    assert played.observations == ["7", BOOKED]
    assert [(each.tool, json.loads(each.arguments)) for each in played.calls] == [
        ("days_left", {"employee": "ann"}),
        ("book_leave", {"employee": "ann", "days": 3}),
    ]
    assert BOOKED in json.dumps(played.requests[2].body)
    assert (len(played.requests), played.violations, played.trace.task) == (3, [], "Book 3 days for ann")


async def test_observations_are_what_the_model_was_told_whatever_became_of_the_calls() -> None:
    told: list[str] = []

    def last(seen: Any) -> Any:
        told.extend(seen.observations)
        return say("Done.")

    asked = [call("book_leave", employee="ann", days=3), call("days_left", employe="ann"), call("nothing")]
    played = await play(desk(), [asked, last], "Try", approve=False)
    assert played.observations == told
    assert [each.state for each in played.calls] == ["rejected", "refused", "refused"]


async def test_a_rejected_call_never_runs_and_the_model_hears_why() -> None:
    played = await play(desk(), BOOK, "Book", approve=lambda request: (Choice.REJECT, "not in December"), by="ann")

    [asked] = played.trace.all_asked
    assert asked.settled is not None
    assert (asked.settled.choice, asked.settled.by) == (Choice.REJECT, "ann")
    assert (played.calls[1].state, played.calls[1].executions) == ("rejected", ())
    assert "not in December" in played.observations[1]
    assert "not in December" in json.dumps(played.requests[-1].body)


async def test_each_request_can_be_answered_in_its_own_way() -> None:
    seen: list[str] = []

    def approve(request: Request) -> bool | tuple[bool, str]:
        seen.append(request.tool)
        return True if "ann" in request.title else (False, "not for them")

    both = [call("book_leave", employee=name, days=3) for name in ("ann", "bob")]
    played = await play(desk(), [both, say("Done.")], "Book for both", approve=approve)
    assert seen == ["book_leave", "book_leave"]
    assert [each.state for each in played.calls] == ["ok", "rejected"]
    assert "not for them" in played.observations[1]


async def test_an_unknown_outcome_is_answered_with_what_came_of_it() -> None:
    script = [call("post_letter", employee="ann"), say("Posted.")]
    played = await play(desk(), script, "Post", approve=lambda request: (Choice.HAPPENED, "it is in the box"))
    assert played.outcome.state == "answered"
    assert "it is in the box" in played.observations[0]


async def test_faults_of_the_model_are_part_of_a_script() -> None:
    script = Script([[error(529, retry_after=0.01), say("Here I am.")]], model="claude-opus-5-5")
    played = await play(desk(), script, "Answer")
    assert [each.status for each in played.requests] == [529, 200]
    assert played.outcome.answer == "Here I am."


async def test_a_run_that_does_not_succeed_is_no_error_of_the_play() -> None:
    again = [call("days_left", employee="ann")] * 2
    played = await play(desk(budget=Budget(turns=1)), [*again, say("So far.")], "Look")
    assert played.outcome.state == "limited"


# --- what fails the test ----------------------------------------------------------------------------------------------


async def test_a_wait_that_nobody_expected_names_what_waits() -> None:
    with pytest.raises(UnexpectedWaitError, match=r"approval: book_leave\(.*ann.*because") as failed:
        await play(desk(), BOOK, "Book")
    [waiting] = failed.value.requests
    assert waiting.tool == "book_leave"
    assert "approve=True" in str(failed.value)


async def test_approval_of_calls_is_no_answer_to_an_unknown_outcome() -> None:
    with pytest.raises(UnexpectedWaitError, match="unknown: post_letter"):
        await play(desk(), [call("post_letter", employee="ann"), say("Posted.")], "Post", approve=True)


async def test_a_model_that_needs_a_person_is_named_as_well() -> None:
    with pytest.raises(UnexpectedWaitError, match=r"stuck: .*credit"):
        await play(desk(), [error(400, message="Your credit balance is too low")], "Answer", approve=True)


async def test_an_answer_that_does_not_fit_the_request_is_refused_with_those_that_do() -> None:
    with pytest.raises(PlayError, match=r"Choice\.HAPPENED, Choice\.RERUN, Choice\.GIVE_UP"):
        await play(desk(), [call("post_letter", employee="ann")], "Post", approve=lambda request: True)


async def test_an_error_of_the_function_that_decides_reaches_the_test() -> None:
    def approve(request: Request) -> bool:
        assert request.tool == "another", "asked about another tool"
        return True

    with pytest.raises(AssertionError, match="asked about another tool"):
        await play(desk(), BOOK, "Book", approve=approve)


@pytest.mark.parametrize("model", MODELS)
async def test_what_a_vendor_would_refuse_fails_in_the_vendors_words(model: str) -> None:
    setting = {"anthropic": "metadata", "openai": "service_tier", "openai-chat": "seed"}[model.partition(":")[0]]
    wrong = desk(model, settings={setting: ["many"]})  # not noticed when the agent is declared
    with pytest.raises(RefusedRequestError, match=rf"as the vendor would:\n.*({setting}|Input should be)") as failed:
        await play(wrong, BOOK, "Book", approve=True)
    assert failed.value.violations[0].status == 400


async def test_a_script_that_is_too_short_says_so() -> None:
    with pytest.raises(RefusedRequestError, match="turn"):
        await play(desk(), BOOK[:1], "Book")


async def test_refusals_are_looked_at_where_that_is_asked_for() -> None:
    stop = {"approve": lambda request: Choice.STOP, "strict": False}
    played = await play(desk(), BOOK[:1], "Book", **stop)
    assert played.outcome.state == "failed"
    assert [each.status for each in played.violations] == [played.requests[-1].status]


async def test_a_run_that_takes_too_long_is_cancelled_and_told_of() -> None:
    with pytest.raises(PlayError, match=r"had not ended after 2 s.*wait_for_ever\(\) \(running\)"):
        await play(desk(), [call("wait_for_ever"), say("Done.")], "Wait", within=2)


async def test_a_wrong_script_is_refused_before_anything_runs() -> None:
    with pytest.raises(ScriptError, match="empty"):
        await play(desk(), [[]], "Book")


# --- the process ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [[say("Done.")], [raw("", status=400)]], ids=["answered", "failed"])
async def test_the_environment_is_as_before(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "mine")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "mine too")
    monkeypatch.setenv("TEMPORAL_ADDRESS", "production:7233")
    monkeypatch.setenv("TEMPORAL_API_KEY", "secret")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    before = dict(os.environ)
    try:
        played = await play(desk(), script, "Answer")
        assert played.outcome.answer == "Done."
    except UnexpectedWaitError:
        assert script != [say("Done.")]
    assert dict(os.environ) == before


async def test_plays_one_after_another_share_a_server_and_nothing_else() -> None:
    first = await play(desk(), [say("One.")], "First")
    found = ground._kept
    second = await play(desk(MODELS[1]), [say("Two.")], "Second")
    assert (first.outcome.answer, second.outcome.answer) == ("One.", "Two.")
    assert (len(first.requests), len(second.requests)) == (1, 1)
    assert ground._kept is found


async def test_plays_at_once_take_turns() -> None:
    both = (play(desk(), [say(word)], "Say it") for word in ("One.", "Two."))
    assert [played.outcome.answer for played in await asyncio.gather(*both)] == ["One.", "Two."]


async def test_a_server_that_is_gone_is_replaced() -> None:
    await play(desk(), [say("Before.")], "First")
    assert ground._kept is not None
    os.kill(ground._kept.found.pid, 9)
    while ground._kept.up:  # it takes a moment to die
        await asyncio.sleep(0.01)
    assert (await play(desk(), [say("After.")], "Second")).outcome.answer == "After."


ALONE = """
import asyncio
from perdure import Agent
from perdure.testing import ground, play, say
agent = Agent("desk", model="anthropic:claude-opus-5-5", instructions="", tools=[])
print(asyncio.run(play(agent, [say("Done.")], "Answer")).outcome.answer)
print(ground._kept.found.folder, flush=True)
"""


def test_server_and_folder_end_with_the_process() -> None:
    """And no test runner is needed. The exit code is not looked at: an interpreter with temporalio may abort."""
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    answer, folder = done.stdout.split("\n")[-3:-1]
    assert answer == "Done.", done.stderr
    assert not Path(folder).exists()


SESSION = """
import atexit, pytest
from perdure import Agent
from perdure.testing import play, say
agent = Agent("desk", model="anthropic:claude-opus-5-5", instructions="", tools=[])
atexit.register(print, "all handlers ran")
@pytest.mark.parametrize("word", ["One.", "Two."])
async def test_says(word):
    assert (await play(agent, [say(word)], "Say it")).outcome.answer == EXPECTED
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected", "code", "told"),
    [
        ([], "word", 0, "2 passed"),
        ([], "'One.'", 1, "1 failed, 1 passed"),
        (["-n", "2"], "word", 0, "2 passed"),
    ],
    ids=["green", "red", "in two processes"],
)
def test_a_session_ends_with_its_own_exit_code(
    options: list[str], expected: str, code: int, told: str, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["perdure.testing.fixtures"]\n')
    (tmp_path / "test_desk.py").write_text(SESSION.replace("EXPECTED", expected))
    words = [sys.executable, "-m", "pytest", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", *options, "."]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, told in done.stdout) == (code, True), done.stdout + done.stderr
    assert options or "all handlers ran" in done.stdout


def test_nothing_that_only_speaks_to_the_model_loads_temporal() -> None:
    look = "import sys, perdure.testing.fixtures; print('temporalio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True).stdout.strip() == "False"


# --- several agents ---------------------------------------------------------------------------------------------------


def pair(model: str = MODELS[0]) -> Agent:
    clerk = Agent("clerk", model=model, instructions="You are the clerk.", tools=[book_leave])
    tools = [clerk.as_tool("Books leave. Give it who and how long.")]
    return Agent("planner", model=model, instructions="You plan.", tools=tools)


TEAM = {
    "planner": [call("clerk", task="Book 3 days for ann"), lambda seen: say(f"Done: {seen.observations[-1]}")],
    "clerk": [call("book_leave", employee="ann", days=3), lambda seen: say(seen.observations[-1])],
}


@pytest.mark.parametrize("model", [*MODELS, "text+openai-chat:llama3:8b"])
async def test_each_agent_plays_its_own_script_and_what_asks_is_decided_in_both(model: str) -> None:
    script: Any = TEAM
    if model.startswith("text+"):
        script = {
            "planner": ['Action: clerk["Book 3 days for ann"]', lambda seen: f"Final Answer: {seen.observations[-1]}"],
            "clerk": ['Action: book_leave("ann", 3)', lambda seen: f"Final Answer: {seen.observations[-1]}"],
        }
    played = await play(pair(model), script, "Book it", approve=True)
    assert played.outcome.answer.endswith(BOOKED)
    [handed] = played.calls
    assert (handed.state, handed.observation, handed.by.startswith("clerk-")) == ("ok", BOOKED, True)


async def test_a_function_of_what_is_seen_can_play_them_all() -> None:
    def script(seen: Any) -> Any:
        if "book_leave" in seen.tools:
            return TEAM["clerk"][seen.turn] if seen.turn == 0 else say("booked")
        return TEAM["planner"][0] if seen.turn == 0 else say("done")

    played = await play(pair(), script, "Book it", approve=True)
    assert played.observations == ["booked"]


async def test_what_waits_in_the_other_run_and_nobody_decides_fails_the_test() -> None:
    with pytest.raises(UnexpectedWaitError, match="book_leave"):
        await play(pair(), TEAM, "Book it")


async def test_each_agent_needs_a_script() -> None:
    with pytest.raises(ScriptError, match="give one for each of clerk, planner"):
        await play(pair(), {"planner": ["hello"]}, "Book it")
