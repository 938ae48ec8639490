"""Pure functions on arrays, compiled by Numba: from events to episodes, cascades and verdicts.

No I/O, no clock, and no way to Kafka: whatever it says can be replayed byte for byte.
"""
