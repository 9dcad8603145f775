"""Pictures and documents in a request: whether a vendor takes them, what they cost, and what a script sees of them.

Sources of the rules: the vendors' pages on vision, PDF support and file inputs, and the messages of their 400s. What a
picture or PDF costs is a fixed rule here: a token for 750 pixels (Anthropic's rule of thumb), 1,500 for a page.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import imagesize  # type: ignore[import-untyped]
from pydantic_core import to_json

from perdure.testing.script import SeenFile
from perdure.testing.wire import RefusalError

PDF: Final = "application/pdf"
_BEGINNINGS: Final = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    PDF: re.compile(rb"%PDF-"),
}
_URL: Final = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)
_PAGE: Final = re.compile(rb"/Type\s*/Page(?!s)")
_MOST_PICTURE: Final = 5 * 1024 * 1024  # characters of base64, at Anthropic
_MOST_PIXELS: Final = 8_000  # a side
_MANY: Final = 20  # pictures, above which Anthropic takes fewer pixels
_MOST_PIXELS_OF_MANY: Final = 2_000
_PIXELS_A_TOKEN: Final = 750
_PAGE_TOKENS: Final = 1_500
_BYTES_A_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Media:
    """A picture or document inside a request, as it was sent."""

    media_type: str
    data: str  # base64
    name: str = ""

    @property
    def content(self) -> bytes:
        """Raises ValueError when it is no base64."""
        return base64.b64decode(self.data, validate=True)

    @property
    def tokens(self) -> int:
        if self.media_type == PDF:
            return _PAGE_TOKENS * max(1, len(_PAGE.findall(self.content)))
        width, height = _pixels(self.content)
        return max(1, width * height // _PIXELS_A_TOKEN)


def of_url(url: str, name: str = "") -> Media | None:
    """What a data URL holds; None if it is none."""
    found = _URL.fullmatch(url)
    return Media(found[1], found[2], name) if found else None


def media_in(block: Any) -> Iterator[Media]:
    """What a block, message or item carries inside, in order; what is only referred to is not there."""
    match block:
        case {"type": "image" | "document", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            yield Media(kind, data, title if isinstance(title := block.get("title"), str) else "")
        case {"type": "input_image", "image_url": str(url)} | {"type": "image_url", "image_url": {"url": str(url)}}:
            yield from filter(None, (of_url(url),))
        case {"type": "input_file", "file_data": str(url), "filename": str(name)}:
            yield from filter(None, (of_url(url, name),))
        case {"type": "file", "file": {"file_data": str(url), "filename": str(name)}}:
            yield from filter(None, (of_url(url, name),))
        case {"content": list(inside)} | {"output": list(inside)} | list(inside):
            for each in inside:
                yield from media_in(each)


def seen(media: Iterable[Media]) -> list[SeenFile]:
    """As scripts see them."""
    return [SeenFile(each.name, each.media_type, each.content) for each in media]


def counted_as(content: object) -> int:
    """Bytes of a block's JSON, with what its pictures and documents cost in place of what they weigh. 0: no others."""
    media = list(media_in(content))
    if not media:
        return 0
    weighed = sum(len(each.data) for each in media)
    return len(to_json(content)) - weighed + sum(each.tokens for each in media) * _BYTES_A_TOKEN


# --- what is refused --------------------------------------------------------------------------------------------------


def check_block(block: dict[str, Any], where: str) -> None:
    """Anthropic's `image` and `document` blocks. Raises RefusalError."""
    source = block["source"]
    if source["type"] != "base64":
        return
    where, [media] = f"{where}.{block['type']}.source.base64", media_in(block)
    if block["type"] == "document":
        _check_pdf(media, f"{where}: The PDF specified was not valid.")
        return
    if len(media.data) > _MOST_PICTURE:
        raise RefusalError(f"{where}: image exceeds 5 MB maximum: {len(media.data)} bytes > {_MOST_PICTURE} bytes")
    if _kind(media, f"{where}.data: invalid base64 data") != media.media_type:
        raise RefusalError(
            f"{where}.media_type: Image does not match the provided media type {media.media_type}, or is damaged"
        )
    if max(_pixels(media.content)) > _MOST_PIXELS:
        raise RefusalError(
            f"{where}.data: At least one of the image dimensions exceed max allowed size: {_MOST_PIXELS} pixels"
        )


def check_many(media: Iterable[Media]) -> None:
    """Anthropic takes fewer pixels of each where there are many pictures. Raises RefusalError."""
    pictures = [each for each in media if each.media_type != PDF]
    if len(pictures) > _MANY and any(max(_pixels(each.content)) > _MOST_PIXELS_OF_MANY for each in pictures):
        raise RefusalError(
            "messages: At least one of the image dimensions exceed max allowed size for many-image requests: "
            f"{_MOST_PIXELS_OF_MANY} pixels"
        )


def check_part(part: dict[str, Any], where: str) -> None:
    """A part of a message in either of OpenAI's protocols. Raises RefusalError."""
    match part["type"]:
        case "input_image":
            _check_picture(_only(part, where, "image_url", "file_id"), f"{where}.image_url")
        case "image_url":
            _check_picture(
                _text(_inside(part, "image_url", where), "url", f"{where}.image_url"), f"{where}.image_url.url"
            )
        case "input_file":
            _check_file(part, where, ("file_data", "file_id", "file_url"))
        case "file":
            _check_file(_inside(part, "file", where), f"{where}.file", ("file_data", "file_id"))
        case "text" | "input_text":
            _text(part, "text", where)


def _check_picture(url: str, where: str) -> None:
    if not url or url.startswith(("http://", "https://")):
        return
    media = of_url(url)
    broken = f"Invalid '{where}'. Expected a base64-encoded data URL with an image MIME type"
    kind = _kind(media, broken) if media else ""
    if media is None or kind != media.media_type or kind == PDF:
        raise RefusalError(f"{broken} (png, jpeg, gif or webp) that its content has.", param=where)


def _check_file(file: dict[str, Any], where: str, ways: tuple[str, ...]) -> None:
    given = _only(file, where, *ways)
    if "file_data" not in file:
        return
    if not file.get("filename"):
        raise RefusalError(f"Missing required parameter: '{where}.filename'.", param=f"{where}.filename")
    broken = f"Invalid '{where}.file_data'. Expected a base64-encoded data URL with an application/pdf MIME type."
    media = of_url(given)
    if media is None or media.media_type != PDF:
        raise RefusalError(broken, param=f"{where}.file_data")
    _check_pdf(media, broken)


def _check_pdf(media: Media, broken: str) -> None:
    if media.media_type != PDF or _kind(media, broken) != PDF:
        raise RefusalError(broken)


def _only(part: dict[str, Any], where: str, *ways: str) -> str:
    """The one of these keys that is given. Raises RefusalError."""
    given = [key for key in ways if part.get(key) is not None]
    if len(given) != 1:
        raise RefusalError(f"Invalid '{where}': exactly one of {', '.join(ways)} must be given.", param=where)
    return _text(part, given[0], where)


def _inside(part: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    inside = part.get(key)
    if not isinstance(inside, dict):
        raise RefusalError(f"Missing required parameter: '{where}.{key}'.", param=f"{where}.{key}")
    return inside


def _text(part: dict[str, Any], key: str, where: str) -> str:
    said = part.get(key)
    if not isinstance(said, str):
        raise RefusalError(f"Missing required parameter: '{where}.{key}'.", param=f"{where}.{key}")
    return said


def _kind(media: Media, broken: str) -> str:
    """The type that the content shows; nothing if it is none that a model takes. Raises RefusalError."""
    try:
        content = media.content
    except (ValueError, binascii.Error):
        raise RefusalError(broken) from None
    found = next((kind for kind, beginning in _BEGINNINGS.items() if beginning.match(content)), "")
    return found if found == PDF or min(_pixels(content)) > 0 else ""


def _pixels(content: bytes) -> tuple[int, int]:
    width, height = imagesize.get(io.BytesIO(content))
    return width, height
