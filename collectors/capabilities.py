"""What a target says of itself: its gNMI version, its encodings and its models.

In: the bytes of a CapabilityResponse. Out: a frozen struct that profiles are detected by.
"""

from __future__ import annotations

import msgspec
from google.protobuf.message import DecodeError

from collectors.failures import Failure
from collectors.messages import gnmi_pb2


class Model(msgspec.Struct, frozen=True):
    """One YANG model; the texts are as the target spells them."""

    name: str
    organization: str = ""
    version: str = ""


class Capabilities(msgspec.Struct, frozen=True):
    """An answer to Capabilities; encodings by gNMI's names, such as PROTO."""

    gnmi_version: str = ""
    encodings: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()


def read(answer: bytes) -> Capabilities:
    """Decodes; raises Failure for what is no CapabilityResponse."""
    try:
        told = gnmi_pb2.CapabilityResponse.FromString(answer)
    except DecodeError as err:
        raise Failure("garbage", f"the answer to Capabilities does not decode: {err}") from err
    known = gnmi_pb2.Encoding.DESCRIPTOR.values_by_number
    return Capabilities(
        told.gNMI_version,
        tuple(known[number].name for number in told.supported_encodings if number in known),
        tuple(Model(model.name, model.organization, model.version) for model in told.supported_models),
    )
