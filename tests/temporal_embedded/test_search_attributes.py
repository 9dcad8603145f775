"""The worker's own check, on a server that nobody prepared."""

import subprocess
from collections.abc import AsyncIterator

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.temporal.embedded import binary
from perdure.temporal.search_attributes import (
    ATTRIBUTES,
    SearchAttributesMissingError,
    command,
    ensure_search_attributes,
)


@pytest.fixture
async def bare() -> AsyncIterator[Client]:
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=binary(), ui=False) as server:
        yield server.client


async def use(client: Client) -> None:
    for name in ATTRIBUTES:
        await client.count_workflows(f"{name} = 'any'")


async def test_missing_ones_are_added_and_adding_again_changes_nothing(bare: Client) -> None:
    with pytest.raises(Exception, match="PerdureAgent"):
        await use(bare)
    await ensure_search_attributes(bare)
    await ensure_search_attributes(bare)
    await use(bare)


async def test_the_command_that_an_operator_is_given_works(bare: Client) -> None:
    address = bare.service_client.config.target_host
    typed = [binary(), *command(bare.namespace).split()[1:], "--address", address]
    subprocess.run(typed, check=True, capture_output=True)
    await use(bare)


async def test_a_namespace_without_room_for_them_is_told_with_the_command(bare: Client) -> None:
    others = {f"Other{i}": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for i in range(10)}  # all that SQL has room for
    await bare.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=bare.namespace, search_attributes=others)
    )
    with pytest.raises(SearchAttributesMissingError, match="temporal operator search-attribute create"):
        await ensure_search_attributes(bare)
