"""Deciding: what is shown is what is decided on, and the operator learns what came of it."""

import json
from collections.abc import Awaitable, Callable

import pytest

from perdure.console import exits
from perdure.console.prompting import answered
from perdure.core.contracts import Choice, Effect, RequestKind
from perdure.testing.histories import History, call
from perdure.testing.runs import InMemoryRuns
from tests.console.conftest import Console


@pytest.fixture
def waiting(console: Console) -> Console:
    console("start", "leave_desk", "Book 3 days.", "--id", "leave-17")
    return console


def test_approving_shows_the_call_and_returns_what_came_of_it(waiting: Console) -> None:
    done = waiting("approve", "a1b2", "--reason", "fine")
    assert done.exit_code == exits.DONE
    assert 'book_leave {"days":3,"from":"2026-12-14"}' in done.stderr
    assert "approve  a1b2c3d4 by ann (unverified)" in done.stdout
    assert '{"booking": "LV-1042"}' in done.stdout


def test_a_decision_says_who_made_it(waiting: Console) -> None:
    waiting("approve", "a1b2", "--by", "bob", "--reason", "fine")
    assert "approve by bob (unverified)" in waiting("trace", "leave-17").stdout


def test_the_same_decision_again_is_harmless_and_says_so(waiting: Console) -> None:
    waiting("approve", "a1b2c3d4")
    again = waiting("approve", "a1b2c3d4")
    assert again.exit_code == exits.DONE
    assert "nothing changed" in again.stdout


def test_another_decision_comes_too_late_and_learns_who_was_first(waiting: Console) -> None:
    waiting("approve", "a1b2c3d4")
    late = waiting("reject", "a1b2c3d4")
    assert late.exit_code == exits.NOT_TAKEN
    assert "approve by 'ann'" in late.stderr


def test_a_rejection_carries_its_reason_to_the_model(waiting: Console) -> None:
    assert waiting("reject", "a1b2c3d4", "--reason", "wrong days").exit_code == exits.DONE
    told = waiting("trace", "leave-17").stdout
    assert "reject by ann" in told
    assert "rejected not run: an operator rejected this call: 'wrong days'" in told


def test_a_decision_as_json_holds_the_call_and_its_observation(waiting: Console) -> None:
    told = json.loads(waiting("approve", "a1b2c3d4", "-o", "json").stdout)
    assert (told["choice"], told["by"], told["again"]) == ("approve", "ann", False)
    assert told["call"]["observation"] == '{"booking": "LV-1042"}'


def test_nobody_approves_bytes_other_than_those_that_wait(console: Console) -> None:
    """A record whose arguments are not those that the request names the digest of."""
    history = History("forged-1")
    history.open()
    forged = call("pay", {"amount": 5}, ask="it acts", effect=Effect.ONCE).model_copy(
        update={"arguments": '{"amount":9}'}
    )
    history.think("Pay.", calls=[forged])
    history.ask(call=0, reason="it acts", request_id="f0f0f0f0")
    console.world.port = InMemoryRuns([history])
    assert console("approve", "f0f0").exit_code == exits.NOT_TAKEN
    assert history.requests


def test_a_lost_outcome_is_answered_with_its_result(console: Console) -> None:
    console("start", "lost", "Pay.", "--id", "pay-1")
    assert console("answer", "1057", "happened").exit_code == exits.USAGE
    assert console("answer", "1057", "happened", "--result", "receipt 9").exit_code == exits.DONE
    assert "Paid: receipt 9" in console("show", "pay-1").stdout


def test_a_stuck_run_goes_on_once_somebody_mended_it(console: Console) -> None:
    console("start", "stuck", "Hello.", "--id", "hello-1")
    assert console("answer", "57ac", "retry").exit_code == exits.DONE
    assert "answered   Hello." in console("show", "hello-1").stdout


def test_a_choice_that_does_not_fit_is_told_what_fits(console: Console) -> None:
    console("start", "stuck", "Hello.", "--id", "hello-1")
    done = console("approve", "57ac")
    assert done.exit_code == exits.NOT_TAKEN
    assert "`perdure answer 57ac0000 retry` or `perdure answer 57ac0000 stop`" in done.stderr


def test_a_request_nobody_knows_is_not_found(console: Console) -> None:
    assert console("approve", "ffff").exit_code == exits.NOT_FOUND


def test_cancelling_keeps_the_reason(waiting: Console) -> None:
    assert waiting("cancel", "leave", "--reason", "booked by phone").exit_code == exits.DONE
    told = waiting("watch", "leave-17")
    assert told.exit_code == exits.CANCELLED
    assert "booked by phone" in told.stdout


def test_cancelling_keeps_whose_word_it_was(waiting: Console) -> None:
    assert waiting("cancel", "leave", "--by", "ann").exit_code == exits.DONE
    assert "asked by ann" in waiting("trace", "leave-17").stdout


def test_what_has_ended_cannot_be_cancelled(waiting: Console) -> None:
    waiting("approve", "a1b2c3d4")
    assert waiting("cancel", "leave-17").exit_code == exits.NOT_TAKEN


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["y"], (Choice.APPROVE, "")),
        (["YES\n"], (Choice.APPROVE, "")),
        (["n"], (Choice.REJECT, "")),
        (["No"], (Choice.REJECT, "")),
        ([""], (None, "")),
        (["ok", "n", "y"], (Choice.APPROVE, "")),
        (["approve", "", ""], (None, "")),
        (["wrong days", "y"], (Choice.REJECT, "wrong days")),
        (["n wrong days", "YES"], (Choice.REJECT, "wrong days")),
        (["no problem", "no", "y"], (Choice.APPROVE, "")),
        (["yes but later", "y"], (Choice.REJECT, "yes but later")),
    ],
)
async def test_only_a_plain_yes_or_no_decides_at_the_prompt(typed: list[str], meant: tuple[Choice | None, str]) -> None:
    assert await answered(RequestKind.APPROVAL, keyboard(typed)) == meant
    assert not typed


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["Retry the key is new"], (Choice.RETRY, "the key is new")),
        (["y", "stop"], (Choice.STOP, "")),
        (["yes", ""], (None, "")),
    ],
)
async def test_a_word_that_is_no_choice_is_asked_again(typed: list[str], meant: tuple[Choice | None, str]) -> None:
    assert await answered(RequestKind.STUCK, keyboard(typed)) == meant


def keyboard(typed: list[str]) -> Callable[[str], Awaitable[str]]:
    async def ask(prompt: str) -> str:
        return typed.pop(0)

    return ask


DECIDING = [("approve", "{}"), ("reject", "{}"), ("answer", "{}", "retry"), ("answer", "{}", "give_up")]


@pytest.mark.parametrize("words", DECIDING, ids=lambda words: words[0] + words[-1])
@pytest.mark.parametrize("id", ["", " ", "a", "a1b"])
def test_an_id_too_short_to_mean_one_thing_decides_nothing(waiting: Console, words: tuple[str, ...], id: str) -> None:
    done = waiting(*(word.format(id) for word in words))
    assert done.exit_code == exits.USAGE
    [row] = json.loads(waiting("list", "-o", "json").stdout)
    assert [request["id"] for request in row["requests"]] == ["a1b2c3d4"]


@pytest.mark.parametrize("more", [("--reason", "x" * 4_001), ("--by", "x" * 201)], ids=["reason", "by"])
def test_words_too_long_to_be_recorded_are_a_usage_error(waiting: Console, more: tuple[str, str]) -> None:
    done = waiting("approve", "a1b2c3d4", *more)
    assert done.exit_code == exits.USAGE
    assert "characters" in done.stderr
    assert "ValidationError" not in done.output


def test_an_approved_call_that_its_worker_does_not_have_says_what_waits_now(console: Console) -> None:
    console("start", "dropped_tool", "Pay.", "--id", "pay-1")
    done = console("approve", "d00d0000")
    assert done.exit_code == exits.WAITING
    assert "waits    stuck: 57ac1111 (this worker has no tool 'pay')" in done.stdout
    assert "perdure answer 57ac1111 retry" in done.stdout
    assert "unknown" not in done.stdout


def test_an_approved_call_that_is_lost_says_that_its_outcome_is_asked(console: Console) -> None:
    console("start", "lost_after", "Pay.", "--id", "pay-1")
    done = console("approve", "d00d0000")
    assert done.exit_code == exits.WAITING
    assert "unknown outcome: 10570000 (activity Heartbeat timeout)" in done.stdout
    told = console("trace", "pay-1").stdout
    places = [told.index(word) for word in ("decided  approve", "  sent  ", "unknown  activity", "request 10570000")]
    assert places == sorted(places)


def test_a_retry_says_that_the_run_goes_on_and_with_which_turn(console: Console) -> None:
    console("start", "stuck", "Hello.", "--id", "hello-1")
    done = console("answer", "57ac", "retry")
    assert done.exit_code == exits.DONE
    assert "run      goes on: turn 1" in done.stdout


def test_a_retry_in_vain_says_what_waits_now(console: Console) -> None:
    console("start", "still_stuck", "Hello.", "--id", "hello-1")
    done = console("answer", "57ac0000", "retry")
    assert done.exit_code == exits.WAITING
    assert "stuck again: 57ac2222 (same reason)" in done.stdout
    assert "perdure answer 57ac2222 retry" in done.stdout
    told = json.loads(console("answer", "57ac2222", "retry", "-o", "json").stdout)
    assert (told["came"], told["asks"]["id"]) == ("asks", "57ac3333")


def test_a_stop_says_how_the_run_ended_and_show_keeps_why(console: Console) -> None:
    console("start", "still_stuck", "Hello.", "--id", "hello-1")
    done = console("answer", "57ac0000", "stop", "--reason", "no longer needed")
    assert done.exit_code == exits.DONE
    assert "run      ended as failed: stopped by 'ann'\n" in done.stdout
    told = console("show", "hello-1").stdout
    assert "stop by ann" in told
    assert "no longer needed" in told
    assert told.count("the key is revoked") == 1
    assert "NeedsPerson" not in told
    assert "Stopped:" not in told


@pytest.mark.parametrize("verb", ["show", "trace", "watch", "cancel"])
def test_an_empty_id_names_no_run(waiting: Console, verb: str) -> None:
    assert waiting(verb, "").exit_code == exits.USAGE


def test_cancelling_as_json_names_the_run(waiting: Console) -> None:
    told = json.loads(waiting("cancel", "leave", "--reason", "by phone", "-o", "json").stdout)
    assert told == {"run_id": "leave-17", "asked": "cancel", "reason": "by phone"}


def test_a_long_name_of_an_operator_is_cut_to_what_is_recorded(
    waiting: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_OPERATOR", "x" * 500)
    told = json.loads(waiting("approve", "a1b2c3d4", "-o", "json").stdout)
    assert told["by"] == "x" * 200


def test_a_budget_that_is_spent_waits_with_the_commands_that_answer_it(console: Console) -> None:
    console("start", "spent", "What was paid?", "--id", "paid-1")
    told = console("inbox").stdout
    assert "11111700  limit" in told
    assert "why      the budget of 1 turn is spent" in told
    assert "perdure answer 11111700 extend" in told
    assert "perdure answer 11111700 finish" in told
    assert "limit: the budget of 1 turn is spent [11111700]" in console("list").stdout


def test_extended_the_run_goes_on_and_the_trace_says_who_gave_more(console: Console) -> None:
    console("start", "spent", "What was paid?", "--id", "paid-1")
    waits = console("trace", "paid-1").stdout
    assert waits.index("turn 1") < waits.index("waits    request 11111700")
    done = console("answer", "11111700", "extend")
    assert (done.exit_code, "goes on: turn 2" in done.stdout) == (exits.DONE, True)
    told = console("trace", "paid-1").stdout
    assert "extend by ann" in told
    assert "2 of 12 turns, its budget extended;" in told


def test_finished_the_run_ends_limited_and_the_verb_did_what_it_says(console: Console) -> None:
    console("start", "spent", "What was paid?", "--id", "paid-1")
    done = console("answer", "11111700", "finish")
    assert done.exit_code == exits.DONE
    assert "ended as limited: the budget of 1 turn is spent" in done.stdout


def test_a_runs_id_is_no_request_and_the_next_command_is_told(waiting: Console) -> None:
    done = waiting("approve", "leave-17")
    assert done.exit_code == exits.NOT_FOUND
    assert "'leave-17' is a run" in done.stderr
    assert "`perdure show leave-17` shows what waits in it" in done.stderr
    assert "under 'nobody'" in waiting("approve", "nobody").stderr


def test_a_run_that_goes_on_after_a_decision_can_be_followed(waiting: Console) -> None:
    assert "perdure watch leave-17" in waiting("approve", "a1b2c3d4", "--no-wait").stderr


def test_a_run_that_ended_with_the_decision_is_not_followed(console: Console) -> None:
    console("start", "spent", "What was paid?", "--id", "paid-1")
    assert "perdure watch" not in console("answer", "11111700", "finish").stderr


def test_a_word_that_does_not_answer_names_the_commands_that_do(waiting: Console) -> None:
    done = waiting("answer", "a1b2c3d4", "approve")
    assert done.exit_code == exits.USAGE
    assert "perdure approve a1b2c3d4" in " ".join(done.stderr.replace("│", " ").split())


def test_an_outcome_that_is_given_up_is_said_to_be_known_to_nobody(console: Console) -> None:
    console("start", "given_up", "Pay.", "--id", "pay-1")
    assert "unknown  nobody knows; the model is told so" in console("answer", "10570001", "give_up").stdout
