"""The progress bar's estimate counts what this process has done, and not what one before it did."""

from __future__ import annotations

import time

from pausetrace.progress import REFRESH_S, Bar


def test_what_was_done_before_makes_nothing_seem_faster() -> None:
    with Bar("capturing", "messages") as bar:
        for done in (1_000_000, 1_000_010, 1_000_020):
            bar.update(done, 2_000_000)
            time.sleep(1.1 * REFRESH_S)
        (task,) = bar._progress.tasks
        assert task.completed == 1_000_020
        assert task.speed is not None
        assert 1 < task.speed < 1000
        assert task.time_remaining is not None
        assert task.time_remaining > 1000
        assert float(task.fields["rate"].split(" ")[0]) < 1000
