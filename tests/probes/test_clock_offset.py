"""The clock's offset: real replies of chronyd and ptp4l, and the daemons themselves beside their own clients."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.clock_offset import ClockError, Offset, chrony, chrony_reply, clock_offset, kernel, ptp_reply, ptp_request
from probes.host_root import HostRoot
from stream.kinds import UNKNOWN

SEQUENCE = 0x01020304
# chronyd 4.3: "System time: 0.000002401 seconds fast of NTP time", root delay 7.018 us, root dispersion 1.709 us.
CHRONY = bytes.fromhex(
    "060200000021000500000000000000000102030400000000000000007f0000017f0000010000000000000000000000000001000000060000"
    "000000006b0ec38b0f69e172df5edffed4eafddbd8e864a8f75e6750f2f1af78fea993f9e0eb7c29dce4a8cf04c3ad06"
)
# ptp4l 3.1.1: stepsRemoved 1, offsetFromMaster -24.0, meanPathDelay 1647.0.
PTP = bytes.fromhex(
    "0d0200480000000000000000000000000000000022e347fffec0b52500000000047f00000000000000000000000002000001001420010001"
    "ffffffffffe8000000000000066f0000"
)
DEADLINE_S = 30.0
ROOT = Path(__file__).parents[2]


def test_chronyd_says_by_how_much_the_clock_is_slow() -> None:
    found = chrony_reply(CHRONY, SEQUENCE)
    assert found is not None
    assert found.source == "chrony"
    assert abs(found.offset_ns - 2_401) <= 1
    assert abs(found.error_ns - (1_709 + 7_018 // 2)) <= 10


def test_a_clock_that_follows_nobody_has_no_offset() -> None:
    at = 28 + 4 + 20 + 2
    assert chrony_reply(CHRONY[:at] + b"\0\3" + CHRONY[at + 2 :], SEQUENCE) is None
    at = 34 + 14 + 6
    assert ptp_reply(PTP[:at] + b"\0\0" + PTP[at + 2 :]) is None


def test_ptp4l_says_by_how_much_the_clock_is_ahead() -> None:
    assert ptp_reply(PTP) == Offset("ptp4l", -24, UNKNOWN)
    assert struct.unpack_from("!H", ptp_request(), 2)[0] == len(ptp_request())


@pytest.mark.parametrize("sequence", [0, SEQUENCE + 1])
def test_a_reply_to_another_request_is_refused(sequence: int) -> None:
    with pytest.raises(ClockError, match="none to this request"):
        chrony_reply(CHRONY, sequence)


@given(st.binary(max_size=120), st.integers(0, 100))
def test_replies_of_any_bytes_are_an_offset_or_an_error(data: bytes, at: int) -> None:
    for reply in (data, CHRONY[:at] + data, CHRONY[:at] + data + CHRONY[at + len(data) :]):
        try:
            found = chrony_reply(reply, SEQUENCE)
        except ClockError:
            continue
        assert found is None or (abs(found.offset_ns) < 1 << 62 and 0 <= found.error_ns < 1 << 62)
    for reply in (data, PTP[:at] + data, PTP[:at] + data + PTP[at + len(data) :]):
        try:
            found = ptp_reply(reply)
        except ClockError:
            continue
        assert found is None or abs(found.offset_ns) < 1 << 62


def test_a_daemon_that_is_silent_or_not_there_takes_half_a_second_at_most() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(TimeoutError):
            chrony(silent.getsockname()[1])
        port = silent.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        chrony(port)


def test_this_host_answers_or_not_but_does_not_fail() -> None:
    for found in (kernel(), clock_offset(HostRoot())):
        assert found is None or found.source in ("chrony", "ptp4l", "kernel")


class Daemons:
    """Processes that end with the test."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str) -> None:
        """Starts one."""
        self._started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def end(self) -> None:
        """Ends all."""
        for process in self._started:
            process.terminate()
        for process in self._started:
            process.wait(DEADLINE_S)


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    started = Daemons()
    yield started
    started.end()


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.clocks
@pytest.mark.slow
def test_chronyd_beside_its_own_client(daemons: Daemons, tmp_path: Path) -> None:
    ntp, commands = free_port(), free_port()
    server, client = tmp_path / "server.conf", tmp_path / "client.conf"
    common = f"bindcmdaddress /\npidfile {tmp_path}/"
    server.write_text(f"local stratum 5\nport {ntp}\ncmdport 0\nallow 127.0.0.1\n{common}server.pid\n")
    client.write_text(
        f"server 127.0.0.1 port {ntp} iburst minpoll -2 maxpoll 0\nport 0\ncmdport {commands}\n"
        f"bindcmdaddress 127.0.0.1\npidfile {tmp_path}/client.pid\n"
    )
    for file in (server, client):
        # -x leaves the clock of this machine alone.
        daemons.start("chronyd", "-d", "-x", "-u", "root", "-f", str(file))
    found, end_s = None, time.monotonic() + DEADLINE_S
    while found is None and time.monotonic() < end_s:
        time.sleep(0.2)
        try:
            found = chrony(commands)
        except OSError:
            continue
    # The offset moves between two questions: the client's must be one of those that lie around it.
    around = []
    said = ""
    for _ in range(3):
        before = chrony(commands)
        said = subprocess.run(
            ["chronyc", "-n", "-h", "127.0.0.1", "-p", str(commands), "tracking"],
            capture_output=True, text=True, check=True, timeout=DEADLINE_S,
        ).stdout  # fmt: skip
        after = chrony(commands)
        assert before is not None
        assert after is not None
        told = re.search(r"System time\s*: ([0-9.]+) seconds (fast|slow)", said)
        assert told is not None
        offset_ns = round(float(told[1]) * 1e9) * (1 if told[2] == "fast" else -1)
        low, high = sorted((before.offset_ns, after.offset_ns))
        around.append(low - 2 <= offset_ns <= high + 2)
    assert any(around), said


@pytest.mark.clocks
@pytest.mark.slow
def test_ptp4l_beside_a_master(daemons: Daemons, tmp_path: Path) -> None:
    names = [f"ptmaster{free_port()}", f"ptslave{free_port()}"]
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True, timeout=DEADLINE_S)
        veth = ["ip", "link", "add", "ptp0", "netns", names[0], "type", "veth", "peer", "name", "ptp0"]
        subprocess.run([*veth, "netns", names[1]], check=True, timeout=DEADLINE_S)
        for name, address, more in zip(
            names, ("10.77.0.1/24", "10.77.0.2/24"), ("priority1 1", "slaveOnly 1"), strict=True
        ):
            for words in (
                ("link", "set", "lo", "up"),
                ("addr", "add", address, "dev", "ptp0"),
                ("link", "set", "ptp0", "up"),
            ):
                subprocess.run(["ip", "-n", name, *words], check=True, timeout=DEADLINE_S)
            file = tmp_path / f"{name}.conf"
            # free_running leaves the clock of this machine alone.
            file.write_text(
                f"[global]\nfree_running 1\ntime_stamping software\nuds_address {tmp_path}/{name}\n"
                f"logAnnounceInterval -2\nlogSyncInterval -2\n{more}\n"
            )
            daemons.start("ip", "netns", "exec", name, "ptp4l", "-i", "ptp0", "-f", str(file))
        code = (
            "import sys, probes.clock_offset as c\n"
            "c.PTP_SOCKETS = (sys.argv[1],)\n"
            "try: print(c.ptp4l())\n"
            "except OSError as err: print(err)\n"
        )
        said, end_s = "", time.monotonic() + DEADLINE_S
        while "source='ptp4l'" not in said and time.monotonic() < end_s:
            time.sleep(0.5)
            said = subprocess.run(
                ["ip", "netns", "exec", names[1], sys.executable, "-c", code, f"{tmp_path}/{names[1]}"],
                capture_output=True, text=True, check=True, timeout=DEADLINE_S, cwd=ROOT,
            ).stdout  # fmt: skip
        told = re.search(r"offset_ns=(-?\d+)", said)
        assert told is not None, said
        # Both run on one clock.
        assert abs(int(told[1])) < 1_000_000
    finally:
        daemons.end()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=DEADLINE_S)
