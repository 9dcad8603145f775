"""perdure: ReAct agents that outlive their process.

The public face. Exported lazily: importing any room of the package runs this file, in the workflow sandbox too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.core.contracts import Effect as Effect
    from perdure.files import File as File
    from perdure.temporal.runs import Runs as Runs
    from perdure.tools.agents import Agent as Agent
    from perdure.tools.budget import Budget as Budget
    from perdure.tools.builtin import ask_operator as ask_operator
    from perdure.tools.builtin import calculator as calculator
    from perdure.tools.builtin import clock as clock
    from perdure.tools.critics import Critic as Critic
    from perdure.tools.declare import NOT_DONE as NOT_DONE
    from perdure.tools.declare import UNSURE as UNSURE
    from perdure.tools.declare import Tool as Tool
    from perdure.tools.declare import ToolContext as ToolContext
    from perdure.tools.declare import ToolError as ToolError
    from perdure.tools.declare import tool as tool
    from perdure.tools.declare import tools_of as tools_of
    from perdure.tools.models import Model as Model
    from perdure.tools.prices import Prices as Prices

__version__ = "0.1.0"

_ROOMS = {  # name -> the module that defines it
    "Agent": "perdure.tools.agents",
    "Budget": "perdure.tools.budget",
    "NOT_DONE": "perdure.tools.declare",
    "UNSURE": "perdure.tools.declare",
    "ask_operator": "perdure.tools.builtin",
    "calculator": "perdure.tools.builtin",
    "clock": "perdure.tools.builtin",
    "Critic": "perdure.tools.critics",
    "Effect": "perdure.core.contracts",
    "File": "perdure.files",
    "Model": "perdure.tools.models",
    "Prices": "perdure.tools.prices",
    "Runs": "perdure.temporal.runs",
    "Tool": "perdure.tools.declare",
    "ToolContext": "perdure.tools.declare",
    "ToolError": "perdure.tools.declare",
    "tool": "perdure.tools.declare",
    "tools_of": "perdure.tools.declare",
}

__all__ = [
    "NOT_DONE",
    "UNSURE",
    "Agent",
    "Budget",
    "Critic",
    "Effect",
    "File",
    "Model",
    "Prices",
    "Runs",
    "Tool",
    "ToolContext",
    "ToolError",
    "__version__",
    "ask_operator",
    "calculator",
    "clock",
    "tool",
    "tools_of",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(import_module(_ROOMS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
