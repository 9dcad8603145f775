"""C59: no secret in history, memo, trace, logs or errors."""

import asyncio

from perdure import tool
from perdure.core.contracts import Choice, RunState
from perdure.testing import call, error, say

SENTINEL = "sk-SENTINEL-0123456789abcdef"


async def test_c59_a_key_that_errors_echo_is_found_nowhere(stage, protocol, monkeypatch, capfd):
    @tool(effect="read")
    def fetch() -> str:
        """Fetch."""
        raise RuntimeError(f"request was: GET /x Authorization: Bearer {SENTINEL}")

    @tool(effect="once")
    def send(note: str) -> str:
        """Send it.

        Args:
            note: what.
        """
        raise TimeoutError(f"sent with {SENTINEL}, no answer")

    echo = f"bad request, you sent x-api-key: {SENTINEL} / Bearer {SENTINEL}"
    script = [
        [error(500, message=echo), call("fetch")],
        [error(401, message=echo), call("send", note="n")],
        say("done"),
    ]
    async with stage(script, [fetch, send], protocol=protocol) as desk:
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
            monkeypatch.setenv(name, SENTINEL)
        run_id = await desk.start()
        [stuck] = await desk.waiting(run_id)
        await desk.decide(run_id, stuck, Choice.RETRY)
        while not (gated := [r for r in await desk.waiting(run_id) if r.kind == "approval"]):
            await asyncio.sleep(0.05)
        await desk.decide(run_id, gated[0], Choice.APPROVE)
        while not (unknown := [r for r in await desk.waiting(run_id) if r.kind == "unknown"]):
            await asyncio.sleep(0.05)
        await desk.decide(run_id, unknown[0], Choice.GIVE_UP)
        outcome = await desk.runs.result(run_id)

        assert outcome.state is RunState.ANSWERED
        seen = [
            await desk.runs.history_json(run_id),
            repr(await desk.runs.events(run_id)),
            repr(await desk.runs.find(run_id)),
            repr(unknown),
            repr(stuck),
            *("" if each.body is None else str(each.body) for each in desk.model.requests),
        ]
        printed = capfd.readouterr()
        seen += [printed.out, printed.err]
        assert [where for where, text in enumerate(seen) if "SENTINEL" in text] == []
