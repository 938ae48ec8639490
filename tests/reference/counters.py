"""One cumulative counter, reading by reading, in Python's own integers: the slow twin of stream.counters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class PlainCounter:
    """Its sort, its last reading and what was met."""

    bits: int
    most_per_s: int
    stamp_error_ns: int
    period_ns: int
    last: tuple[int, int] | None = None
    counted: Counter[str] = field(default_factory=Counter)

    def read(self, time_ns: int, count: int, since_ns: int | None) -> tuple[int, int | None, set[str]] | None:
        """Span, value (None = unknown) and quality of the window that a reading ends; None if it ends none."""
        if count >= 2**self.bits:
            self.counted["readings_out_of_range"] += 1
            return None
        if self.last is None:
            self.last = (time_ns, count)
            self.counted["baselines"] += 1
            return None
        last_ns, last_count = self.last
        if time_ns < last_ns:
            self.counted["out_of_order"] += 1
            return None
        if time_ns == last_ns:
            self.counted["duplicates" if count == last_count else "conflicts"] += 1
            return None
        self.last = (time_ns, count)
        span_ns = time_ns - last_ns
        most = Fraction(self.most_per_s * (span_ns + self.stamp_error_ns), 10**9)
        way = (count - last_count) % 2**self.bits
        quality: set[str] = set()
        value: int | None = way
        if (since_ns is not None and since_ns > last_ns) or way > most:
            quality, value = {"RESET", "GAP"}, None
            self.counted["resets"] += 1
        elif most >= 2**self.bits:
            quality, value = {"GAP"}, None
            self.counted["unclear_rounds"] += 1
        elif count < last_count:
            quality = {"WRAP"}
            self.counted["wraps"] += 1
        if self.period_ns and Fraction(span_ns, self.period_ns) > Fraction(3, 2):
            quality.add("GAP")
            self.counted["gaps"] += 1
        return span_ns, value, quality
