"""Leaves of the fake switch that tests of sessions talk to."""

from simulation.gnmi_targets.leaves import Leaves, counter

COUNTERS = "/interfaces/interface[name=*]/state/counters"


def lab_leaves(ports: int = 2, per_s: int = 1_000_000, start_ns: int = 0, **changes: int) -> Leaves:
    """Octets of so many ports."""
    leaves = Leaves()
    for port in range(1, ports + 1):
        base = f"/interfaces/interface[name=Ethernet{port}]/state/counters"
        leaves.put(f"{base}/in-octets", counter(start_ns, per_s, 2 * port, **changes))
        leaves.put(f"{base}/out-octets", counter(start_ns, per_s, 2 * port + 1, **changes))
    return leaves
