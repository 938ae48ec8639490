"""Numbers for people: durations, bytes, shares and times, with units and three significant digits.

Times are RFC 3339 in UTC with nanoseconds; local time is an option of the caller.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal

NS_PER_S = 1_000_000_000
PPM = 1_000_000

_DURATIONS = (("s", NS_PER_S), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))
_RATES = (("Tb/s", 10**6), ("Gb/s", 1_000), ("Mb/s", 1))
_BYTES = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1_000), ("B", 1))


def duration_text(duration_ns: int) -> str:
    """A duration: 412 µs, 1.55 ms, 2 min 5 s."""
    seconds = abs(duration_ns) // NS_PER_S
    if seconds >= 120:
        sign = "-" if duration_ns < 0 else ""
        minutes, rest = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{sign}{hours} h {minutes} min" if hours else f"{sign}{minutes} min {rest} s"
    return _scaled(duration_ns, _DURATIONS)


_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}
_DURATION = re.compile(rf"(\d{{1,15}}(?:\.\d{{1,9}})?) ?({'|'.join(_UNITS_NS)})")


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration such as 500ms, 2s or 1.5m; raises ValueError that says what is one."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"is no duration: write a number with {', '.join(_UNITS_NS)}, such as 500ms")
    return int(Decimal(match[1]) * _UNITS_NS[match[2]])


def duration_words(duration_ns: int) -> str:
    """The shortest text that `parse_duration` reads as this: 500ms, 2s."""
    for unit in ("s", "ms", "us"):
        if duration_ns % _UNITS_NS[unit] == 0:
            return f"{duration_ns // _UNITS_NS[unit]}{unit}"
    return f"{duration_ns}ns"


def bytes_text(count: int) -> str:
    """A number of bytes in decimal units: 2.91 MB."""
    return _scaled(count, _BYTES)


def rate_text(mbps: int) -> str:
    """A rate in bits a second: 97.5 Gb/s."""
    return _scaled(mbps, _RATES)


def share_text(share_ppm: int) -> str:
    """A share of one in percent; a small one is not rounded to nothing."""
    if 0 < share_ppm < PPM // 1000:
        return "<0.1 %"
    if PPM - PPM // 1000 < share_ppm < PPM:
        return ">99.9 %"
    percent = share_ppm / (PPM // 100)
    return f"{percent:.0f} %" if share_ppm in (0, PPM) else f"{percent:.1f} %"


def part_text(part_ppm: int) -> str:
    """A part of one with two digits; rounded down, so that .5 stays a bound."""
    return f"{part_ppm // 10_000 / 100:.2f}"


def time_text(time_ns: int, local: bool = False) -> str:
    """RFC 3339 with nanoseconds, in UTC unless local time is asked for."""
    seconds, ns = divmod(time_ns, NS_PER_S)
    moment = datetime.fromtimestamp(seconds, UTC)
    if local:
        moment = moment.astimezone()
    zone = moment.strftime("%z") if local else ""
    offset = f"{zone[:3]}:{zone[3:5]}" if zone else "Z"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns:09d}{offset}"


def parse_time(text: str) -> int:
    """Nanoseconds since the epoch of an RFC 3339 time, which must say its zone; raises ValueError."""
    whole, fraction, zone = _split_time(text.strip())
    moment = datetime.fromisoformat(f"{whole}{zone}")
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no zone: end it with Z or +01:00")
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since_epoch.days * 86_400 + since_epoch.seconds) * NS_PER_S + int(fraction.ljust(9, "0"))


def _split_time(text: str) -> tuple[str, str, str]:
    """The whole seconds, the digits of the fraction and the zone."""
    head, dot, tail = text.partition(".")
    if not dot:
        return text, "", ""
    digits = len(tail) - len(tail.lstrip("0123456789"))
    if not 1 <= digits <= 9:
        raise ValueError(f"{text!r} has a fraction of {digits} digits; 1 to 9 are allowed")
    return head, tail[:digits], tail[digits:]


def _scaled(number: int, units: tuple[tuple[str, int], ...]) -> str:
    for index, (unit, size) in enumerate(units):
        if abs(number) < size and size != 1:
            continue
        scaled = number / size
        if abs(scaled) >= 999.5 and index and size != 1:
            unit, scaled = units[index - 1][0], 1.0 if number > 0 else -1.0
        digits = 0 if size == 1 or abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
        text = f"{scaled:.{digits}f}"
        return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"
    return f"{number} {units[-1][0]}"
