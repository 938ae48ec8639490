"""The gNMI messages: pygnmi's generated ones, which are the only definition that a process may hold.

A second one, from whatever package, ends in a conflict of names in protobuf's descriptor pool.

In: nothing. Out: classes.
"""

from __future__ import annotations

from pygnmi.spec.v080 import gnmi_pb2

__all__ = ["gnmi_pb2"]
