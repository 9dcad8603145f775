"""The store: one place, shared by all workers and readers, for what is too large or too old for a history.

Full outputs of tools, files, ended segments. It holds bytes under keys, whole or not at all, and knows nothing of what
they mean. `PERDURE_STORE` names it: a folder, or any URL that fsspec takes (s3://bucket/prefix). Without a store, or
with one that fails, things are cut shorter and gone sooner, and never wrong. A run with files in it waits for them.

A key is a path of a few plain names. What comes from outside (a run's id, a model's word) gets into one by `named` or
not at all, so no key leads out of the store. Where it can be, a key holds a digest of what it names; then writing it
again changes nothing.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from perdure.core.digests import of_bytes

VARIABLE: Final = "PERDURE_STORE"
MOST_KEY: Final = 512  # characters; S3 takes 1,024 bytes, and the store's own prefix stands in front
_MOST_NAME = 120  # characters; file systems take 255 bytes
_NAME = re.compile(rf"[a-z0-9](?:[a-z0-9_.~-]{{0,{_MOST_NAME - 2}}}[a-z0-9])?")  # one case: some folders know but one
_PLAIN = re.compile(rf"[a-z0-9](?:[a-z0-9_.-]{{0,{_MOST_NAME - 2}}}[a-z0-9])?")  # a name that may stand for itself
_TRIED: Final = "check/writable"

T = TypeVar("T")


class StoreError(Exception):
    """The store cannot be used, or not now: what, why, what to do. Whatever was being written is not there."""


class StoreMissError(StoreError):
    """The store answers, and holds nothing under this key."""


class Store:
    """A store at a folder or URL. Everything may be called from an event loop: the work is done in threads.

    Raises:
        StoreError: the URL is not one that fsspec knows, or its package is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = _without_password(url)
        self._files, self._root = _opened(url, self.url)

    def __repr__(self) -> str:
        return f"<Store {self.url!r}>"

    async def put(self, key: str, content: bytes) -> None:
        """Keep `content` under `key`, instead of what is there. A reader finds the old or the new, never a part.

        Raises:
            StoreError: it is not kept.
        """
        place = self._place(key)
        await self._done(f"cannot keep {key!r}", lambda: self._write(place, content))

    async def get(self, key: str) -> bytes:
        """What is kept under `key`.

        Raises:
            StoreMissError: nothing is.
            StoreError: that cannot be known.
        """
        place = self._place(key)
        content: bytes = await self._done(f"cannot read {key!r}", lambda: self._files.cat_file(place))
        return content

    async def keys(self, folder: str = "") -> Sequence[str]:
        """The keys under a folder (`runs/order-17`), or all of them, sorted.

        Raises:
            StoreError: they cannot be known.
        """
        place = self._place(folder) if folder else self._root
        try:
            found: Sequence[str] = await self._done(f"cannot list {folder!r}", lambda: self._listed(place))
        except StoreMissError:
            return []
        return found

    async def check(self) -> None:
        """Write, read and remove a few bytes.

        Raises:
            StoreError: one of it fails.
        """
        said = secrets.token_hex(8).encode()
        await self.put(_TRIED, said)
        if await self.get(_TRIED) != said:
            raise StoreError(f"the store at {self.url!r} does not return what was just written to it")
        await self._done("cannot remove what was written to try", lambda: self._files.rm_file(self._place(_TRIED)))

    def _place(self, key: str) -> str:
        if len(key) > MOST_KEY or not all(_NAME.fullmatch(part) for part in key.split("/")):
            raise StoreError(f"{key[:MOST_KEY]!r} is no key of a store. Build it of names by perdure.store.named")
        return f"{self._root}/{key}"

    def _write(self, place: str, content: bytes) -> None:
        """Object stores show what is put when it is whole; on a folder it is written beside its place, then moved."""
        if "file" not in _protocols(self._files):
            self._files.pipe_file(place, content)
            return
        path = Path(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{secrets.token_hex(8)}")
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    def _listed(self, place: str) -> list[str]:
        self._files.invalidate_cache()  # others write, too
        keys = (path[len(self._root) + 1 :] for path in self._files.find(place))
        return sorted(key for key in keys if all(map(_NAME.fullmatch, key.split("/"))))  # no drafts

    async def _done(self, cannot: str, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except FileNotFoundError:
            raise StoreMissError(f"{cannot}: nothing is there in the store at {self.url!r}") from None
        except Exception as error:  # each file system has classes of its own
            why = f"{type(error).__name__}: {error}"[:500]
            raise StoreError(f"{cannot} in the store at {self.url!r}: {why}. Next: perdure doctor") from error


def store_from_env() -> Store | None:
    """The store that PERDURE_STORE names; None if it names none.

    Raises:
        StoreError: it names one that cannot be used.
    """
    url = os.environ.get(VARIABLE, "").strip()
    return Store(url) if url else None


def named(*parts: str) -> str:
    """A key of these parts, whatever they hold: `named("runs", run_id, "observations")`.

    Plain lower-case names stand for themselves; others become a plain beginning, `~`, and 128 bits of their digest.
    So two different parts never meet, also where a folder takes A for a, and no part is a way out.
    """
    return "/".join(map(_named, parts))


def _named(part: str) -> str:
    if _PLAIN.fullmatch(part):
        return part
    beginning = re.sub(r"[^a-z0-9]+", "-", part[:_MOST_NAME].lower()).strip("-")[:60]
    return f"{beginning or 'x'}~{of_bytes(part)[:32]}"


def _opened(url: str, shown: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # takes long to import, and most need no store

    if "::" in url:
        raise StoreError(f"{VARIABLE}={shown!r}: a chain of URLs (::) cannot be written to. Name a folder or one URL")
    try:
        files, root = url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise StoreError(
            f"{VARIABLE}={shown!r} cannot be used: {error}. Name a folder, or install what fsspec needs for this URL "
            "(s3fs for s3://, gcsfs for gs://, adlfs for abfs://) beside perdure"
        ) from None
    return files, root.rstrip("/")


def _protocols(files: Any) -> tuple[str, ...]:
    named = files.protocol
    return (named,) if isinstance(named, str) else tuple(named)


def _without_password(url: str) -> str:
    return re.sub(r"(?<=://)[^/@]+@", "***@", url)
