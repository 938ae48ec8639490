"""The three lines of docs/training.md run as they stand there, with a stand-in for what the training has."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stream import kinds
from stream.embedded import EmbeddedBroker
from stream.flow_id import job_id
from tests.stream.reading import batches_on

PAGE = (Path(__file__).resolve().parents[2] / "docs/training.md").read_text()


def test_the_loop_of_the_page_publishes_its_steps(
    embedded_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    hook = [line for line in code.splitlines() if "pausetrace" in line or "timer." in line]
    assert len(hook) == 3
    monkeypatch.setenv("RANK", "17")
    monkeypatch.setenv("PAUSETRACE_KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    monkeypatch.setenv("PAUSETRACE_KAFKA_PREFIX", embedded_broker.settings.prefix)
    did: list[str] = []
    has: dict[str, Any] = {
        "batches": range(4), "gradients": None, "all_reduce": lambda _: did.append("exchange"),
        "forward": lambda _: SimpleNamespace(backward=lambda: did.append("backward")),
        "optimizer": SimpleNamespace(step=lambda: did.append("optimizer")),
    }  # fmt: skip
    exec(compile(code, "docs/training.md", "exec"), has)
    has["timer"].close()
    assert did == ["backward", "exchange", "optimizer"] * 4
    rows = [(batch, row) for batch in batches_on(embedded_broker.settings, "host") for row in batch.events]
    assert [int(row["extra"]) for _, row in rows if row["kind"] == kinds.STEP_TIME] == list(range(4))
    assert sum(int(row["kind"]) == kinds.COMPUTE_TIME for _, row in rows) == 4
    assert {(batch.ports[row["port"]], int(row["flow"])) for batch, row in rows} == {("rank17", job_id("llama-70b"))}
