"""What the counters of each NIC driver mean: one table a driver, and here the table of the tables.

A driver is added by a file with its rows and a line in `DRIVERS`.
"""

from probes.drivers import bnxt, ice, mlx5
from probes.drivers.mapped import Driver

DRIVERS: dict[str, Driver] = {
    "mlx5_core": mlx5.DRIVER,
    "bnxt_en": bnxt.DRIVER,
    "ice": ice.DRIVER,
}
"""By the name of the kernel's driver, which the RDMA device of a NIC shares (irdma's parent is ice)."""
