"""A connection, from what Temporal's own tools read: TEMPORAL_* variables and profiles; else the embedded server's.

`PERDURE_DATA_CONVERTER=module:attribute` names a data converter (with a payload codec, say) for workers and clients.
"""

import os
from importlib import import_module

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError

from perdure.core.runs import UnreachableError
from perdure.temporal.embedded import running

DEFAULT_ADDRESS = "localhost:7233"


def data_converter() -> DataConverter:
    """The data converter that this environment names, or pydantic's.

    Raises:
        UnreachableError: the name leads nowhere, or to something else.
    """
    name = os.environ.get("PERDURE_DATA_CONVERTER", "")
    if not name:
        return pydantic_data_converter
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnreachableError(f"PERDURE_DATA_CONVERTER={name!r} names no data converter: {error}") from error
    if not isinstance(found, DataConverter):
        raise UnreachableError(f"PERDURE_DATA_CONVERTER={name!r} is a {type(found).__name__}, not a DataConverter")
    return found


def address() -> str:
    """Where a connection would go."""
    configured = ClientConfig.load_client_connect_config().get("target_host")
    if configured:
        return configured
    embedded = running()
    return embedded.address if embedded else DEFAULT_ADDRESS


async def connect(*, identity: str | None = None, converter: DataConverter | None = None) -> Client:
    """Connect to Temporal.

    Raises:
        UnreachableError: nothing answers there, or it refuses us.
    """
    config = ClientConfig.load_client_connect_config()
    config["target_host"] = address()
    try:
        return await Client.connect(**config, identity=identity, data_converter=converter or data_converter())
    except (RPCError, RuntimeError) as error:
        raise UnreachableError(
            f"no Temporal server answers at {address()!r}: {error}. Start one with `perdure dev FILE`, or "
            "point TEMPORAL_ADDRESS (or a Temporal profile) at yours; `perdure doctor` looks into it."
        ) from error
