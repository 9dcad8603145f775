"""What a provider is: a pure pair of translations, and one POST.

`encode` turns transcript entries into the vendor's messages as bytes, once; a cache keeps those bytes, so a turn costs
the same however long the run is. `body` puts a request around them. `read` turns the vendor's answer into a reply. The
vendor's SDK does authentication, transport and error classes (`post`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdure.core.contracts import Opening, Stop, Usage
from perdure.core.transcript import Entry


@dataclass(frozen=True)
class AskedCall:
    """A call as the model asked for it. `arguments` is the vendor's JSON text, possibly empty or broken."""

    id: str
    name: str
    arguments: str
    whole: bool = True  # False: the output limit cut it, it must not run


@dataclass(frozen=True)
class Reply:
    """One answer of a model. `message` is kept and sent back exactly as received."""

    stop: Stop
    message: Any
    calls: tuple[AskedCall, ...] = ()
    answer: str = ""
    usage: Usage = Usage()
    model: str = ""


class Provider(Protocol):
    protocol: str

    def encode(self, entries: Sequence[Entry]) -> bytes:
        """The entries as the vendor's messages: JSON values joined by commas, or nothing. Never ends in a comma."""
        ...

    def body(self, opening: Opening, messages: bytes, *, tools: bool) -> bytes:
        """The whole request. Without `tools` the model is told not to call any (they stay declared)."""
        ...

    async def post(self, body: bytes) -> bytes:
        """Send a request; the raw bytes of a 2xx answer.

        Raises:
            ModelError: everything that can go wrong, classed.
        """
        ...

    def read(self, answer: bytes, opening: Opening) -> Reply:
        """The answer, read.

        Raises:
            ModelError: a cut stream, a 200 that carries a failure, a body that is not what the vendor documents.
        """
        ...


@dataclass(frozen=True)
class ModelError(Exception):
    """A model call that gave no turn. `kind` decides what follows; see `perdure.providers.errors`."""

    kind: str  # "retry" | "person" | "compact"
    message: str  # what happened and what to do; no secret, bounded
    retry_after: float | None = None  # seconds, as the vendor asked
    details: dict[str, Any] = field(default_factory=dict)
