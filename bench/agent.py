"""The agents that are measured: each of their steps observes `size` bytes of text that no two steps share."""

import hashlib

from perdure import Agent, Budget, tool


@tool(effect="read")
async def fetch(step: int, size: int) -> str:
    """Text of a given size, another for each step.

    Args:
        step: which step this is.
        size: how many bytes to return.
    """
    seed = hashlib.sha256(str(step).encode()).hexdigest()
    return (f"step {step}: {seed} " * (size // 40 + 1))[:size]


desk = Agent(
    "bench",
    model="anthropic:claude-opus-5-5",
    instructions="You are measured.",
    tools=[fetch],
    budget=Budget(turns=100_000),
)

_PROMPT = "You are measured. " * 500
# For context.py: instructions that come to 1,500 tokens with the tool, as the scripted model counts.
prompted, naive = (
    Agent(
        name,
        model="anthropic:claude-opus-5-5",
        preamble="",
        instructions=_PROMPT[:5_650],
        tools=[fetch],
        settings=settings,
    )
    for name, settings in (("prompted", {}), ("naive", {"cache_control": None}))
)
