"""The bounds between what is said of a cascade and what is not.

Imports nothing, since who only reads cascades asks too.
"""

from __future__ import annotations

PPM = 1_000_000
VERDICT_PPM = 500_000
"""A cascade of lower confidence is a suspect set, not a verdict (docs/concepts.md)."""
SURE_PPM = 850_000
"""The same where devices are polled: statements above it were right as often as they say (docs/sampled.md)."""
ENOUGH_PERIODS = 3
"""Of fewer polls that show pause, one decides too much: the rules' mean is reported, and as a suspect set."""
TIMED_SHARE = 0.5
"""Where fewer of the stops have a known duration, most of what they are said to have cost is a guess: a suspect set."""
ACCEPT_PPM = 100_000
"""A root of at least this share of the blame is asserted (docs/diagnosis.md)."""
WARNING_SHARE, CRITICAL_SHARE = 0.05, 0.20
"""Steps of a job vary by some percent from one to the next: time lost that is a smaller share is lost in that."""
