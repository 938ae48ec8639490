"""Which of many like series stands out now: against its peers, against its own past, and by how much for how long.

In: one sample a series and tick, as arrays. Out: robust z scores, CUSUM and decayed means, as arrays.
"""
