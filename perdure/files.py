"""Files that runs are given and that tools return: which are taken, where their content is, how it comes back.

A file is what its content shows it to be, whatever it is called: PDF, PNG, JPEG, GIF, WebP, or UTF-8 text. Its content
is kept once, in the store, under its run and its SHA-256; the history holds name, type, size and digest. Without a
store small files travel in the history itself. Who reads a file checks digest and type again.

Bounds are the narrowest of what the vendors document, so that a run is refused before it starts and not at its first
turn: 5 MiB of base64 and 8,000 pixels a side for a picture, 20 pictures (beyond that Anthropic takes 2,000 pixels), 32
MB for a whole request (all Anthropic's; OpenAI's are wider). How many pages a PDF has is left to the vendor to count.
"""

import base64
import hashlib
import io
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeVar

from perdure.core.contracts import FileRef
from perdure.core.files import described
from perdure.core.transcript import Entry, Heard, Result, Task
from perdure.store import VARIABLE, Store, StoreError, StoreMissError, named

MOST_FILES: Final = 20  # of one task, of one observation, and in a transcript
MOST_BYTES: Final = 20_000_000  # of one file, and of all in a transcript: as base64, 27 of the 32 MB of a request
MOST_PICTURE: Final = 5 * 1024 * 1024 * 3 // 4  # bytes: 5 MiB as base64
MOST_PIXELS: Final = 8_000  # a side
MOST_TEXT: Final = 256_000  # bytes
MOST_INLINE: Final = 256_000  # bytes of all files of a task, or of an observation, in the history itself
_MOST_NAME: Final = 200  # characters
_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_PDF: Final = "application/pdf"
_TAKEN: Final = "Models take PDF, PNG, JPEG, GIF and WebP, and text in UTF-8"
_CONTROLS: Final = frozenset(range(32)) - frozenset(b"\t\n\f\r") | {127}

Load = Callable[[FileRef], Awaitable[FileRef]]  # the same with `data`
E = TypeVar("E", Task, Result)


class FileError(ValueError):
    """A file that no model takes, or too much of it; the text says which, why, and what to do."""


class FileLostError(Exception):
    """A file of a run cannot be had here, and trying again will not help: a person can."""


@dataclass(frozen=True)
class File:
    """A file: what it is called, and what it holds. Its type is found from its content."""

    name: str
    content: bytes = field(repr=False)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The file at a path, under the path's last name.

        Raises:
            OSError: it cannot be read.
            FileError: it is larger than any model takes.
        """
        path = Path(path)
        with path.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)  # not all of what may be gigabytes, or a device
        if len(content) > MOST_BYTES:
            raise FileError(f"{path.name!r} has more than {MOST_BYTES:,} bytes. {_SMALLER}")
        return cls(path.name, content)


_SMALLER: Final = "Split it, or make it smaller"


# --- which are taken --------------------------------------------------------------------------------------------------


def checked(file: File) -> FileRef:
    """What the history says of a file.

    Raises:
        FileError: no model takes it.
    """
    name = _plain(file.name)
    if not file.content:
        raise FileError(f"{name!r} is empty")
    kind = _kind(name, file.content)
    most = MOST_TEXT if kind.startswith("text/") else MOST_PICTURE if kind in _PICTURES else MOST_BYTES
    if len(file.content) > most:
        raise FileError(f"{name!r} ({kind}) has {len(file.content):,} bytes, and models take {most:,}. {_SMALLER}")
    if kind in _PICTURES:
        _check_pixels(name, kind, file.content)
    return FileRef(name=name, media_type=kind, size=len(file.content), sha256=_sha256(file.content))


def check_together(files: Sequence[FileRef]) -> None:
    """Whether so many files fit into one message.

    Raises:
        FileError: they do not.
    """
    total = sum(file.size for file in files)
    if len(files) > MOST_FILES or total > MOST_BYTES:
        raise FileError(
            f"{len(files)} files of {total:,} bytes: a message takes at most {MOST_FILES}, and {MOST_BYTES:,} bytes. "
            "Give fewer, or let a tool return them one by one"
        )


def _check_beside(others: Sequence[FileRef], ref: FileRef) -> None:
    check_together([*others, ref])
    if sum(each.size for each in (*others, ref) if each.data) > MOST_INLINE:
        raise FileError(f"{ref.name!r}: beside the others it is too much to keep without a store")


def _plain(name: str) -> str:
    """The last part of a path-like name, without what cannot be seen."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return "".join(char for char in last if char.isprintable())[:_MOST_NAME].strip() or "file"


def _kind(name: str, content: bytes) -> str:
    import puremagic  # takes long to import, and most runs have no files

    try:
        found = [match.mime_type for match in puremagic.magic_string(content)]
    except (puremagic.PureError, ValueError):
        found = []
    if taken := [str(kind) for kind in found if kind in (_PDF, *_PICTURES)]:
        return taken[0]
    if _is_text(content):
        return "text/csv" if name.lower().endswith((".csv", ".tsv")) else "text/plain"
    what = next(filter(None, found), "of no known type, or text in another encoding")
    raise FileError(f"{name!r} is {what}. {_TAKEN}: convert it first")


def _is_text(content: bytes) -> bool:
    if len(content) > MOST_TEXT:
        content = content[:MOST_TEXT].rsplit(b"\n", 1)[0]  # enough to see what it is; it is refused for its size
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROLS.isdisjoint(content)


def _check_pixels(name: str, kind: str, content: bytes) -> None:
    import imagesize  # type: ignore[import-untyped]

    width, height = imagesize.get(io.BytesIO(content))
    if width <= 0 or height <= 0:
        raise FileError(f"{name!r} begins as {kind} and is damaged: it has no size in pixels")
    if max(width, height) > MOST_PIXELS:
        raise FileError(
            f"{name!r} has {width:,} x {height:,} pixels, and models take {MOST_PIXELS:,} a side. Shrink it"
        )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- where they are ---------------------------------------------------------------------------------------------------


class Files:
    """The files of runs, in a store, or without one in the histories."""

    def __init__(self, store: Store | None) -> None:
        self._store = store

    async def keep(self, run_id: str, files: Sequence[File]) -> tuple[FileRef, ...]:
        """Keep files of a run; what its history is to say of them. Keeping one again changes nothing.

        Raises:
            FileError: one is not taken, or they are too many or too large.
            StoreError: the store does not keep them.
        """
        refs = tuple(map(checked, files))
        check_together(refs)
        if self._store is None:
            return _inline(refs, files)
        for ref, file in zip(refs, files, strict=True):
            await self._store.put(_key(run_id, ref), file.content)
        return refs

    async def keep_what_fits(self, run_id: str, files: Sequence[File]) -> tuple[tuple[FileRef, ...], str]:
        """As many of the files as can be kept, and what a model is told of the others. A store that fails costs those.

        For what tools return: they have acted, and so whatever goes wrong here is said and not raised.
        """
        kept: list[FileRef] = []
        notes: list[str] = []
        for file in files:
            try:
                [ref] = await self.keep(run_id, [file])
                _check_beside(kept, ref)
                kept.append(ref)
            except FileError as error:
                notes.append(f"\n[file not shown: {error}]")
            except StoreError:
                notes.append(f"\n[file {described(checked(file))} not shown: it could not be kept]")
        return tuple(kept), "".join(notes)

    async def load(self, run_id: str, ref: FileRef) -> FileRef:
        """The file with its content, checked.

        Raises:
            FileLostError: it is not there, or not what the history says.
            StoreError: that cannot be known now.
        """
        content = base64.b64decode(ref.data) if ref.data else await self._kept(run_id, ref)
        if _sha256(content) != ref.sha256:
            raise FileLostError(f"{described(ref)} is damaged: its content is not the one that the history names")
        try:
            seen = checked(File(ref.name, content))
        except FileError as error:
            raise FileLostError(f"{described(ref)} is no file that a model takes: {error}") from None
        if (seen.media_type, seen.size) != (ref.media_type, ref.size):
            raise FileLostError(f"{described(ref)} is not what the history says, but {described(seen)}")
        return ref.model_copy(update={"data": base64.b64encode(content).decode()})

    async def _kept(self, run_id: str, ref: FileRef) -> bytes:
        if self._store is None:
            raise FileLostError(
                f"{described(ref)} is in a store, and this worker has none: start it with {VARIABLE} as it is where "
                "the run was started"
            )
        try:
            return await self._store.get(_key(run_id, ref))
        except StoreMissError:
            raise FileLostError(
                f"{described(ref)} is not in this worker's store at {self._store.url!r}, under {_key(run_id, ref)!r}: "
                f"put it back, or start the worker with {VARIABLE} as it is where the run was started"
            ) from None


def _inline(refs: Sequence[FileRef], files: Sequence[File]) -> tuple[FileRef, ...]:
    total = sum(ref.size for ref in refs)
    if total > MOST_INLINE:
        raise FileError(
            f"{total:,} bytes of files: without a store a history takes {MOST_INLINE:,}. Next: export {VARIABLE}=..., "
            "a folder or URL, the same here and for all workers"
        )
    contents = (base64.b64encode(file.content).decode() for file in files)
    return tuple(ref.model_copy(update={"data": data}) for ref, data in zip(refs, contents, strict=True))


def _key(run_id: str, ref: FileRef) -> str:
    return named("runs", run_id, "files", ref.sha256)


# --- into a transcript ------------------------------------------------------------------------------------------------


class Taken(NamedTuple):
    """How much a transcript holds of files: how many, and their bytes."""

    files: int = 0
    bytes: int = 0

    def with_one(self, file: FileRef) -> "Taken | None":
        """With this one, too; None if a request does not take that."""
        after = Taken(self.files + 1, self.bytes + file.size)
        return after if after.files <= MOST_FILES and after.bytes <= MOST_BYTES else None


async def attached(entries: Sequence[Entry], before: Taken, load: Load) -> tuple[list[Entry], Taken]:
    """The entries with the contents of their files, and how much of files the transcript then holds.

    One that would be too much for a request is left without content: a model is told that it is not shown. What was
    shown before stays, so that a transcript only grows.

    Args:
        before: of the entries before these.
    """
    whole: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Task):
            entry, before = await _with_contents(entry, before, load)
        elif isinstance(entry, Heard) and any(result.files for result in entry.results):
            results = []
            for result in entry.results:
                shown, before = await _with_contents(result, before, load)
                results.append(shown)
            entry = replace(entry, results=tuple(results))
        whole.append(entry)
    return whole, before


async def _with_contents(entry: E, before: Taken, load: Load) -> tuple[E, Taken]:
    loaded = []
    for file in entry.files:
        after = before.with_one(file)
        loaded.append(await load(file) if after else file.model_copy(update={"data": ""}))
        before = after or before
    return (replace(entry, files=tuple(loaded)) if loaded else entry), before
