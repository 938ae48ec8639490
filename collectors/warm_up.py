"""Compiles the kernels before the first target is connected to: what came meanwhile would be late.

In: nothing. Out: nothing; a second or two where Numba's cache is warm, up to a minute where it is not.
"""

from __future__ import annotations

import numpy as np

from collectors import profiles
from collectors.messages import gnmi_pb2
from collectors.paths import PathTable
from collectors.rows import RowMaker
from collectors.wire import Decoder

_PORT = "Ethernet1"
_ROUNDS = 3
_STEP_NS = 1_000_000_000


def warm_up() -> None:
    """Decodes a few messages of every sort of value, and makes rows of them."""
    profile = profiles.load("openconfig")
    paths = PathTable(list_keys=profiles.list_keys([profile]))
    decoder, rows = Decoder(paths), RowMaker(paths, "-")
    rows.add_target(0, "-", profile, _STEP_NS)
    none = np.zeros(1, np.int32)
    for round_ in range(1, _ROUNDS + 1):
        time_ns = np.array([round_ * _STEP_NS], np.int64)
        columns = decoder.decode([_message(round_)], none)
        rows.take(columns, none, time_ns, np.zeros(1, np.uint8), time_ns)
    rows.flush(_ROUNDS * _STEP_NS * 2)


def _message(round_: int) -> bytes:
    response = gnmi_pb2.SubscribeResponse()
    told = response.update
    told.timestamp = round_ * _STEP_NS
    _put(told.prefix, "interfaces", "interface")
    values = {
        "in-octets": gnmi_pb2.TypedValue(uint_val=round_),
        "out-octets": gnmi_pb2.TypedValue(json_ietf_val=b'"%d"' % round_),
        "in-errors": gnmi_pb2.TypedValue(int_val=round_),
        "out-errors": gnmi_pb2.TypedValue(json_val=b"%d" % round_),
        "description": gnmi_pb2.TypedValue(string_val="-"),
        "load": gnmi_pb2.TypedValue(double_val=0.5),
        "enabled": gnmi_pb2.TypedValue(bool_val=True),
    }
    for name, value in values.items():
        update = told.update.add()
        update.path.elem.add(name="state")
        update.path.elem.add(name="counters")
        update.path.elem.add(name=name)
        update.val.CopyFrom(value)
    tree = told.update.add()
    tree.path.elem.add(name="state")
    tree.val.json_ietf_val = b'{"counters":{"in-pkts":"%d","ratio":0.5,"names":["a"],"up":true}}' % round_
    made: bytes = response.SerializeToString()
    return made


def _put(path: gnmi_pb2.Path, outer: str, name: str) -> None:
    path.elem.add(name=outer)
    path.elem.add(name=name).key["name"] = _PORT
