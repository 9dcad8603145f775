"""A desk whose tools leave lines in the file LEDGER, for workers that are killed."""

import os
import sqlite3
import time
from pathlib import Path

from perdure import Agent, Budget, ToolContext, tool
from perdure.tools.declare import NOT_DONE
from workflows.calls import LOST_WORKER

MODELS = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai-responses": "openai:gpt-6.2-sol",
    "openai-chat": "openai-chat:gpt-6-luna",
}
MODELS |= {f"text+{protocol}": f"text+{model}" for protocol, model in MODELS.items()}


def record(line: str) -> None:
    with open(os.environ["LEDGER"], "a") as file:
        file.write(line + "\n")


@tool(effect="read", timeout=40)
def slow_read(ctx: ToolContext) -> str:
    """Read something; the first attempt takes very long."""
    record(f"read attempt {ctx.attempt}")
    if ctx.attempt == 1:
        time.sleep(30)
    return "read"


@tool(effect="read")
def diag() -> str:
    """Look at the machine, which changes nothing."""
    record("diag")
    return "disk is full"


@tool(effect="once")
def send(to: str) -> str:
    """Send a message. It cannot be called back.

    Args:
        to: who gets it.
    """
    record(f"send {to}")
    return f"sent to {to}"


@tool(effect="once", ask=False, timeout=40)
def pay_once(amount: int) -> str:
    """Pay, with a bank that takes no idempotency key. It takes long after it has paid.

    Args:
        amount: in whole units.
    """
    record(f"paid {amount}")
    time.sleep(30)
    return "paid"


@tool(effect="idempotent", ask=False, timeout=40)
def pay(ctx: ToolContext, amount: int) -> str:
    """Pay, at most once for each key. The first attempt takes long after it has paid.

    Args:
        amount: in whole units.
    """
    with sqlite3.connect(os.environ["LEDGER"] + ".db") as bank:
        bank.execute("CREATE TABLE IF NOT EXISTS paid (key PRIMARY KEY, amount)")
        bank.execute("INSERT OR IGNORE INTO paid VALUES (?, ?)", (ctx.idempotency_key, amount))
    record(f"attempt {ctx.attempt} {ctx.idempotency_key}")
    if ctx.attempt == 1:
        time.sleep(30)
    return f"paid {amount}"


@tool(effect="idempotent", ask=False, timeout=40)
async def starve(ctx: ToolContext) -> str:
    """Pay as pay does, but block the worker's event loop, as a careless async tool does."""
    record(f"attempt {ctx.attempt} {ctx.idempotency_key}")
    if Path(os.environ["LEDGER"]).read_text().count("\n") == 1:
        time.sleep(LOST_WORKER.total_seconds() + 6)
    return "paid"


def probe_transfer(key: str) -> object:
    return f"transferred under {key[:8]}" if f"transfer {key}" in open(os.environ["LEDGER"]).read() else NOT_DONE


@tool(effect="once", ask=False, timeout=40, probe=probe_transfer)
def transfer(ctx: ToolContext) -> str:
    """Transfer money; the bank can be asked later whether it happened."""
    record(f"transfer {ctx.idempotency_key}")
    time.sleep(30)
    return "transferred"


payroll = Agent(
    f"{os.environ.get('DESK_NAME', 'desk')}-payroll",
    model=MODELS[os.environ.get("DESK_PROTOCOL", "anthropic")],
    instructions="You are payroll.",
    tools=[pay],
)
desk = Agent(
    os.environ.get("DESK_NAME", "desk"),
    model=MODELS[os.environ.get("DESK_PROTOCOL", "anthropic")],
    instructions="You are tested.",
    tools=[slow_read, diag, send, pay_once, pay, starve, transfer, payroll.as_tool("Pays.", name="payroll")],
    budget=Budget(turns=12),
)
