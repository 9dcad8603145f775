"""A connection, from what Temporal's own tools read: TEMPORAL_* variables and profiles; else the embedded server's.

`PERDURE_DATA_CONVERTER=module:attribute` names a data converter (with a payload codec, say) for workers and clients.
"""

import os
import re
from importlib import import_module

from temporalio.client import Client
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import DataConverter, PayloadConverter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError

from perdure.core.runs import UnreachableError
from perdure.store import Store, store_from_env
from perdure.temporal.embedded import STORE_FOLDER, Running, running, state_folder

DEFAULT_ADDRESS = "localhost:7233"
_PYDANTIC = PydanticPayloadConverter()


class _Pydantic(PydanticPayloadConverter):
    """The one there is. The SDK makes a converter for every step of a run, each with no type adapters in its cache."""

    def __new__(cls) -> PayloadConverter:  # type: ignore[misc]
        return _PYDANTIC


def data_converter() -> DataConverter:
    """The data converter that this environment names, or pydantic's.

    Raises:
        UnreachableError: the name leads nowhere, or to something else.
    """
    name = os.environ.get("PERDURE_DATA_CONVERTER", "")
    if not name:
        return DataConverter(payload_converter_class=_Pydantic)
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnreachableError(f"PERDURE_DATA_CONVERTER={name!r} names no data converter: {error}") from error
    if not isinstance(found, DataConverter):
        raise UnreachableError(f"PERDURE_DATA_CONVERTER={name!r} is a {type(found).__name__}, not a DataConverter")
    return found


def _settings() -> ClientConnectConfig:
    """What TEMPORAL_* variables and profiles say.

    Raises:
        UnreachableError: they cannot be read.
    """
    try:
        return ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError, OSError) as error:
        raise UnreachableError(
            f"Temporal's settings cannot be read: {_brief(error)}. Mend TEMPORAL_* in this terminal, or the file that "
            f"TEMPORAL_CONFIG_FILE and TEMPORAL_PROFILE name ({os.environ.get('TEMPORAL_PROFILE') or 'default'!r})"
        ) from error


def _embedded() -> Running | None:
    try:
        return running()
    except OSError as error:
        raise UnreachableError(
            f"the state folder {error.filename!r} cannot be used: {error.strerror}. Point PERDURE_STATE at another one"
        ) from error


def address() -> str:
    """Where a connection would go.

    Raises:
        UnreachableError: the settings, or the state folder, cannot be read.
    """
    configured = _settings().get("target_host")
    if configured:
        return configured
    embedded = _embedded()
    return embedded.address if embedded else DEFAULT_ADDRESS


def client_store() -> Store | None:
    """The store of who starts and reads runs: PERDURE_STORE's; else, where a connection would go to the embedded
    server, the one that `perdure dev` gives to its worker.

    Raises:
        StoreError: it cannot be used.
        UnreachableError: the settings, or the state folder, cannot be read.
    """
    if (named := store_from_env()) or _settings().get("target_host"):
        return named
    embedded = _embedded()
    return Store(str(embedded.folder / STORE_FOLDER)) if embedded else None


async def connect(*, identity: str | None = None, converter: DataConverter | None = None) -> Client:
    """Connect to Temporal.

    Raises:
        UnreachableError: nothing answers there, or it refuses us.
    """
    config = _settings()
    told = bool(config.get("target_host"))
    config["target_host"] = address()
    try:
        return await Client.connect(**config, identity=identity, data_converter=converter or data_converter())
    except (RPCError, RuntimeError, ValueError, OSError) as error:
        raise UnreachableError(_unanswered(address(), _brief(error), told=told)) from error


def _unanswered(where: str, why: str, *, told: bool) -> str:
    if told:
        return (
            f"no Temporal server answers at {where!r}: {why}. TEMPORAL_ADDRESS (or a Temporal profile) says to look "
            "there: mend it, or unset it and start a server with `perdure dev FILE`"
        )
    return (
        f"no Temporal server answers at {where!r}: {why}. No `perdure dev` runs on the state folder "
        f"{str(state_folder())!r} (PERDURE_STATE names another). Start a server with `perdure dev FILE`, or point "
        "TEMPORAL_ADDRESS (or a Temporal profile) at yours"
    )


_DEEPEST = re.compile(r'(?:message|error): "([^"]*)"')


def _brief(error: BaseException) -> str:
    """The last useful part of what a client says, without how its layers are called."""
    said = " ".join(str(error).split())
    deepest = _DEEPEST.findall(said)
    return (deepest[-1].lower() if deepest else said)[:300].rstrip(". ")
