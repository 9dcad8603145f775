"""What a run sends again at every turn, and how much of it the vendor reads from its cache.

    python bench/context.py

prints one JSON line. The arithmetic is that of the notes on ReAct: a prefix of 1,500 tokens (instructions and tool),
800 a turn, 12 turns. The task is the first of these 800, so turn k sends 1,500 + 800 k: 2,300 at the first, 11,100 at
the twelfth, 80,400 in all. (Without a task, turn k would send 1,500 + 800 (k - 1), and all of them 70,800.) At best, a
turn reads from the cache what the one before sent: 69,300 in all, and 11,100 are computed, each once.

Both are real runs, on a server and a worker of their own. The naive one is the same agent without breakpoints. The
scripted model counts four bytes of JSON a token, and computes what is read by Anthropic's rules. The price is that of
all input in multiples of the naive run's, by the multipliers of Anthropic's price list that hold for most models: 1.25
for what is written to the cache, 0.1 for what is read.
"""

import uuid

from bench.ground import Ground, ground, measure, progress
from perdure.core.contracts import Usage
from perdure.traces.events import ActivityCompleted

_TURNS, _PREFIX, _A_TURN = 12, 1_500, 800
_TASK = f"{_TURNS - 1} steps of 2984 bytes ".ljust(3_175, ".")  # with its block, 800 tokens; as is each step
_WRITE, _READ = 1.25, 0.1  # of the price of plain input


async def main() -> dict[str, float]:
    async with ground() as on:
        with_breakpoints, naive = [await _run(on, agent) for agent in ("prompted", "naive")]
    return {
        "turns": _TURNS,
        "prefix_tokens": _PREFIX,
        "tokens_a_turn": _A_TURN,
        "sent": with_breakpoints.input,
        "cached": with_breakpoints.cached,
        "cache_written": with_breakpoints.cache_written,
        "naive_sent": naive.input,
        "naive_cached": naive.cached,
        "price_of_naive": round(_price(with_breakpoints) / _price(naive), 3),
    }


async def _run(on: Ground, agent: str) -> Usage:
    run_id = f"{agent}-{uuid.uuid4().hex[:8]}"
    await on.runs.start(agent, _TASK, run_id=run_id)
    outcome = await on.runs.result(run_id)
    assert outcome.state == "answered", outcome
    done = [e for e in await on.runs.events(run_id) if isinstance(e, ActivityCompleted)]
    sent = [e.result["usage"]["input"] for e in done if e.activity_id.startswith("think-")]
    progress(f"{agent}: {sent}")
    assert sent == [_PREFIX + _A_TURN * turn for turn in range(1, _TURNS + 1)], "the texts have other sizes: mend them"
    return outcome.usage


def _price(usage: Usage) -> float:
    plain = usage.input - usage.cached - usage.cache_written
    return plain + _WRITE * usage.cache_written + _READ * usage.cached


if __name__ == "__main__":
    measure(main, __doc__)
