"""Programs as an agent opens them: what is missing is said, a crash leaves nothing, few capabilities are enough."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pausetrace import doctor
from pausetrace.config import load
from pausetrace.probe_config import agent_settings
from probes import btf, programs, sources
from probes.attach import HANDLE, Leftover, leftovers
from probes.compile import bcc_directory, compile_programs, kernel_macros, module_text
from probes.hardware_errors import COUNT, MEMORY_KEY
from probes.maps import Map
from probes.opening import TableOpener
from probes.probe import Unavailable
from probes.programs import Settings, available, open_probes
from probes.settings import AgentSettings
from probes.table import BY_NAME
from stream import kinds
from stream.errors import PausetraceError
from stream.record import c_header
from tests.probes import network_lab
from tests.probes.bpf_lab import run_program

NEAR, FAR = "near0", "far0"
MACROS = {"PID_MAX": 1024, "RING_PAGES": 1, "PAUSE_RING_PAGES": 1, "MAX_FLOWS": 64,
          **{f"LEAST_NS_{source.upper()}": 0 for source in sources.LATENCY_SOURCES}}  # fmt: skip
DEFAULT = ("runqueue", "softirq", "hardirq", "napi", "block", "tcp_retransmits", "packets", "memory_errors")
ROOT = Path(__file__).parents[2]
HELD = """
import json, sys, time
from probes.programs import Settings, open_probes
found = open_probes(json.loads(sys.argv[1]), Settings("lab", "h", ("near0",), sys.argv[2]))
print(json.dumps({name: type(probe).__name__ for name, probe in found.items()}), flush=True)
time.sleep(60)
"""


def programs_of(pid: int | str = "self") -> set[int]:
    """Ids of the BPF programs that a process holds."""
    found = set()
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            found |= {int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith("prog_id:")}
    return found


def alive(ids: set[int], wanted: int = 0) -> set[int]:
    """Which of these programs the kernel still has, once they are as few as wanted: it frees them a little later."""
    deadline = time.monotonic() + 10
    while True:
        told = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, check=True, timeout=20)
        left = ids & {program["id"] for program in json.loads(told.stdout)}
        if len(left) <= wanted or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def test_every_program_has_its_file_and_every_function_is_in_it() -> None:
    for source in sources.SOURCES.values():
        text = module_text([source.name], c_header())
        for function in source.functions:
            assert f"int {function.name}(" in text
        assert text.count('#line 1 "settings.h"') == 1
    every = module_text(list(sources.SOURCES), c_header())
    assert every.count('#line 1 "latency.h"') == every.count('#line 1 "xxh3.h"') == 1
    assert len(sources.LATENCY_SOURCES) == sources.SINGLE_PAUSES_SLOT < sources.SETTINGS


def test_what_is_wrong_with_settings_is_said() -> None:
    for names, settings, words in (
        (["nonsense"], Settings("f", "h"), "no program nonsense"),
        (["packets"], Settings("f", "h", attach_mode="xdp"), "no attach mode"),
        (["packets"], Settings("f", "h", ring_bytes=5000), "power of two"),
        (["packets"], Settings("f", "h", max_flows=0), "0 flows"),
    ):
        with pytest.raises(PausetraceError, match=words):
            open_probes(names, settings)


def test_a_recorded_tree_runs_no_programs(tmp_path: Path) -> None:
    reason = available("runqueue", Settings("f", "h"), tmp_path)
    assert reason is not None
    assert "this host's kernel" in reason.reason


def test_a_kernel_that_is_other_than_expected_makes_one_program_unavailable() -> None:
    class Other(btf.Btf):
        def __init__(self) -> None: ...

        def member_offset(self, structure: str, member: str) -> int | None:
            return {"state": 8, "pid": 16, "comm": 24}.get(member)

        def arguments(self, tracepoint: str) -> list[str] | None:
            return {"sched_switch": ["", "task_struct", "task_struct"], "block_rq_issue": ["request_queue", "request"],
                    "block_rq_complete": ["request", "", ""]}.get(tracepoint, [""])  # fmt: skip

        def struct_number(self, structure: str) -> int | None:
            return 7

        def function_number(self, function: str) -> int | None:
            return None

    of_2021 = kernel_macros(sources.SOURCES["runqueue"], Other())
    assert of_2021 == {"OFF_TASK_PID": 16, "OFF_TASK_COMM": 24, "OFF_TASK_STATE": 8}
    assert kernel_macros(sources.SOURCES["block"], Other()) == {"ARG_BLOCK_RQ_ISSUE": 1}
    with pytest.raises(LookupError, match="sock_common has no skc_family"):
        kernel_macros(sources.SOURCES["tcp_retransmits"], Other())
    with pytest.raises(ValueError, match="no BTF"):
        btf.Btf(b"\0" * 100)


@pytest.mark.ebpf
def test_offsets_of_this_kernel_are_those_that_bpftool_prints() -> None:
    types = btf.Btf(btf.VMLINUX.read_bytes())
    dump = subprocess.run(["bpftool", "-j", "btf", "dump", "file", str(btf.VMLINUX)], capture_output=True, check=True)
    every = {each["id"]: each for each in json.loads(dump.stdout)["types"]}
    structs = {each["name"]: each for each in every.values() if each["kind"] == "STRUCT" and each["name"] != "(anon)"}

    def offset(struct: dict[str, object], member: str) -> int | None:
        for each in struct["members"]:  # type: ignore[attr-defined]
            if each["name"] == member:
                return int(each["bits_offset"]) // 8
            inner = every[each["type_id"]]
            if each["name"] == "(anon)" and inner["kind"] in ("STRUCT", "UNION"):
                found = offset(inner, member)
                if found is not None:
                    return int(each["bits_offset"]) // 8 + found
        return None

    checked = 0
    for source in sources.SOURCES.values():
        for member in source.members:
            for name in member.members:
                assert types.member_offset(member.struct, name) == offset(structs[member.struct], name)
                checked += 1
    assert checked > 10
    assert types.arguments("no_such_tracepoint") is None


@pytest.mark.ebpf
def test_all_default_programs_run_here_or_say_why_not() -> None:
    def run() -> None:
        network_lab.add_cable(NEAR, FAR)
        found = open_probes(list(sources.SOURCES), Settings("lab", "h", (NEAR,)))
        for name in DEFAULT:
            assert not isinstance(found[name], Unavailable), (name, found[name])
        if not btf.has_tracepoint(btf.VMLINUX.read_bytes(), "aer_event"):
            assert found["pcie_errors"] == Unavailable("the kernel has no tracepoint aer_event")
        ids = programs_of()
        assert len(ids) >= 15
        for probe in found.values():
            if not isinstance(probe, Unavailable):
                probe.read(time.time_ns())
                probe.close()
        assert alive(ids) == set()

    network_lab.in_namespace(run)


@pytest.mark.ebpf
def test_a_program_that_does_not_compile_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    macros = {**MACROS}
    del macros["LEAST_NS_SOFTIRQ"]
    compiled = compile_programs(["softirq", "hardirq"], macros, c_header())
    assert set(compiled.functions) == {"hardirq_entry", "hardirq_exit"}
    assert "LEAST_NS_SOFTIRQ" in compiled.failed["softirq"]
    compiled.close()
    monkeypatch.setattr(programs, "compile_programs", lambda *_: (_ for _ in ()).throw(TimeoutError("30 s")))
    found = open_probes(["hardirq"], Settings("lab", "h"))["hardirq"]
    assert isinstance(found, Unavailable)
    assert "30 s" in found.reason


@pytest.mark.ebpf
def test_a_probe_says_when_the_kernel_may_give_out_pids_that_it_has_no_place_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "pid_max").write_text("30000\n")
    monkeypatch.setattr(programs, "PID_MAX", file)
    probe = open_probes(["runqueue"], Settings("lab", "h"))["runqueue"]
    assert not isinstance(probe, Unavailable)
    now_ns = time.time_ns()
    for second in range(2):
        probe.read(now_ns + second * 1_000_000_000)
    file.write_text("31000\n")
    with pytest.raises(OSError, match="pid_max has grown from 30000 to 31000"):
        probe.read(now_ns + 2_000_000_000)
    probe.close()


@pytest.mark.ebpf
def test_the_deadline_of_the_compiler_holds() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="longer than"):
        compile_programs(["hardirq"], MACROS, c_header(), deadline_s=0.01)
    assert time.monotonic() - began < 10


@pytest.mark.ebpf
@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_a_crash_leaves_nothing_that_the_next_start_does_not_remove(mode: str) -> None:
    def run() -> None:
        network_lab.add_cable(NEAR, FAR)
        process = held(list(DEFAULT), mode)
        ids = programs_of(process.pid)
        assert len(ids) >= 15
        process.send_signal(signal.SIGKILL)
        process.wait()
        left = leftovers()
        if mode == "tcx":
            assert left == []
            assert alive(ids) == set()
            return
        assert len(alive(ids, 2)) == 2
        assert left == [Leftover(NEAR, side, HANDLE) for side in (kinds.SIDE_RX, kinds.SIDE_TX)]
        assert str(left[0]) == f"clsact filter pausetrace on {NEAR} rx (handle {HANDLE:#x})"
        probe = open_probes(["packets"], Settings("lab", "h", (NEAR,), "clsact"))["packets"]
        assert not isinstance(probe, Unavailable)
        assert leftovers() == []
        assert alive(ids) == set()
        probe.close()
        killed = held(["packets"], mode)
        killed.kill()
        killed.wait()
        assert len(leftovers(remove=True)) == 2
        assert leftovers() == []

    network_lab.in_namespace(run)


@pytest.mark.ebpf
def test_agents_that_live_keep_their_filters_and_any_agent_removes_a_dead_ones() -> None:
    def filters() -> int:
        shown = subprocess.check_output(["tc", "filter", "show", "dev", NEAR, "ingress"], text=True)
        return shown.count("pausetrace")

    def agent_of_pollers() -> str:
        command = [sys.executable, "-m", "pausetrace.cli.main", "probe", "pressure", "-o", "jsonl", "--duration", "1s"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
        return done.stderr

    def finding() -> list[tuple[str, str]]:
        asked = doctor.Asked(AgentSettings("lab", "h", {}), None)
        return [(found.state, found.says) for found in doctor.leftovers(asked)]

    def run() -> None:
        network_lab.add_cable(NEAR, FAR)
        first, second = held(["packets"], "clsact"), held(["packets"], "clsact")
        assert filters() == 2
        assert leftovers() == []
        assert agent_of_pollers() == ""
        assert filters() == 2
        assert finding() == [(doctor.OK, "none")]
        first.kill()
        first.wait()
        assert [(left.side, left.handle) for left in leftovers()] == [(side, HANDLE) for side in (1, 2)]
        assert [state for state, _ in finding()] == [doctor.WARNING] * 2
        assert agent_of_pollers().count("removed what an agent left that was killed: clsact filter") == 2
        assert filters() == 1
        assert len(programs_of(second.pid)) >= 2
        second.kill()
        second.wait()
        assert len(leftovers()) == 2

    network_lab.in_namespace(run)


@pytest.mark.ebpf
@pytest.mark.parametrize(("mode", "tcx", "clsact"), [("auto", 2, 0), ("clsact", 0, 2)])
def test_packets_are_attached_as_the_configuration_says(mode: str, tcx: int, clsact: int, tmp_path: Path) -> None:
    (file := tmp_path / "x.toml").write_text(f"[probes]\ninterfaces = '{NEAR}'\n[probes.packets]\nattach = '{mode}'\n")
    settings = agent_settings(load({}, {}, str(file)).config.probes, ["packets"])

    def run() -> None:
        network_lab.add_cable(NEAR, FAR)
        probe = TableOpener().open(BY_NAME["packets"], settings.options(BY_NAME["packets"]))
        shown = [
            subprocess.check_output(["tc", "filter", "show", "dev", NEAR, side], text=True)
            for side in ("ingress", "egress")
        ]
        assert sum("pausetrace" in each for each in shown) == clsact
        links = [file.read_text() for file in Path("/proc/self/fdinfo").iterdir() if file.exists()]
        assert sum("link_type:\ttcx" in text for text in links) == tcx
        probe.close()

    network_lab.in_namespace(run)


@pytest.mark.ebpf
def test_a_filter_of_somebody_else_stays(tmp_path: Path) -> None:
    def run() -> None:
        network_lab.add_cable(NEAR, FAR)
        network_lab.traffic_control("qdisc", "add", "dev", NEAR, "clsact")
        network_lab.traffic_control(
            "filter", "add", "dev", NEAR, "ingress", "pref", "7", "protocol", "all", "u32", "match", "u32", "0", "0"
        )  # fmt: skip
        for mode in ("clsact", "tcx"):
            probe = open_probes(["packets"], Settings("lab", "h", (NEAR,), mode))["packets"]
            assert not isinstance(probe, Unavailable)
            probe.close()
        shown = subprocess.check_output(["tc", "filter", "show", "dev", NEAR, "ingress"], text=True)
        assert "u32" in shown
        assert "bpf" not in shown

    network_lab.in_namespace(run)


@pytest.mark.ebpf
@pytest.mark.parametrize("preference", [1, 9])
def test_a_filter_of_somebody_else_stays_whatever_handle_it_has(preference: int) -> None:
    def shown() -> str:
        return subprocess.check_output(["tc", "filter", "show", "dev", NEAR, "egress"], text=True)

    def run() -> None:
        network_lab.add_cable(NEAR, FAR)
        network_lab.traffic_control("qdisc", "add", "dev", NEAR, "clsact")
        network_lab.traffic_control(
            "filter", "add", "dev", NEAR, "egress", "pref", str(preference), "handle", hex(HANDLE), "protocol", "all",
            "bpf", "bytecode", "1,6 0 0 4294967295,",
        )  # fmt: skip
        foreign = shown()
        assert hex(HANDLE) in foreign
        assert leftovers(remove=True) == []
        probe = open_probes(["packets"], Settings("lab", "h", (NEAR,), "clsact"))["packets"]
        assert not isinstance(probe, Unavailable)
        assert shown().count("pausetrace") == 1
        assert leftovers() == []
        probe.close()
        assert shown() == foreign

    network_lab.in_namespace(run)


def held(names: list[str], mode: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A process that has these programs attached."""
    command = [*prefix, sys.executable, "-c", HELD, json.dumps(names), mode]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    found = json.loads(process.stdout.readline())
    assert [name for name, what in found.items() if what == "Unavailable"] == []
    return process


@pytest.mark.ebpf
@pytest.mark.parametrize("mode", ["tcx", "clsact", "xdp-generic"])
def test_three_capabilities_are_enough(mode: str) -> None:
    kept = "bpf,+perfmon,+net_admin"

    def run() -> None:
        network_lab.add_cable(NEAR, FAR)
        limits = ("--bounding-set", f"-all,+{kept}", "--inh-caps", f"-all,+{kept}", "--no-new-privs")
        process = held(list(DEFAULT), mode, ("setpriv", *limits))
        status = Path(f"/proc/{process.pid}/status").read_text()
        effective = int(next(line for line in status.splitlines() if line.startswith("CapEff")).split()[1], 16)
        assert effective == 1 << 12 | 1 << 38 | 1 << 39
        process.kill()
        process.wait()

    network_lab.in_namespace(run)


@pytest.mark.ebpf
def test_without_a_capability_the_probe_says_which() -> None:
    limits = ("setpriv", "--bounding-set", "-all,+bpf", "--inh-caps", "-all,+bpf")
    code = (
        "from probes.programs import *\n"
        "print(available('runqueue', Settings('f', 'h')).reason, '|', available('packets', Settings('f', 'h')).reason)"
    )
    told = subprocess.check_output([*limits, sys.executable, "-c", code], text=True, cwd=ROOT, timeout=60)
    assert told.strip() == "it needs CAP_PERFMON | it needs CAP_NET_ADMIN, CAP_PERFMON"


@pytest.mark.ebpf
def test_errors_of_hardware_are_counted_by_place_and_severity() -> None:
    compiled = compile_programs(["memory_errors"], MACROS, c_header())
    errors = Map(compiled.maps["memory_errors"], COUNT)
    for kind, count, controller in ((0, 3, 0), (0, 4, 0), (1, 1, 2), (4, 9, 2)):
        arguments = np.array([kind, 0, 0, count, controller, 0, 0, 0, 0, 0, 0, 0], np.uint64)
        run_program(compiled.functions["memory_error"], context=arguments.tobytes())
    keys, values = errors.entries(MEMORY_KEY)
    found = {(int(k["controller"]), int(k["type"])): int(v) for k, v in zip(keys, values, strict=True)}
    assert found == {(0, 0): 7, (2, 1): 1, (2, 4): 9}
    compiled.close()


def test_the_agent_holds_no_compiler() -> None:
    code = "import sys, probes.programs; print([n for n in ('bcc', 'numba', 'pyarrow', 'scapy') if n in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT, timeout=60).strip() == "[]"
    directory = bcc_directory()
    assert directory is None or (directory / "libbcc.py").is_file()
