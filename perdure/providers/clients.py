"""One SDK client per process, event loop and configuration, made when first needed.

A client's connections belong to the loop they were opened in. Which server and which key come from the vendor's own
environment variables and nowhere else; when these change, tests' servers mostly, the next call gets a new client.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from socket import IPPROTO_TCP, SO_KEEPALIVE, SOL_SOCKET
from typing import Any, Final, Protocol
from urllib.request import getproxies
from weakref import WeakKeyDictionary

import httpx2

from perdure.providers.errors import Vendor, caught

# A call does not stream: nothing arrives before the turn is whole. At the pace Anthropic's SDK reckons with (128,000
# tokens an hour), 900 s are 32,000 tokens. A model activity's own timeout must be longer.
TIMEOUT: Final = httpx2.Timeout(900.0, connect=10.0)
_LIMITS: Final = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)  # as both SDKs have them
_PROBES: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPALIVE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}  # not all everywhere
_JSON: Final = {"headers": {"Content-Type": "application/json"}}


def kept_alive() -> dict[str, Any]:
    """Options for an `httpx2.AsyncClient` whose connections carry TCP's own keep-alive, as Anthropic's SDK has them.

    Nothing moves on a connection while a turn is being made, and what is between forgets it after some minutes. If the
    environment names a proxy, none: then its own connections are what counts, and httpx2 finds it only by itself.
    """
    if getproxies().keys() - {"no"}:
        return {}
    probes = [(IPPROTO_TCP, getattr(socket, name), value) for name, value in _PROBES.items() if hasattr(socket, name)]
    options = [(SOL_SOCKET, SO_KEEPALIVE, 1), *probes]
    return {"transport": httpx2.AsyncHTTPTransport(limits=_LIMITS, socket_options=options)}


class Client(Protocol):
    """What both SDKs' async clients have in common, and all that is used of them."""

    @property
    def post(self) -> Any: ...

    async def close(self) -> None: ...


class Clients:
    """The clients of one vendor. `make` reads the environment: see `Vendor`."""

    def __init__(self, vendor: Vendor, make: Callable[[], Client]) -> None:
        self._vendor = vendor
        self._make = make
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str | None, ...], Client]] = (
            WeakKeyDictionary()
        )

    async def post(self, path: str, body: bytes) -> bytes:
        """POST bytes through the SDK; the raw bytes of a 2xx answer.

        Raises:
            ModelError: see `perdure.providers.errors`. Without a cause: an SDK's exceptions carry requests, with keys.
        """
        try:
            client = self._current()
            response: httpx2.Response = await client.post(path, content=body, cast_to=httpx2.Response, options=_JSON)
        except Exception as raised:
            error = caught(raised, self._vendor)
            if error is None:
                raise
            raise error from None
        return response.content

    async def close(self) -> None:
        for client in self._open.pop(asyncio.get_running_loop(), {}).values():
            await client.close()

    def _current(self) -> Client:
        clients = self._open.setdefault(asyncio.get_running_loop(), {})
        configured = tuple(os.environ.get(name) for name in (*self._vendor.keys, self._vendor.url))
        if configured not in clients:
            clients[configured] = self._make()
        return clients[configured]
