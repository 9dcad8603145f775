"""The retail desk: tau2-bench's toolkit adopted as perdure tools, each call forwarded to the shop's own process.

The toolkit's signatures and docstrings are what the model is offered; its marks become effects: what writes is
`idempotent`, since the shop acts once per key, and everything else is `read`. Writes ask an operator: the default.
"""

import os
from collections.abc import Callable
from typing import Any

import httpx2

from perdure import Agent, Budget, Tool, ToolContext, ToolError, tool
from trials.retail.source import bare_toolkit, policy

_shop = httpx2.AsyncClient(base_url=os.environ.get("RETAIL_SHOP", "http://127.0.0.1:9"), timeout=30)


def adopted(method: Callable[..., Any], mark: str) -> Tool:
    """A toolkit's method as a tool that runs at the shop, on the branch named after the run."""

    async def forward(ctx: ToolContext, **arguments: Any) -> Any:
        asked = {"tool": method.__name__, "arguments": arguments, "key": ctx.idempotency_key}
        response = await _shop.post(f"/branches/{ctx.run_id}/calls", json=asked)
        answer = response.raise_for_status().json()
        if "error" in answer:
            raise ToolError(answer["error"])
        return answer["result"]

    return tool(forward, like=method, effect="idempotent" if mark == "write" else "read")


_toolkit = bare_toolkit()
desk = Agent(
    "retail",
    model="anthropic:claude-opus-5-5",
    instructions=policy(),
    tools=[adopted(method, _toolkit.tool_type(name)) for name, method in _toolkit.tools.items()],
    budget=Budget(turns=20),
)
