"""Deterministic code: data in, data out. May import temporalio.workflow and perdure.core; nothing else of ours."""

from workflows.run import AgentRun

__all__ = ["WORKFLOWS", "AgentRun"]

WORKFLOWS: list[type] = [AgentRun]
