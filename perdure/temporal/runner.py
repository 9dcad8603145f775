"""A workflow runner around the sandbox's, for converters that take no serialization context (ours, most codecs).

For every payload that goes in or out of a workflow the SDK asks the workflow's instance three or four times in what
context it is converted, and the sandbox answers each time by executing code inside itself: a fifth of a worker's CPU
time, for an answer that such a converter ignores. This runner answers in the sandbox's stead. All else passes through.
"""

from collections.abc import Sequence
from typing import Any

from temporalio.converter import DataConverter, StorageDriverStoreContext, WorkflowSerializationContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner


def without_contexts(runner: WorkflowRunner, converter: DataConverter) -> WorkflowRunner:
    """`runner`, relieved of the question if `converter` takes no context and stores nothing outside; else itself."""
    some = WorkflowSerializationContext(namespace="any", workflow_id="any")
    takes_none = converter.with_context(some) is converter and converter.external_storage is None
    return _ContextFreeRunner(runner) if takes_none else runner


class _ContextFreeRunner(WorkflowRunner):
    def __init__(self, inner: WorkflowRunner) -> None:
        self._inner = inner

    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _ContextFreeInstance(self._inner.create_instance(det))

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        self._inner.set_worker_level_failure_exception_types(types)


class _ContextFreeInstance(WorkflowInstance):
    def __init__(self, inner: WorkflowInstance) -> None:
        self._inner = inner

    def activate(self, act: Any) -> Any:
        return self._inner.activate(act)

    def get_serialization_context(self, command_info: Any) -> None:
        return None

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return StorageDriverStoreContext(target=None)

    def get_info(self) -> Any:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()
