"""A history saved as JSON (by `perdure trace --save`, Temporal's page or its CLI), read like that of a run."""

import json
from collections.abc import Sequence

from google.protobuf.json_format import ParseError
from temporalio.client import WorkflowHistory

from perdure.temporal.connect import data_converter
from perdure.temporal.history import decoded
from perdure.traces.events import Event


async def saved(text: str) -> Sequence[Event]:
    """The events of a saved history.

    Raises:
        ValueError: it is none.
    """
    try:
        started = json.loads(text)["events"][0]["workflowExecutionStartedEventAttributes"]
        history = WorkflowHistory.from_json(started.get("workflowId") or "saved run", text)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, ParseError) as error:
        raise ValueError(f"it holds no Temporal history as JSON ({type(error).__name__})") from None
    return await decoded(data_converter(), history.workflow_id, history.events)
