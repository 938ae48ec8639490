"""Independent truth: readers of recorded traces, and scenarios whose root cause is known.

It shares no code with analytics, so that what it says can judge what analytics says.
"""
