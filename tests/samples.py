"""Small files of every kind that models take, and of some that they do not."""

import struct
import zlib


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int = 30, height: int = 25, *, weight: int = 0) -> bytes:
    """A grey picture; `weight` more bytes in a chunk that nobody looks at."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x7f" * min(width, 4_000)) * min(height, 200))
    more = _chunk(b"noSe", b"\x01\x9c" * (weight // 2)) if weight else b""
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + more + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def pdf(pages: int = 1, *, weight: int = 0) -> bytes:
    kids = b"".join(b"<< /Type /Page /Parent 1 0 R >>\n" for _ in range(pages))
    return b"%PDF-1.7\n1 0 obj\n<< /Type /Pages >>\nendobj\n" + kids + b"%" * weight + b"\ntrailer << >>\n%%EOF\n"


JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xc0\x00\x0b\x08\x00\x19\x00\x1e\x01\x01\x11\x00\xff\xd9"
)
GIF = b"GIF89a\x1e\x00\x19\x00\x00\x00\x00;"
WEBP = b"RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"
CSV = "item;price\npaper, A4;12.50\n"
TAKEN = {
    "image/png": png(),
    "image/jpeg": JPEG,
    "image/gif": GIF,
    "image/webp": WEBP,
    "application/pdf": pdf(),
    "text/plain": "Grüße\n".encode(),
}
NOT_TAKEN = {
    "a program": b"MZ" + b"\x00" * 200,
    "a program for Linux": b"\x7fELF\x02\x01\x01" + b"\x00" * 100,
    "an archive": b"PK\x03\x04" + b"\x00" * 100,
    "text in another encoding": "Grüße".encode("latin-1"),
    "a picture without a size": b"\x89PNG\r\n\x1a\n" + b"\x00" * 40,
    "a PDF behind something else": b"\x00\x01junk" + pdf(),
    "nothing": b"",
}
