"""A critic as its author declares it: when, who, what it is shown, what counts as its verdict."""

from typing import Any

import pytest

from perdure import Agent, Critic
from perdure.core.contracts import AdmittedCall, FileRef, Occasion, Reviewing, Verdict
from perdure.core.transcript import Heard, Result, Retold
from perdure.tools.critics import MOST_NOTE, CriticError, approves, noted, shown


def desk(critic: Critic, **options: Any) -> Agent:
    given: dict[str, Any] = {"model": "anthropic:big", "instructions": "Refund only what was paid.", **options}
    return Agent("a", critic=critic, **given)


def test_a_critic_looks_at_answers_unless_it_is_told_otherwise() -> None:
    assert Critic().reviewing == Reviewing(answer=True, notes=3, returns=2)
    assert Critic("errors").reviewing == Reviewing(errors=True, notes=3, returns=2)
    assert Critic(when=["errors", "answer"], every=4, notes=1, returns=1).reviewing == Reviewing(
        errors=True, answer=True, every=4, notes=1, returns=1
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"when": ()}, "never asked"),
        ({"when": "always"}, "'always' is none of errors, answer"),
        ({"every": -1}, "every=-1"),
        ({"every": True}, "every=True"),
        ({"notes": 0}, "notes=0"),
        ({"returns": 1.5}, "returns=1.5"),
    ],
)
def test_a_critic_that_cannot_work_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(CriticError, match=why):
        Critic(**options)


def test_a_critics_model_says_whose_it_is() -> None:
    with pytest.raises(Exception, match="does not say whose it is"):
        desk(Critic(model="gemini:x"))


def test_who_the_critic_is_stands_in_the_opening() -> None:
    declared = Critic(model="openai:small", instructions="Look at the figures.")
    opening = desk(declared, settings={"max_tokens": 9}).opening()
    assert opening.reviewing == Reviewing(answer=True, notes=3, returns=2)
    critic = opening.critic
    assert critic is not None
    assert (critic.protocol, critic.model, critic.settings, critic.tools) == ("openai-responses", "small", {}, ())
    assert "Refund only what was paid." in critic.system
    assert critic.system.endswith("Your own\n\nLook at the figures.")
    assert "write APPROVED and nothing else" in critic.system


@pytest.mark.parametrize("model", ["anthropic:big", "text+anthropic:big"])
def test_the_agents_own_model_is_its_critic_where_none_is_named(model: str) -> None:
    critic = desk(Critic(), model=model, settings={"max_tokens": 9}).opening().critic
    assert critic is not None
    assert (critic.protocol, critic.model, critic.settings) == ("anthropic", "big", {"max_tokens": 9})


@pytest.mark.parametrize("said", ["APPROVED", "  Approved.\n", "**APPROVED**", "approved!\nFine work.", "`APPROVED`"])
def test_the_fixed_word_approves(said: str) -> None:
    assert approves(said)


@pytest.mark.parametrize(
    "said", ["", "The refund was approved.", "NOT APPROVED", "APPROVED, but name the order.", "Look.\nAPPROVED"]
)
def test_nothing_else_approves(said: str) -> None:
    assert not approves(said)


def test_a_note_is_bounded_and_says_so() -> None:
    assert noted("x" * MOST_NOTE) == "x" * MOST_NOTE
    assert len(noted("x" * 100_000)) < MOST_NOTE + 50
    assert "cut after 2,000 characters" in noted("x" * 100_000)


def test_the_work_is_shown_as_one_text_in_order() -> None:
    call = AdmittedCall(index=0, id="c", name="order", verdict=Verdict.RUN, arguments='{"n":7}')
    work = [
        Retold("I look.", (call,)),
        Heard((Result("c", "order", "<data-1>\nno such order\n</data-1>", is_error=True),), ("Be quick.",)),
        Retold("There is none."),
    ]
    text = shown("Refund order 7.", work, Occasion.ANSWER)
    parts = ["Refund order 7.", "I look.", 'order {"n":7}', "an error", "<data-1>\nno such order", "Be quick.",
             "There is none.", "meant to be its final answer"]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_files_are_named_and_not_shown() -> None:
    file = FileRef(name="invoice.pdf", media_type="application/pdf", size=9, sha256="0" * 64, data="AAAA")
    work = [Heard((Result("c", "fetch", "here", is_error=False, files=(file,)),))]
    text = shown("Pay it.", work, Occasion.ANSWER, [file])
    assert text.count("with the file 'invoice.pdf', which you are not shown") == 2
    assert "AAAA" not in text


def test_a_very_long_work_is_shown_with_its_oldest_observations_cleared() -> None:
    call = AdmittedCall(index=0, id="c", name="order", verdict=Verdict.RUN)
    heard = Heard((Result("c", "order", "x" * 60_000, is_error=False),))
    text = shown("task", [Retold("I look.", (call,)), heard] * 20, Occasion.TURNS)
    assert len(text) < 320_000
    assert "60,000 bytes were observed here" in text
