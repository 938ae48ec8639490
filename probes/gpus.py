"""What the GPUs of a host say of themselves: throttling, ECC errors and XIDs, as counters that only grow.

In: the host. Out: `Gpu`s. This host's are asked by NVML (nvidia-ml-py of the extra `probes`), where libnvidia-ml is; in
a recorded tree the file `nvml.json` answers: {"gpus": [{"pci": "0000:18:00.0", "throttled_ns": {"1": 0},
"ecc": {"1001": 0, "1002": 0}, "xids": {"79": 1}}]}, with codes of GPU_THROTTLE_CODES and GPU_ERROR_CODES.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from probes.host_root import HostRoot

LIBRARY = "libnvidia-ml.so.1"
ECC_CORRECTED, ECC_UNCORRECTED = 1001, 1002
MAX_GPUS = 64
MAX_XIDS = 1000
"""XIDs taken at one read; those of a storm come at the next."""


class Gpu(NamedTuple):
    """One GPU: time throttled by reason, and errors by code, since some time."""

    number: int
    pci: str
    throttled_ns: Mapping[int, int]
    errors: Mapping[int, int]
    sampled: frozenset[int] = frozenset()
    """Reasons whose time is estimated from looks at the GPU."""


class Gpus(Protocol):
    """The GPUs of a host."""

    def read(self, now_ns: int) -> list[Gpu]:
        """All that answer now."""

    def close(self) -> None:
        """Gives everything back; may be called twice."""


class NoGpusError(Exception):
    """Why there are none to ask."""


def why_none(host: HostRoot) -> str:
    """Why there are no GPUs, or nothing to ask them with, as far as that shows without asking; "" if there may be."""
    if not host.live:
        return "" if RecordedGpus(host).read(0) else "no GPU is recorded in nvml.json"
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return f"there is no {LIBRARY}: no NVIDIA driver is installed"
    if importlib.util.find_spec("pynvml") is None:
        return "nvidia-ml-py is not installed: python -m pip install 'pausetrace[probes]'"
    return ""


def gpus(host: HostRoot) -> Gpus:
    """The GPUs of a host. Raises NoGpusError where there are none, or nothing to ask them with."""
    if reason := why_none(host):
        raise NoGpusError(reason)
    if not host.live:
        return RecordedGpus(host)
    import pynvml

    try:
        return NvmlGpus(pynvml)
    except pynvml.NVMLError as err:
        raise NoGpusError(f"NVML says: {err}") from err


class RecordedGpus:
    """GPUs from the file of a recorded tree."""

    def __init__(self, host: HostRoot) -> None:
        self._host = host

    def read(self, now_ns: int) -> list[Gpu]:
        """All that the file tells of."""
        told = self._host.recorded("/nvml.json")
        listed = told.get("gpus") if isinstance(told, dict) else None
        found = []
        for index, gpu in enumerate(listed[:MAX_GPUS] if isinstance(listed, list) else ()):
            if isinstance(gpu, dict):
                pci = gpu.get("pci")
                errors = _counts(gpu.get("ecc")) | _counts(gpu.get("xids"))
                found.append(Gpu(index, pci if isinstance(pci, str) else "", _counts(gpu.get("throttled_ns")), errors))
        return found

    def close(self) -> None:
        """Nothing to give back."""


def _counts(told: Any) -> dict[int, int]:
    if not isinstance(told, dict):
        return {}
    return {
        int(code): count
        for code, count in told.items()
        if code.isascii() and code.isdigit() and len(code) < 6 and type(count) is int and 0 <= count < 1 << 64
    }


class NvmlGpus:
    """This host's GPUs: one call each and read, where the driver knows all the fields."""

    def __init__(self, nvml: Any) -> None:
        """Raises nvml.NVMLError."""
        self._nvml = nvml
        nvml.nvmlInit()
        self._open = True
        count = min(nvml.nvmlDeviceGetCount(), MAX_GPUS)
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self._pci = [_address(nvml.nvmlDeviceGetPciInfo(handle).busId) for handle in self._handles]
        self._events = self._listen()
        self._xids = [Counter[int]() for _ in self._handles]
        self._sampled_ns = [Counter[int]() for _ in self._handles]
        self._last_ns = 0
        self._fields = {
            nvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL: ECC_CORRECTED,
            nvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL: ECC_UNCORRECTED,
            nvml.NVML_FI_DEV_PERF_POLICY_POWER: 1,
            nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN: 2,
            nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN: 3,
            nvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN: 4,
            nvml.NVML_FI_DEV_PERF_POLICY_SYNC_BOOST: 5,
        }
        """Fields that count, with the codes that they stand for here; times are in ns."""
        self._bits = {
            1: nvml.nvmlClocksEventReasonSwPowerCap,
            2: nvml.nvmlClocksEventReasonSwThermalSlowdown,
            3: nvml.nvmlClocksEventReasonHwThermalSlowdown,
            4: nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
            5: nvml.nvmlClocksEventReasonSyncBoost,
        }

    def read(self, now_ns: int) -> list[Gpu]:
        """All that answer."""
        self._take_xids()
        passed_ns, self._last_ns = max(now_ns - self._last_ns, 0) if self._last_ns else 0, now_ns
        found = []
        for index, handle in enumerate(self._handles):
            try:
                found.append(self._of(index, handle, passed_ns))
            except self._nvml.NVMLError:
                continue  # one that fell off the bus: its XID says so
        return found

    def close(self) -> None:
        """Ends the session with NVML."""
        if self._open:
            self._open = False
            if self._events is not None:
                self._nvml.nvmlEventSetFree(self._events)
            self._nvml.nvmlShutdown()

    def _of(self, index: int, handle: Any, passed_ns: int) -> Gpu:
        throttled: dict[int, int] = {}
        errors: dict[int, int] = dict(self._xids[index])
        for value in self._nvml.nvmlDeviceGetFieldValues(handle, list(self._fields)):
            if value.nvmlReturn == self._nvml.NVML_SUCCESS:
                code = self._fields[value.fieldId]
                into = errors if code in (ECC_CORRECTED, ECC_UNCORRECTED) else throttled
                into[code] = int(value.value.ullVal)
        sampled = frozenset(self._bits.keys() - throttled.keys())
        if sampled:
            mask = self._nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
            for code in sampled:
                self._sampled_ns[index][code] += passed_ns if mask & self._bits[code] else 0
                throttled[code] = self._sampled_ns[index][code]
        return Gpu(index, self._pci[index], throttled, errors, sampled)

    def _listen(self) -> Any:
        """Has XIDs come as events; None where the driver cannot."""
        events = self._nvml.nvmlEventSetCreate()
        try:
            for handle in self._handles:
                self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, events)
        except self._nvml.NVMLError:
            self._nvml.nvmlEventSetFree(events)
            return None
        return events

    def _take_xids(self) -> None:
        for _ in range(MAX_XIDS if self._events is not None else 0):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                index = self._nvml.nvmlDeviceGetIndex(event.device)
            except self._nvml.NVMLError:
                return  # none waits
            if 0 <= index < len(self._xids):
                self._xids[index][int(event.eventData)] += 1


def _address(bus_id: bytes | str) -> str:
    """The PCI address as the kernel writes it: NVML's 00000000:3B:00.0 is 0000:3b:00.0."""
    text = (bus_id.decode("ascii", "replace") if isinstance(bus_id, bytes) else bus_id).lower()
    domain, _, rest = text.partition(":")
    return f"{domain[-4:]}:{rest}" if domain.startswith("0000") and len(domain) == 8 else text
