"""detect and correlate over items in one process, without a broker: what `analyze` and `evaluate` run."""

from __future__ import annotations

from collections.abc import Iterable

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream.cascade import Cascade
from stream.file_runner import run_steps
from stream.messages import Item


def final_cascades(items: Iterable[Item], batch_size: int = 1000) -> list[Cascade]:
    """The final cascades of a fabric whose sources have all gone down by the last item."""
    made = run_steps(items, [Detect()], Correlate(), batch_size)
    return [item for item in made if isinstance(item, Cascade)]
