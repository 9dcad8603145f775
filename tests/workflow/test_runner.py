"""The runner that spares the sandbox a question is used only where the answer is ignored."""

from dataclasses import replace

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import (
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
)

import worker
from perdure.temporal.runner import without_contexts


class Contextual(PayloadCodec, WithSerializationContext):
    """A codec with a key for each run, say."""

    def with_context(self, context: SerializationContext) -> "Contextual":
        return Contextual()

    async def encode(self, payloads):
        return list(payloads)

    async def decode(self, payloads):
        return list(payloads)


class Plain(PayloadCodec):
    async def encode(self, payloads):
        return list(payloads)

    async def decode(self, payloads):
        return list(payloads)


def test_a_converter_that_takes_contexts_is_asked_as_the_sdk_does():
    sandbox = worker.sandbox()
    assert without_contexts(sandbox, replace(pydantic_data_converter, payload_codec=Contextual())) is sandbox


def test_a_converter_that_takes_none_is_spared():
    sandbox = worker.sandbox()
    for converter in (pydantic_data_converter, replace(pydantic_data_converter, payload_codec=Plain())):
        assert without_contexts(sandbox, converter) is not sandbox


def test_tests_watch_the_rules_too_and_workers_at_least_the_workflow():
    passed, whole = (worker.sandbox(whole=each).restrictions.passthrough_modules for each in (False, True))
    assert "perdure.core" in passed
    assert not [each for each in passed if each.startswith("workflows")]
    assert {each for each in whole if each.startswith("perdure")} == {"perdure.core.contracts", "perdure.core.steps"}
