"""The two search attributes that lists are made from, present on whatever server a worker meets.

The check is a query that uses them: it needs no more than the right to read, and asks for exactly what is needed.
"""

import asyncio
from typing import Final

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.core.contracts import AGENT_ATTRIBUTE, STATE_ATTRIBUTE

ATTRIBUTES: Final = (AGENT_ATTRIBUTE, STATE_ATTRIBUTE)  # both Keyword
_VISIBLE_WITHIN: Final = 30.0  # seconds; a cluster's services refresh their view of a namespace every ten
_PASSES: Final = {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.RESOURCE_EXHAUSTED}


class SearchAttributesMissingError(Exception):
    """The namespace lacks them, and the server refused to add them; the text says why and gives the command."""


async def ensure_search_attributes(client: Client) -> None:
    """Adds PerdureAgent and PerdureState to the client's namespace where they are missing; safe to repeat.

    Raises SearchAttributesMissingError when that is refused, RPCError when the server is not well.
    """
    missing = [name for name in ATTRIBUTES if not await _known(client, name)]
    if missing:
        await _add(client, missing)
        await _until_known(client, missing)


def command(namespace: str, names: tuple[str, ...] = ATTRIBUTES) -> str:
    """What an operator types to add them."""
    wanted = " ".join(f"--name {name} --type Keyword" for name in names)
    return f"temporal operator search-attribute create --namespace {namespace} {wanted}"


async def _known(client: Client, name: str) -> bool:
    try:
        await client.count_workflows(f"{name} = 'none'")
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            return False
        raise
    return True


async def _add(client: Client, names: list[str]) -> None:
    kinds = dict.fromkeys(names, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD)
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=kinds)
        )
    except RPCError as error:
        if error.status is RPCStatusCode.ALREADY_EXISTS:  # another worker was faster
            return
        if error.status in _PASSES:
            raise
        raise _missing(client.namespace, names, f"the server refused to add them ({error.message})") from error


async def _until_known(client: Client, names: list[str]) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + _VISIBLE_WITHIN
    while not all([await _known(client, name) for name in names]):
        if loop.time() > end:
            raise _missing(client.namespace, names, f"added, but not to be seen after {_VISIBLE_WITHIN:.0f} s")
        await asyncio.sleep(0.1)


def _missing(namespace: str, names: list[str], why: str) -> SearchAttributesMissingError:
    return SearchAttributesMissingError(
        f"namespace {namespace!r} has no search attributes {', '.join(names)}: {why}. "
        f"Next, as an operator of the cluster: {command(namespace, tuple(names))}"
    )
