"""Reading on in an observation that was cut: what was cut is kept whole in the store, and read by a built-in tool.

It is kept under its run, by a name that the note in the cut text tells the model: `act-3-0.1f9e03ab`, the activity that
observed it and the first digits of its digest. A run reads what it observed itself and nothing else: the run's id is
known to whoever runs the tool, and never an argument.

The store is the worker's. Every worker of a task queue has the same, or none, as with the grant key: what a run is
offered is computed by one of them and answered by any.
"""

import re
from typing import Annotated, Final

from pydantic import Field

from perdure.core.digests import of_bytes
from perdure.store import Store, StoreError, StoreMissError, named
from perdure.tools.declare import Tool, ToolContext, ToolError, tool, tools_of
from perdure.tools.results import bounded, reading_on

READ_MORE: Final = "read_more"
PAGE: Final = 16_000  # UTF-8 bytes of one reading
_MOST_KEPT: Final = 32_000_000  # UTF-8 bytes of one observation
_DIGITS: Final = 8
_NAME: Final = re.compile(rf"[a-z]+-\d+-\d+(r\d+)?\.[0-9a-f]{{{_DIGITS}}}")


class StoreSilentError(OSError):
    """The store does not answer now. The tool is tried again; the model is not told where the store is."""


class Outputs:
    """What the runs of this worker observed, whole, where it was cut."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def keep(self, run_id: str, activity_id: str, text: str) -> str:
        """Keep an observation's whole text; its name.

        Raises:
            StoreError: it is not kept.
        """
        text = bounded(text, _MOST_KEPT)
        name = f"{activity_id}.{of_bytes(text)[:_DIGITS]}"
        await self._store.put(_key(run_id, name), text.encode())
        return name

    @property
    def reader(self) -> Tool:
        """`read_more`, for agents of this worker."""
        [found] = tools_of(self)
        return found

    @tool(effect="read", timeout=30)
    async def read_more(self, ctx: ToolContext, observation: str, offset: Annotated[int, Field(ge=0)] = 0) -> str:
        """Read on in an observation that was cut. It names itself, and where to read on, at the cut.

        Args:
            observation: the name, such as act-3-0.1f9e03ab.
            offset: where to begin, in bytes.
        """
        whole = await self._whole(ctx.run_id, observation)
        if offset >= len(whole):
            raise ToolError(f"{observation} has {len(whole):,} bytes; there is nothing at {offset:,} and after.")
        return _page(observation, whole, offset)

    async def _whole(self, run_id: str, name: str) -> bytes:
        none = ToolError(
            f"this run has no cut observation {name[:60]!r}. Take the name from the note where the text was cut."
        )
        if not _NAME.fullmatch(name):
            raise none
        try:
            whole = await self._store.get(_key(run_id, name))
        except StoreMissError:
            raise none from None
        except StoreError as error:
            raise StoreSilentError("what was kept of long observations cannot be read now") from error
        if of_bytes(whole.decode(errors="replace"))[:_DIGITS] != name[-_DIGITS:]:
            raise ToolError(f"what was kept of {name} is damaged. Go on without it.")
        return whole


def is_read_more(each: Tool) -> bool:
    """Whether this is perdure's own tool, not an author's of that name."""
    return isinstance(getattr(each.function, "__self__", None), Outputs)


def _key(run_id: str, name: str) -> str:
    return named("runs", run_id, "observations", name)


def _page(name: str, whole: bytes, offset: int) -> str:
    """The bytes from `offset` on, whole characters only, and how to go on."""
    begin = _character(whole, offset)
    end = _character(whole, min(begin + PAGE, len(whole)))
    more = f"{len(whole) - end:,} left; {reading_on(name, end)}" if end < len(whole) else "this is the end"
    return f"[bytes {begin:,} to {end:,} of {len(whole):,}: {more}]\n{whole[begin:end].decode()}"


def _character(whole: bytes, place: int) -> int:
    """The beginning of the character at `place`."""
    while 0 < place < len(whole) and whole[place] & 0xC0 == 0x80:
        place -= 1
    return place
