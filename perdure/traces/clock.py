"""Times for people: always with their zone, and how long ago. For machines: ISO 8601 with offset.

`zone` None is the zone of the machine that shows them.
"""

from datetime import datetime, tzinfo

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def stamp(at: datetime, zone: tzinfo | None = None) -> str:
    """`2026-11-29 16:41:03 +09:00`"""
    told = at.astimezone(zone).isoformat(" ", "seconds")
    return f"{told[:19]} {told[19:]}"


def clock(at: datetime, zone: tzinfo | None = None) -> str:
    """`16:41:03+09:00`, or `16:41:03Z`"""
    return at.astimezone(zone).strftime("%H:%M:%S") + offset(at, zone)


def offset(at: datetime, zone: tzinfo | None = None) -> str:
    told = at.astimezone(zone).isoformat()[-6:]
    return "Z" if told == "+00:00" else told


def day(at: datetime, zone: tzinfo | None = None) -> str:
    return at.astimezone(zone).date().isoformat()


def lasted(seconds: float) -> str:
    """`23 ms`, `0.2 s`, `41 s`, `2 min 3 s`, `3 h 4 min`, `2 d 3 h`"""
    if 0 <= seconds < 0.095:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def relative(at: datetime, now: datetime) -> str:
    """`2 min ago`, `in 3 h`"""
    seconds = (now - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    words = lasted(max(10.0, abs(seconds))) if abs(seconds) >= 9.5 else f"{abs(seconds):.0f} s"
    return f"{words} ago" if seconds > 0 else f"in {words}"
