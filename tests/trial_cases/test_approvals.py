"""C25, C29, C31 and what else one may do at the gate. With killed workers: test_killed_workers.py."""

import asyncio

import pytest

from perdure import tool
from perdure.core.contracts import Choice, RunState
from perdure.core.runs import DecisionRefusedError
from perdure.testing import call, say
from perdure.traces.events import StandingChanged


@pytest.fixture
def send(ledger):
    @tool(effect="once")
    def send(to: str) -> str:
        """Send it.

        Args:
            to: who gets it.
        """
        ledger.record(to)
        return f"sent to {to}"

    return send


async def test_c25_each_decision_lands_on_its_own_call_over_a_restart(stage, protocol, send, ledger):
    script = [[call("send", to="a"), call("send", to="b"), call("send", to="c")], say("done")]
    async with stage(script, [send], protocol=protocol) as desk:
        run_id = await desk.start()
        a, b, c = await desk.waiting(run_id, 3)
        await desk.decide(run_id, c, Choice.APPROVE)
        await desk.decide(run_id, a, Choice.REJECT, reason="wrong person")
        await desk.serve()
        [left] = await desk.waiting(run_id)
        assert left.id == b.id
        await desk.decide(run_id, b, Choice.APPROVE)
        await desk.runs.result(run_id)

        assert sorted(ledger.lines) == ["b", "c"]
        rejected, *sent = desk.texts()
        assert "wrong person" in rejected
        assert sent == ["sent to b", "sent to c"]


async def test_c27_a_free_sibling_runs_at_once_and_only_once(stage, protocol, send, ledger):
    @tool(effect="read")
    def diag() -> str:
        """Look."""
        ledger.record("diag")
        return "all red"

    async with stage([[call("diag"), call("send", to="a")], say("done")], [diag, send], protocol=protocol) as desk:
        run_id = await desk.start()
        [request] = await desk.waiting(run_id)
        while not await desk.observations(run_id):
            await asyncio.sleep(0.05)
        await desk.serve()
        await desk.decide(run_id, request, Choice.REJECT)
        await desk.runs.result(run_id)

        assert ledger.lines == ["diag"]
        looked, rejected = desk.texts()
        assert looked == "all red"
        assert "rejected" in rejected


@pytest.mark.parametrize("first", [Choice.APPROVE, Choice.REJECT])
async def test_c29_of_two_operators_the_first_wins_and_the_other_learns_who_was(stage, send, ledger, first):
    second = Choice.REJECT if first is Choice.APPROVE else Choice.APPROVE
    script = [[call("send", to="a"), call("send", to="b")], say("done")]
    async with stage(script, [send]) as desk:
        run_id = await desk.start()
        a, b = await desk.waiting(run_id, 2)
        answers = await asyncio.gather(
            desk.decide(run_id, a, first, by="ann"),
            desk.decide(run_id, a, second, by="ben"),
            return_exceptions=True,
        )
        [settled] = [each for each in answers if not isinstance(each, Exception)]
        [refused] = [each for each in answers if isinstance(each, Exception)]
        assert isinstance(refused, DecisionRefusedError)
        assert f"{settled.choice} by {settled.by!r}" in str(refused)
        assert str(settled.decided.year) in str(refused)

        again = await desk.decide(run_id, a, settled.choice, by=settled.by)
        assert again.again
        assert (again.by, again.decided) == (settled.by, settled.decided)
        await desk.serve()
        with pytest.raises(DecisionRefusedError, match=f"{settled.choice} by '{settled.by}'"):
            await desk.decide(run_id, a, second if settled.choice is first else first, by="cem")
        await desk.decide(run_id, b, Choice.REJECT)
        assert (await desk.runs.result(run_id)).state is RunState.ANSWERED
        assert ledger.lines == (["a"] if settled.choice is Choice.APPROVE else [])


async def test_c29_a_decision_under_the_same_id_twice_has_one_effect(stage, send, ledger):
    async with stage([call("send", to="a"), say("done")], [send]) as desk:
        run_id = await desk.start()
        [a] = await desk.waiting(run_id)
        await asyncio.gather(*(desk.decide_by_signal(run_id, a, Choice.APPROVE, id="click") for _ in range(3)))
        await desk.runs.result(run_id)

        assert ledger.lines == ["a"]


async def test_c31_the_model_learns_who_refused_why_and_that_nothing_ran(stage, protocol, send, ledger):
    script = [[call("send", to="1"), call("send", to="2"), call("send", to="3")], say("done")]
    async with stage(script, [send], protocol=protocol) as desk:
        run_id = await desk.start()
        one, two, three = await desk.waiting(run_id, 3)
        await desk.decide(run_id, three, Choice.REJECT, reason="no")
        await desk.decide(run_id, two, Choice.REJECT, reason="wrong account, use 42")
        await desk.decide(run_id, one, Choice.REJECT)
        await desk.runs.result(run_id)

        assert ledger.lines == []
        texts = desk.texts()
        assert all("not run" in text and "operator (ann) rejected" in text for text in texts)
        assert "words" not in texts[0]
        assert "The operator's words: 'wrong account, use 42'" in texts[1]
        assert "The operator's words: 'no'" in texts[2]


async def test_an_approval_of_other_bytes_is_refused(stage, send, ledger):
    async with stage([call("send", to="a"), say("done")], [send]) as desk:
        run_id = await desk.start()
        [a] = await desk.waiting(run_id)
        with pytest.raises(DecisionRefusedError, match="is not what waits"):
            await desk.decide(run_id, a, Choice.APPROVE, digest="0" * 64)
        with pytest.raises(DecisionRefusedError, match="does not answer"):
            await desk.decide(run_id, a, Choice.RETRY)
        assert [each.id for each in await desk.waiting(run_id)] == [a.id]
        await desk.decide(run_id, a, Choice.REJECT)
        await desk.runs.result(run_id)

        assert ledger.lines == []


async def test_what_waits_is_told_in_the_order_of_the_calls(stage, send):
    names = "abcdefgh"
    async with stage([[call("send", to=name) for name in names], say("done")], [send]) as desk:
        run_id = await desk.start()
        await desk.waiting(run_id, len(names))
        told = [
            event.standing.requests for event in await desk.runs.events(run_id) if isinstance(event, StandingChanged)
        ]
        assert [request.call for request in told[-1]] == list(range(len(names)))
        for request in told[-1]:
            await desk.decide(run_id, request, Choice.REJECT)
        await desk.runs.result(run_id)
