"""What a test may need of its machine: where that is missing, a marked test is skipped and says how to enable it.

`PAUSETRACE_FAST=1` leaves the slow tests out; `PAUSETRACE_REQUIRE=all` turns a skip of whatever origin into a failure.
"""

import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Generator

import pytest

from probes.compile import bcc_directory

pytest_plugins = ["tests.kafka_brokers", "tests.secure_kafka"]

KAFKA_IMAGE = "apache/kafka:4.1.1"
PROMETHEUS_IMAGE = "prom/prometheus:v2.42.0"
DOCKER_DEADLINE_S = 30


def _docker_answers(*arguments: str) -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        call = subprocess.run([docker, *arguments], capture_output=True, timeout=DOCKER_DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return call.returncode == 0


@functools.cache
def _docker_lacks() -> str | None:
    if _docker_answers("info"):
        return None
    return "no Docker engine answers: install one (Debian: apt-get install docker.io), start it, and join its group"


def _image_lacks(image: str) -> str | None:
    if lacks := _docker_lacks():
        return lacks
    return None if _docker_answers("image", "inspect", image) else f"the engine has no such image: docker pull {image}"


@functools.cache
def _kafka_lacks() -> str | None:
    return _image_lacks(KAFKA_IMAGE)


@functools.cache
def _prometheus_lacks() -> str | None:
    return _image_lacks(PROMETHEUS_IMAGE)


def _kcat_lacks() -> str | None:
    return None if shutil.which("kcat") else "no kcat on the PATH: apt-get install kcat"


def _ebpf_lacks() -> str | None:
    if os.geteuid() != 0:
        return "BPF programs need root: run the tests as root"
    if bcc_directory() is None:
        return "bcc is not installed: apt-get install python3-bpfcc"
    return None


def _clocks_lacks() -> str | None:
    if os.geteuid() != 0:
        return "daemons that keep a clock need root: run the tests as root"
    missing = [name for name in ("chronyd", "chronyc", "ptp4l", "ip") if not shutil.which(name)]
    return f"no {', '.join(missing)} on the PATH: apt-get install chrony linuxptp iproute2" if missing else None


def _go_lacks() -> str | None:
    return None if shutil.which("go") else "no Go toolchain on the PATH: install Go"


def _graphviz_lacks() -> str | None:
    return None if shutil.which("dot") else "no dot on the PATH: apt-get install graphviz"


def _browser_lacks() -> str | None:
    return None if shutil.which("chromium") else "no chromium on the PATH: apt-get install chromium"


def _slow_lacks() -> str | None:
    return "PAUSETRACE_FAST=1 leaves slow tests out: unset it" if os.environ.get("PAUSETRACE_FAST") == "1" else None


# What each marker asks of the machine; the answer says what to do, or is None where nothing is missing.
LACKS: dict[str, Callable[[], str | None]] = {
    "browser": _browser_lacks,
    "clocks": _clocks_lacks,
    "docker": _docker_lacks,
    "ebpf": _ebpf_lacks,
    "go": _go_lacks,
    "graphviz": _graphviz_lacks,
    "kafka": _kafka_lacks,
    "kcat": _kcat_lacks,
    "prometheus": _prometheus_lacks,
    "slow": _slow_lacks,
}


@pytest.fixture(scope="session")
def kafka_image() -> str:
    """The image of the real Kafka that tests run against, the same as in docker-compose.yml."""
    return KAFKA_IMAGE


@pytest.fixture(scope="session")
def prometheus_image() -> str:
    """The image of Prometheus that the alert rules run on, the same as in docker-compose.yml."""
    return PROMETHEUS_IMAGE


def pytest_configure(config: pytest.Config) -> None:
    required = os.environ.get("PAUSETRACE_REQUIRE", "")
    if required not in ("", "all"):
        raise pytest.UsageError(f"PAUSETRACE_REQUIRE={required} is not known: it takes `all` or nothing")
    # A shell's background job is started deaf to these, and so would be the processes that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for name, lacks in LACKS.items():
        if item.get_closest_marker(name) and (reason := lacks()):
            pytest.skip(f"{name}: {reason}")


# Both are the outermost wrappers, so that they see a skip however it came about: by a marker, a call, a fixture,
# unittest, an empty parameter set, or a module that skips itself while it is collected.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("PAUSETRACE_REQUIRE") != "all" or not report.skipped:
        return
    if hasattr(report, "wasxfail"):
        if "[NOTRUN]" not in report.wasxfail:
            return  # it ran, and failed as it said it would
        del report.wasxfail  # pytest counts no failure that bears it
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid}: PAUSETRACE_REQUIRE=all allows no skip, but this was one: {reason}"
