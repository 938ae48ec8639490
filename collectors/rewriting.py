"""What the kernels leave to the protobuf library: it says whether a message is well-formed, and writes it plainly.

In: the raw bytes of a SubscribeResponse. Out: bytes that say the same in fields that the kernels read, or the
deprecated error that a device sent; DecodeError for what is no SubscribeResponse.
"""

from __future__ import annotations

from collectors.messages import gnmi_pb2

_FIELD_OF_ENCODING = {
    gnmi_pb2.Encoding.JSON: "json_val",
    gnmi_pb2.Encoding.BYTES: "bytes_val",
    gnmi_pb2.Encoding.PROTO: "proto_bytes",
    gnmi_pb2.Encoding.ASCII: "ascii_val",
    gnmi_pb2.Encoding.JSON_IETF: "json_ietf_val",
}


def written_plainly(raw: bytes) -> tuple[bytes, str]:
    """The message anew, and the text of its deprecated `error` field, if that is what it holds.

    What has no meaning for telemetry goes: extensions, aliases, unknown fields, a leaf-list within a leaf-list. The
    deprecated Update.value becomes what Update.val would have been.
    """
    message = gnmi_pb2.SubscribeResponse.FromString(raw)
    which = message.WhichOneof("response")
    if which == "error":
        return b"", f"{message.error.message} (code {message.error.code})"
    if which != "update":
        plain = gnmi_pb2.SubscribeResponse()
        if which == "sync_response":
            plain.sync_response = message.sync_response
        return plain.SerializeToString(), ""
    message.DiscardUnknownFields()
    message.ClearField("extension")
    message.update.ClearField("alias")
    for update in message.update.update:
        if update.HasField("value"):
            if not update.HasField("val"):
                _set_value(update.val, update.value)
            update.ClearField("value")
        if update.val.WhichOneof("value") == "leaflist_val":
            for element in update.val.leaflist_val.element:
                if element.WhichOneof("value") == "leaflist_val":
                    element.ClearField("leaflist_val")
    return message.SerializeToString(), ""


def _set_value(typed: gnmi_pb2.TypedValue, value: gnmi_pb2.Value) -> None:
    field = _FIELD_OF_ENCODING.get(value.type, "bytes_val")
    if field == "ascii_val":
        try:
            typed.ascii_val = value.value.decode()
        except UnicodeDecodeError:
            typed.bytes_val = value.value
    else:
        setattr(typed, field, value.value)
