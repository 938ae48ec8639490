"""A port's speed in Mb/s, however a device writes it: a number, `SPEED_400GB`, `400G`, `100 Gbps`.

In: the text or digits of a leaf, and the unit of its numbers. Out: Mb/s, 0 where nothing is said of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from collectors.profile import SpeedUnit

MAX_MBPS = 1 << 31
_PER_MBPS: Mapping[str, tuple[int, int]] = {
    "Mb/s": (1, 1),
    "kb/s": (1, 1_000),
    "b/s": (1, 1_000_000),
    "Gb/s": (1_000, 1),
}
_NUMBER = re.compile(r"[0-9]{1,15}")
_NAMED = re.compile(
    r"(?:[\w.-]*:)?(?:SPEED_|speed-)?([0-9]{1,6})(?:[._]([0-9]{1,3}))?\s*([KMGT])(?:B|b|bps|b/s|bit/s|bit|base.*|BASE.*)?",
    re.ASCII,
)
_MBPS_OF = {"K": 0.001, "M": 1, "G": 1_000, "T": 1_000_000}


def speed_mbps(text: str, unit: SpeedUnit = "Mb/s") -> int:
    """The speed in Mb/s; a number without a unit of its own is in `unit`."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        numerator, denominator = _PER_MBPS[unit]
        told = int(text) * numerator // denominator
    elif named := _NAMED.fullmatch(text):
        # A `B` is a bit here: OpenConfig writes SPEED_10GB for 10 Gb/s.
        told = round(float(f"{named[1]}.{named[2] or 0}") * _MBPS_OF[named[3]])
    else:
        return 0
    return told if 0 < told < MAX_MBPS else 0
