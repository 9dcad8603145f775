"""What tests of agents that work for others share."""

import asyncio
from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from perdure import Agent, tool
from perdure.core.contracts import RunState
from perdure.core.runs import RunRow
from perdure.testing import call
from perdure.traces.shape import Trace
from perdure.traces.turns import trace
from tests.conftest import MODELS, Stage

ASK = call("payroll", task="What is ann paid?")


def payroll(tools: Sequence[Any] = (), protocol: str = "anthropic", **more: Any) -> Agent:
    return Agent("payroll", model=MODELS[protocol], instructions="You are payroll.", tools=list(tools), **more)


def cast(planner: Any, *children: Any) -> Any:
    """One model for several agents: the planner is known by its task, the others by the first word of theirs.

    Each is a list of turns, or a function.
    """

    def played(seen: Any) -> Any:
        if seen.task == "do it":
            turns = planner
        else:
            number = int(seen.task[0]) if seen.task[0].isdigit() else 0
            turns = children[number]
        reply = turns[seen.turn] if isinstance(turns, list) else turns(seen)
        return reply(seen) if callable(reply) else reply

    return played


async def traced(desk: Stage, run_id: str) -> Trace:
    return trace(await desk.runs.events(run_id))


async def children(desk: Stage, run_id: str, count: int = 1) -> list[str]:
    """The runs that a run's calls were handed to, as soon as there are so many."""
    for _ in range(600):
        calls = [each for turn in (await traced(desk, run_id)).turns for each in turn.calls]
        if len(found := [each.by for each in calls if each.by]) >= count:
            desk.started += [each for each in found if each not in desk.started]
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"work was never handed to {count} runs: {await traced(desk, run_id)}")


async def stood(desk: Stage, run_id: str, state: RunState) -> RunRow:
    """The run, as soon as it stands so."""
    for _ in range(600):
        if (row := await desk.runs.find(run_id)).state is state:
            return row
        await asyncio.sleep(0.05)
    raise AssertionError(f"{run_id} never stood as {state}: {row}")


async def reset(desk: Stage, run_id: str, tasks: int) -> None:
    """Set a run back to its workflow task with this number, from 0."""
    events = (await desk.client.get_workflow_handle(run_id).fetch_history()).events
    done = [e.event_id for e in events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    await desk.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=desk.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run_id),
            reason="tested",
            workflow_task_finish_event_id=done[tasks],
            request_id=f"reset-{run_id}-{tasks}",
        )
    )


@tool(effect="once")
async def raise_pay(to: int) -> str:
    """Raise what ann is paid."""
    return f"she is paid {to} now"


@tool(effect="read")
async def look(at: int = 0) -> str:
    """Look at something."""
    return f"seen {at}"


def endless(seen: Any) -> Any:
    """Look at one thing after another, for as long as there is something to look with."""
    return call("look", at=seen.turn) if seen.tools else "as far as I came"
