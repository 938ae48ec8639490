"""A lossless fabric in a model that runs in seconds: queues, pauses and rate control, held against packet-level traces.

What it models, how near it comes and what it leaves out is in docs/simulation.md.
"""

from simulation.fabric.scenarios import SCENARIOS
from simulation.fabric.stories import SLOWBURN, Story, story

__all__ = ["SCENARIOS", "SLOWBURN", "Story", "story"]
