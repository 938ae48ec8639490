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
            return self._left_out("readings_out_of_range")
        if self.last is None:
            self.last = (time_ns, count)
            return self._left_out("baselines")
        last_ns, last_count = self.last
        if time_ns < last_ns:
            return self._left_out("out_of_order")
        if time_ns == last_ns:
            return self._left_out("duplicates" if count == last_count else "conflicts")
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

    def _left_out(self, why: str) -> None:
        self.counted[why] += 1
