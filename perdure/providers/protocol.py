"""What a provider is: a pure pair of translations, and one POST.

`encode` turns transcript entries into the vendor's messages as bytes, once; a cache keeps those bytes, so a turn costs
the same however long the run is. `body` puts a request around them. `read` turns the vendor's answer into a reply. The
vendor's SDK does authentication, transport and error classes (`post`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol

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
    """One answer of a model. `message` is kept and sent back exactly as received.

    `advice`, for UNREAD: what was wrong with it, and the right form.
    """

    stop: Stop
    message: Any
    calls: tuple[AskedCall, ...] = ()
    answer: str = ""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    advice: str = ""
    cost: Decimal | None = None  # US dollars, once somebody worked it out


class Provider(Protocol):
    @property
    def protocol(self) -> str:
        """The name of the wire protocol, as in `Opening.protocol`."""
        ...

    def encode(self, entries: Sequence[Entry]) -> bytes:
        """The entries as the vendor's messages: JSON values joined by commas, or nothing. Never ends in a comma.

        The same entries give the same bytes in every process, whether a turn was just read or came back from history.
        Encoding entries one after the other and joining what is not empty by commas gives the same as all at once.
        """
        ...

    def body(self, opening: Opening, messages: bytes, *, tools: bool, sent: int = 0, run: str = "") -> bytes:
        """The whole request. What it holds before its newest messages is the same at every turn of a run.

        Args:
            opening: prompt, tools and settings.
            messages: the transcript, as `encode` makes it.
            tools: False takes the choice to call any away; they stay declared. Costs the messages' cache at Anthropic.
            sent: how many bytes of `messages` the request before this one ended with; 0 if there was none.
            run: stands for the run, for vendors that keep a run's requests together by a key. It is shown to them.

        Raises:
            ModelError: the settings hold a key that is not theirs to set.
        """
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

    async def close(self) -> None:
        """Close the connections of the running event loop. The provider stays usable."""
        ...


Kind = Literal["retry", "person", "compact"]


class ModelError(Exception):
    """A model call that gave no turn. `kind` decides what follows; see `perdure.providers.errors`.

    `message` says what happened and what to do, without secrets, in at most 1,000 characters. `retry_after` is in
    seconds, as the vendor asked. `details` holds what there is of status, type, code and request_id. `outage`: it is
    this vendor, or our account there, that is out, and another model may answer the same request.

    Not a frozen dataclass: Python itself writes to an exception in flight (its traceback, its notes).
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
        outage: bool = False,
    ) -> None:
        super().__init__(kind, message, retry_after, details, outage)  # in full, so that it pickles
        self.kind: Kind = kind
        self.message = message
        self.retry_after = retry_after
        self.details = dict(details or {})
        self.outage = outage

    def __str__(self) -> str:
        return self.message
