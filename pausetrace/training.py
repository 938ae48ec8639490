"""The hook for a training loop: when a rank ended its own compute, and when its step was over.

In: two moments of each step. Out: COMPUTE_TIME and STEP_TIME on the host topic. Three lines of a loop of PyTorch:

    import pausetrace
    timer = pausetrace.StepTimer(job="llama-70b")
    ...
        with timer.exchange():
            all_reduce(gradients)

PyTorch is no dependency: what is there of it is used. Nothing that goes wrong here reaches the training.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol

from pausetrace.config import load
from pausetrace.kafka_access import settings_of
from pausetrace.step_sender import StepSender, Who
from stream.errors import ConfigError
from stream.kafka_settings import KafkaSettings
from stream.kinds import COMPUTE_TIME, STEP_TIME
from stream.sampled_log import SampledLog

_log = logging.getLogger(__name__)

DEFAULT_JOB = "job"
JOB_VARIABLES = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")
"""Which name a job has, where nobody tells."""


class ProcessGroup(Protocol):
    """What is used of a process group of torch.distributed."""

    def rank(self) -> int:
        """This process in the group."""
        ...

    def barrier(self) -> Any:
        """Returns when all ranks have come here, or something to `wait()` for that."""
        ...


class StepTimer:
    """Times the steps of one rank; `close` it, or let the end of the process do so.

    A step begins where the one before it ended, so that loading data and the optimizer count as the rank's own compute.
    """

    def __init__(
        self,
        *,
        job: str = "",
        rank: int | None = None,
        host: str = "",
        nic: str = "",
        fabric: str = "",
        group: ProcessGroup | None = None,
        barrier: bool = False,
        first_step: int = 0,
        wait_for_device: Callable[[], object] | None = None,
        kafka: KafkaSettings | None = None,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """What is not given is looked for: the rank in `group`, torch.distributed and $RANK; the NIC in $NCCL_IB_HCA
        where that names a single one; Kafka, the fabric and the host in the configuration that the host's agent of
        `pausetrace probe` has (`PAUSETRACE_*` variables, pausetrace.toml).

        `barrier`: each exchange ends with a barrier of the group, so that all ranks begin the next step together.
        `wait_for_device`: called before each time is taken, so that work that was only launched is done; by default
        torch.cuda.synchronize where CUDA is in use. Raises ConfigError for what is wrong at once, later nothing.
        """
        self._group = group
        self._barrier = barrier
        number = _rank(group) if rank is None else rank
        if number < 0:
            raise ConfigError(f"rank {number} is no rank", "give rank=, counted from 0")
        if first_step < 0:
            raise ConfigError(f"first_step {first_step} is no step", "steps count from 0")
        job = job or next((name for name in map(os.environ.get, JOB_VARIABLES) if name), DEFAULT_JOB)
        config = load({}, os.environ).config
        device = host or config.probes.device or socket.gethostname()
        who = Who(fabric or config.probes.fabric, device, number, job, nic or _nic())
        self._wait_for_device = wait_for_device or _wait_for_cuda
        self._monotonic_ns = monotonic_ns
        self._warnings = SampledLog(_log)
        self._errors = 0
        self.step = first_step
        """The step that is going on."""
        self._sender = StepSender(kafka or settings_of(config.kafka), who, clock_ns=clock_ns)
        self._sender.start()
        atexit.register(self.close)
        self._began_ns = self._now_ns()

    @property
    def counters(self) -> Mapping[str, int]:
        """Rows stamped, published and lost, and errors of the hook itself."""
        return {**self._sender.counters, "errors": self._errors}

    def exchange(self) -> Exchange:
        """`with` it around what needs the other ranks: where it begins, the rank's own compute ends; its end is the
        step's. A block that raises tells nothing, and the step begins anew.
        """
        return Exchange(self)

    def close(self) -> None:
        """Sends what waits, for two seconds at most, and lets go of Kafka, for a second and a half at most."""
        atexit.unregister(self.close)
        try:
            self._sender.close()
        except Exception as err:  # noqa: BLE001 - the training has ended well
            self._warnings.warning("the end of the steps could not be told: %s", err)

    def _computed(self) -> None:
        self._stamp(COMPUTE_TIME)

    def _exchanged(self) -> None:
        ended_ns = self._stamp(STEP_TIME)
        if self._barrier:
            # Its errors are the training's own.
            _wait_at_barrier(self._group)
            ended_ns = self._now_ns()
        self._began_ns = ended_ns
        self.step += 1

    def _failed(self) -> None:
        self._began_ns = self._now_ns()

    def _stamp(self, kind: int) -> int:
        now_ns = self._now_ns()
        try:
            self._sender.stamp(kind, self.step, now_ns - self._began_ns)
        except Exception as err:  # noqa: BLE001 - whatever it is, the training goes on
            self._errors += 1
            self._warnings.warning("a time was not taken: %s", err)
        return now_ns

    def _now_ns(self) -> int:
        try:
            self._wait_for_device()
        except Exception as err:  # noqa: BLE001 - if the device is broken, the training's own next call says so
            self._errors += 1
            self._warnings.warning("the device cannot be waited for: %s", err)
        return self._monotonic_ns()


class Exchange:
    """One exchange of a step; made by `StepTimer.exchange`."""

    __slots__ = ("_timer",)

    def __init__(self, timer: StepTimer) -> None:
        self._timer = timer

    def __enter__(self) -> None:
        self._timer._computed()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._timer._exchanged()
        else:
            self._timer._failed()


def _torch() -> Any:
    """PyTorch, if the training has imported it: importing it here would cost seconds."""
    return sys.modules.get("torch")


def _distributed() -> Any:
    """torch.distributed, if it is in use."""
    distributed = getattr(_torch(), "distributed", None)
    return (
        distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None
    )


def _rank(group: ProcessGroup | None) -> int:
    if group is not None:
        return group.rank()
    distributed = _distributed()
    if distributed is not None:
        return int(distributed.get_rank())
    told = os.environ.get("RANK", "")
    if told.isdecimal():
        return int(told)
    raise ConfigError(
        "nobody tells which rank this is",
        "give rank=, or make the StepTimer after torch.distributed.init_process_group",
    )


def _wait_at_barrier(group: ProcessGroup | None) -> None:
    if group is None:
        distributed = _distributed()
        if distributed is not None:
            distributed.barrier()
        return
    work = group.barrier()
    if hasattr(work, "wait"):
        work.wait()


def _wait_for_cuda() -> None:
    cuda = getattr(_torch(), "cuda", None)
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()


def _nic() -> str:
    """The only device that NCCL is told to use: `=mlx5_3:1` is mlx5_3; "" where it may choose."""
    told = os.environ.get("NCCL_IB_HCA", "")
    if told.startswith("^") or "," in told or not told.startswith("="):
        return ""
    return told.lstrip("=").partition(":")[0]
