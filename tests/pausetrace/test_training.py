"""The hook for training tells who is late, never waits for Kafka, breaks nothing, and counts what it loses."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import pausetrace
from pausetrace.step_sender import StepSender, Who
from pausetrace.tails_view import fabric_tails, items_on_kafka
from pausetrace.training import StepTimer
from stream import kinds
from stream.embedded import EmbeddedBroker
from stream.errors import ConfigError
from stream.facts import Device
from stream.flow_id import job_id
from stream.inventory import Inventory
from stream.kafka_settings import KafkaSettings
from stream.roster import SourceDown, SourceUp
from tests.pausetrace.process_groups import Group, Ranks
from tests.probes.sample_probes import wait_until
from tests.stream.reading import batches_on, items_on

NOWHERE = KafkaSettings("127.0.0.1:1")
ROOT = Path(__file__).resolve().parents[2]
WHO = Who("lab", "h1", 3, "llama", "mlx5_3")


def rows_on(kafka: KafkaSettings) -> list[tuple[str, int, int, int]]:
    """Port, kind, step and value of all rows of hosts, as the streams have them."""
    return [
        (batch.ports[int(row["port"])], int(row["kind"]), int(row["extra"]), int(row["value"]))
        for batch in batches_on(kafka, "host")
        for row in batch.events
    ]


def started(kafka: KafkaSettings) -> StepSender:
    sender = StepSender(kafka, WHO)
    sender.start()
    return sender


def test_the_rank_that_is_late_is_named_with_its_host_and_nic(embedded_broker: EmbeddedBroker) -> None:
    kafka = embedded_broker.settings
    ranks = Ranks(8)

    def train(group: Group) -> None:
        timer = pausetrace.StepTimer(
            job="llama", group=group, host=f"h{group.rank() // 4}", nic=f"mlx5_{group.rank() % 4}", fabric="lab",
            barrier=True, kafka=kafka, monotonic_ns=group.now_ns, clock_ns=group.now_ns,
        )  # fmt: skip
        for step in range(30):
            group.work(100 + group.rank() / 10 + (step * 7 + group.rank() * 3) % 5 / 10)
            group.work(60 * (group.rank() == 5 and step >= 20))
            with timer.exchange():
                group.barrier()
                group.work(20)
        timer.close()
        assert timer.counters["lost_rows"] == 0

    ranks.run(train)
    (found,) = fabric_tails(items_on_kafka(kafka), 10**9)
    (stall,) = found.stalls
    assert (stall.job, stall.first_step, stall.last_step, stall.ranks) == (f"{job_id('llama'):x}", 20, 29, 8)
    (behind,) = stall.ranks_behind
    assert (behind.device, behind.rank, behind.steps, stall.own_compute) == ("h1", "rank5", 10, True)
    assert (behind.nic, stall.job_name) == ("mlx5_1", "llama")


def test_every_rank_is_a_source_with_a_beginning_an_end_and_a_place(embedded_broker: EmbeddedBroker) -> None:
    kafka = embedded_broker.settings
    with_two = [StepTimer(job="j", rank=rank, host="h1", nic=f"mlx5_{rank}", kafka=kafka) for rank in (0, 1)]
    for timer in with_two:
        for _ in range(3):
            with timer.exchange():
                pass
        timer.close()
        timer.close()
    assert sorted(row[:3] for row in rows_on(kafka)) == sorted(
        (f"rank{rank}", kind, step)
        for rank in (0, 1)
        for kind in (kinds.STEP_TIME, kinds.COMPUTE_TIME)
        for step in range(3)
    )
    roster = items_on(kafka, "control")
    sources = {"training@h1/rank0", "training@h1/rank1"}
    assert {change.source for change in roster if isinstance(change, SourceUp)} == sources
    ends = [change for change in roster if isinstance(change, SourceDown)]
    assert {change.source for change in ends} == sources
    assert all({stream.topic: stream.last_seq for stream in end.streams}["host"] == 5 for end in ends)
    facts = [item for item in items_on(kafka, "device") if isinstance(item, Device)]
    inventory = Inventory.of(facts)
    assert [inventory.names.resolve("h1", f"rank{rank}")[:2] for rank in (0, 1)] == [("h1", "rank0"), ("h1", "rank1")]
    assert inventory.ranks() == {("h1", "rank0"): ("mlx5_0", "j"), ("h1", "rank1"): ("mlx5_1", "j")}


def test_a_step_goes_from_the_end_of_the_one_before_and_a_block_that_raises_tells_nothing(
    embedded_broker: EmbeddedBroker,
) -> None:
    kafka = embedded_broker.settings
    now_ns = [0]

    def work(ns: int) -> None:
        now_ns[0] += ns

    timer = StepTimer(rank=0, host="h1", kafka=kafka, first_step=7, monotonic_ns=lambda: now_ns[0])
    work(100)
    with timer.exchange():
        work(30)
    work(50)  # the optimizer and the next batch are its own compute
    with timer.exchange():
        work(10)
    work(1)
    with pytest.raises(RuntimeError, match="of the training"), timer.exchange():
        raise RuntimeError("of the training")
    work(5)
    with timer.exchange():
        work(2)
    timer.close()
    steps = [(kind, step, value) for _, kind, step, value in rows_on(kafka)]
    compute, whole = kinds.COMPUTE_TIME, kinds.STEP_TIME
    assert steps == [
        (compute, 7, 100), (whole, 7, 130), (compute, 8, 50), (whole, 8, 60), (compute, 9, 1), (compute, 9, 5),
        (whole, 9, 7),
    ]  # fmt: skip


def test_no_broker_neither_stops_the_training_nor_loses_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    timer = StepTimer(rank=0, host="h1", kafka=NOWHERE)
    for _ in range(100):
        with timer.exchange():
            pass
    assert timer.counters["waiting_rows"] == 200
    with caplog.at_level(logging.WARNING):
        timer._sender.close(0.0)
    assert (timer.counters["lost_rows"], timer.counters["waiting_rows"]) == (200, 0)
    assert "200 rows of steps of rank0 were lost" in caplog.text


def test_what_does_not_fit_is_dropped_oldest_first_and_told_on_the_topic(embedded_broker: EmbeddedBroker) -> None:
    kafka = embedded_broker.settings
    sender = StepSender(kafka, WHO, most_waiting=10)
    for step in range(25):
        sender.stamp(kinds.STEP_TIME, step, 1000)
    sender.start()
    sender.close()
    rows = rows_on(kafka)
    lost = [row for row in rows if row[1] == kinds.SOURCE_LOST]
    assert [row[2] for row in rows if row[1] == kinds.STEP_TIME] == list(range(15, 25))
    assert sum(row[3] for row in lost) == 15
    assert {row[2] for row in lost} == {1}
    assert sender.counters["lost_rows"] == 15


def test_rows_of_an_outage_come_when_the_broker_is_back() -> None:
    with EmbeddedBroker() as broker:
        sender = started(broker.settings)
        sender.stamp(kinds.STEP_TIME, 0, 1000)
        wait_until(lambda: sender.counters.get("delivered", 0) >= 3)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            for step in range(1, 40):
                sender.stamp(kinds.STEP_TIME, step, 1000)
            time.sleep(0.3)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        sender.close(10.0)
        assert [row[2] for row in rows_on(broker.settings)] == list(range(40))
        assert sender.counters["lost_rows"] == 0


def test_a_clock_that_is_set_back_begins_the_stream_anew(embedded_broker: EmbeddedBroker) -> None:
    kafka = embedded_broker.settings
    now_ns = [1_800_000_000_000_000_000]
    sender = StepSender(kafka, WHO, clock_ns=lambda: now_ns[0])
    sender.start()
    sender.stamp(kinds.STEP_TIME, 0, 1000)
    wait_until(lambda: sender.counters.get("rows", 0) == 1)
    now_ns[0] -= 3_600_000_000_000
    wait_until(lambda: len([i for i in items_on(kafka, "control") if isinstance(i, SourceUp)]) == 2)
    sender.stamp(kinds.STEP_TIME, 1, 1000)
    sender.close()
    assert sender.counters["late_rows"] == 0
    assert len({batch.stream.epoch for batch in batches_on(kafka, "host") if len(batch.events)}) == 2
    assert [row[2] for row in rows_on(kafka)] == [0, 1]


def test_what_fails_beside_the_training_is_counted_and_goes_no_further(embedded_broker: EmbeddedBroker) -> None:
    def broken() -> None:
        raise RuntimeError("CUDA error: an illegal memory access")

    timer = StepTimer(rank=0, host="h1", kafka=embedded_broker.settings, wait_for_device=broken)
    with timer.exchange():
        pass
    timer.close()
    assert timer.counters["errors"] == 3
    assert [row[1] for row in rows_on(embedded_broker.settings)] == [kinds.COMPUTE_TIME, kinds.STEP_TIME]


def test_rows_that_no_reader_would_take_are_lost_and_counted(embedded_broker: EmbeddedBroker) -> None:
    kafka = embedded_broker.settings
    sender = started(kafka)
    sender.stamp(kinds.STEP_TIME, -1, 1000)
    wait_until(lambda: sender.counters["failures"] == 1)
    sender.stamp(kinds.STEP_TIME, 1, 1000)
    wait_until(lambda: sender.counters["waiting_rows"] == 0)
    sender.close()
    assert sender.counters["dropped_rows"] == 1
    steps = [row for row in rows_on(kafka) if row[1] == kinds.STEP_TIME]
    assert [row[2] for row in steps] == [1]


def test_the_end_of_the_process_ends_the_stream_in_order(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    script = "\n".join(
        (
            "import pausetrace",
            "timer = pausetrace.StepTimer(job='j')",
            "for batch in range(5):",
            "    with timer.exchange():",
            "        pass",
        )
    )
    environment = {
        **os.environ, "RANK": "17", "NCCL_IB_HCA": "=mlx5_3:1", "PAUSETRACE_PROBES_DEVICE": "gpu-1",
        "PYTHONPATH": str(ROOT),
        "PAUSETRACE_KAFKA_BOOTSTRAP_SERVERS": embedded_broker.bootstrap_servers, "PAUSETRACE_PROBES_FABRIC": "lab",
        "PAUSETRACE_KAFKA_PREFIX": embedded_broker.settings.prefix,
    }  # fmt: skip
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True, timeout=60)
    assert len(rows_on(embedded_broker.settings)) == 10
    (fact,) = (item for item in items_on(embedded_broker.settings, "device") if isinstance(item, Device))
    assert (fact.fabric, fact.device, fact.ports[0].port, fact.ports[0].nic) == ("lab", "gpu-1", "rank17", "mlx5_3")
    assert any(isinstance(change, SourceDown) for change in items_on(embedded_broker.settings, "control"))


class _Distributed:
    """Stands in for torch.distributed."""

    barriers = 0

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def get_rank(self) -> int:
        return 5

    def barrier(self) -> None:
        self.barriers += 1


def test_torch_is_used_where_the_training_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    synchronized = []
    cuda = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, synchronize=lambda: synchronized.append(1)
    )
    distributed = _Distributed()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, distributed=distributed))
    timer = StepTimer(kafka=NOWHERE, barrier=True)
    assert timer._sender._who.rank == 5
    with timer.exchange():
        pass
    assert distributed.barriers == 1
    assert len(synchronized) == 4
    timer._sender.close(0.0)


def test_an_error_of_the_barrier_is_the_trainings_own() -> None:
    class Broken:
        def rank(self) -> int:
            return 0

        def barrier(self) -> None:
            raise RuntimeError("timed out")

    timer = StepTimer(group=Broken(), barrier=True, kafka=NOWHERE)
    with pytest.raises(RuntimeError, match="timed out"), timer.exchange():
        pass
    timer._sender.close(0.0)


def test_work_of_a_group_is_waited_for() -> None:
    waited = []

    class Asynchronous:
        def rank(self) -> int:
            return 0

        def barrier(self) -> object:
            return SimpleNamespace(wait=lambda: waited.append(1))

    timer = StepTimer(group=Asynchronous(), barrier=True, kafka=NOWHERE)
    with timer.exchange():
        pass
    assert waited == [1]
    timer._sender.close(0.0)


@pytest.mark.parametrize("told", ["", "mlx5_0,mlx5_1", "^mlx5_3", "mlx5"])
def test_a_nic_that_is_one_of_several_is_not_told(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_IB_HCA", told)
    timer = StepTimer(rank=0, kafka=NOWHERE)
    assert timer._sender._who.nic == ""
    timer._sender.close(0.0)


def test_what_is_wrong_from_the_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ConfigError, match="which rank"):
        StepTimer(kafka=NOWHERE)
    with pytest.raises(ConfigError, match="rank -1"):
        StepTimer(rank=-1, kafka=NOWHERE)
    with pytest.raises(ConfigError, match="first_step -1"):
        StepTimer(rank=0, first_step=-1, kafka=NOWHERE)
