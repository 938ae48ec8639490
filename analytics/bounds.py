"""The bounds between what is said of a cascade and what is not.

Imports nothing, since who only reads cascades asks too.
"""

from __future__ import annotations

PPM = 1_000_000
VERDICT_PPM = 500_000
"""A cascade of lower confidence is a suspect set, not a verdict (docs/concepts.md)."""
ACCEPT_PPM = 100_000
"""A root of at least this share of the blame is asserted (docs/diagnosis.md)."""
WARNING_SHARE, CRITICAL_SHARE = 0.05, 0.20
"""Steps of a job vary by some percent from one to the next: time lost that is a smaller share is lost in that."""
