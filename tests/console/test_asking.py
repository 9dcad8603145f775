"""A question in the console: shown with what may be answered, answered in words, or declined."""

import json

import pytest

from perdure.console import exits
from perdure.console.prompting import answered
from perdure.core.contracts import Choice, RequestKind
from tests.console.conftest import Console


@pytest.fixture
def asked(console: Console) -> Console:
    console("start", "asking", "Pay it.", "--id", "pay-1")
    return console


def test_the_inbox_shows_the_question_and_a_command_for_each_choice(asked: Console) -> None:
    told = asked("inbox").stdout
    assert "Which account?" in told
    assert "perdure answer a5ced000 first\n" in told
    assert "perdure answer a5ced000 second\n" in told
    assert "perdure reject a5ced000" in told
    assert "question: Which account? [a5ced000]" in asked("list").stdout
    [item] = json.loads(asked("inbox", "-o", "json").stdout)
    assert (item["request"]["kind"], item["call"]["choices"]) == ("question", ["first", "second"])


def test_an_answer_is_matched_with_the_choices_whatever_its_case(asked: Console) -> None:
    done = asked("answer", "a5ce", "Second")
    assert done.exit_code == exits.DONE
    assert "From the second." in asked("show", "pay-1").stdout
    assert "answer by ann (unverified)" in asked("trace", "pay-1").stdout


def test_what_is_none_of_the_choices_is_a_wrong_usage_and_answers_nothing(asked: Console) -> None:
    done = asked("answer", "a5ce", "third")
    assert done.exit_code == exits.USAGE
    assert "'second'" in done.stderr
    assert "a5ced000" in asked("inbox").stdout


def test_a_question_is_declined_with_a_reason(asked: Console) -> None:
    assert asked("reject", "a5ce", "--reason", "ask the customer").exit_code == exits.DONE
    assert "reject by ann" in asked("trace", "pay-1").stdout


def test_a_question_is_not_approved(asked: Console) -> None:
    done = asked("approve", "a5ce")
    assert done.exit_code == exits.NOT_TAKEN
    assert "perdure answer a5ced000" in done.stderr


def test_watching_shows_the_question_and_how_it_was_answered(asked: Console) -> None:
    asked("answer", "a5ce", "first")
    told = asked("watch", "pay-1").stdout
    assert "question — Which account?" in told
    assert "answer of a5ced000 by ann (unverified): first" in told


async def test_at_a_prompt_any_words_answer_and_choices_are_kept_to() -> None:
    lines = iter(["third", "SECOND"])

    async def ask(prompt: str) -> str:
        return next(lines)

    assert await answered(RequestKind.QUESTION, ask, choices=("first", "second")) == (Choice.ANSWER, "second")


def test_an_answer_without_words_is_a_wrong_usage(console: Console) -> None:
    console("start", "wondering", "Pay it.", "--id", "pay-2")
    done = console("answer", "a5ce", "  ")
    assert done.exit_code == exits.USAGE
    assert "perdure reject a5ced001" in " ".join(done.stderr.replace("│", " ").split())
