"""The table of eBPF programs: which files make each, what it attaches to and which offsets of the kernel's it needs.

In: nothing. Out: `SOURCES`, read by the child that compiles and by the agent that attaches. Imports nothing heavy.
"""

from __future__ import annotations

from typing import NamedTuple

LATENCY_SOURCES = ("runqueue", "softirq", "softirq_run", "hardirq", "napi", "block")
"""What histograms are of, in the order of their slots; the slots of the settings begin with their thresholds."""
SINGLE_PAUSES_SLOT = len(LATENCY_SOURCES)
SETTINGS = SINGLE_PAUSES_SLOT + 1


class Function(NamedTuple):
    """A function of a program; a raw tracepoint's has the name of its tracepoint, a packet's program has none."""

    name: str
    tracepoint: str = ""
    program_type: str = "raw_tracepoint"


class Member(NamedTuple):
    """A member of a kernel's struct whose offset a macro says; the first of `members` that the kernel has."""

    macro: str
    struct: str
    members: tuple[str, ...]


class Argument(NamedTuple):
    """Which argument of a tracepoint points to a struct, as a macro says."""

    macro: str
    tracepoint: str
    struct: str


class Later(NamedTuple):
    """An argument by its place from 0 on that a tracepoint has in later kernels alone, where the macro is defined."""

    macro: str
    tracepoint: str
    place: int


class Source(NamedTuple):
    """One program: its file is bpf/<name>.bpf.c, behind what it includes."""

    name: str
    functions: tuple[Function, ...]
    includes: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    arguments: tuple[Argument, ...] = ()
    later: tuple[Later, ...] = ()

    def tracepoints(self) -> list[str]:
        """All that it attaches to in the kernel."""
        return [function.tracepoint for function in self.functions if function.tracepoint]


_LATENCY = ("latency.h",)
_FLOWS = ("xxh3.h",)

# fmt: off
SOURCES: dict[str, Source] = {source.name: source for source in (
    Source("runqueue", (Function("runqueue_switch", "sched_switch"),), _LATENCY,
           (Member("OFF_TASK_PID", "task_struct", ("pid",)), Member("OFF_TASK_COMM", "task_struct", ("comm",)),
            Member("OFF_TASK_STATE", "task_struct", ("__state", "state"))),
           later=(Later("SWITCH_TELLS_STATE", "sched_switch", 3),)),  # Linux 5.18
    Source("softirq", (Function("softirq_raise", "softirq_raise"), Function("softirq_entry", "softirq_entry"),
                       Function("softirq_exit", "softirq_exit")), _LATENCY),
    Source("hardirq", (Function("hardirq_entry", "irq_handler_entry"), Function("hardirq_exit", "irq_handler_exit")),
           _LATENCY),
    Source("napi", (Function("napi_softirq_entry", "softirq_entry"), Function("napi_softirq_exit", "softirq_exit"),
                    Function("napi_poll", "napi_poll")), _LATENCY),
    Source("block", (Function("block_issue", "block_rq_issue"), Function("block_complete", "block_rq_complete")),
           _LATENCY, arguments=(Argument("ARG_BLOCK_RQ_ISSUE", "block_rq_issue", "request"),)),
    Source("tcp_retransmits", (Function("tcp_retransmit", "tcp_retransmit_skb"),
                               Function("tcp_retransmit_synack", "tcp_retransmit_synack")), _FLOWS,
           (Member("OFF_SKC_FAMILY", "sock_common", ("skc_family",)),
            Member("OFF_SKC_NUM", "sock_common", ("skc_num",)),
            Member("OFF_SKC_DPORT", "sock_common", ("skc_dport",)),
            Member("OFF_SKC_DADDR", "sock_common", ("skc_daddr",)),
            Member("OFF_SKC_RCV_SADDR", "sock_common", ("skc_rcv_saddr",)),
            Member("OFF_SKC_V6_DADDR", "sock_common", ("skc_v6_daddr",)),
            Member("OFF_SKC_V6_RCV_SADDR", "sock_common", ("skc_v6_rcv_saddr",)),
            Member("OFF_SKB_CB", "sk_buff", ("cb",)), Member("OFF_TCP_GSO_SEGS", "tcp_skb_cb", ("tcp_gso_segs",))),
           later=(Later("RETRANSMIT_TELLS_ERROR", "tcp_retransmit_skb", 2),)),  # kernel commit ad892e912b84
    Source("packets", (Function("packets_ingress", program_type="sched_cls"),
                       Function("packets_egress", program_type="sched_cls"),
                       Function("packets_xdp", program_type="xdp")), _FLOWS),
    Source("memory_errors", (Function("memory_error", "mc_event"),)),
    Source("pcie_errors", (Function("pcie_error", "aer_event"),)),
)}
# fmt: on
