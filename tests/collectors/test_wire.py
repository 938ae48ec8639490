"""The decoder: what each encoding becomes, what is bounded, and that no device's message harms another's."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from collectors.columns import Columns
from collectors.layout import SORTS, STATUSES
from collectors.messages import gnmi_pb2
from collectors.paths import PathTable
from collectors.wire import DELETE, MALFORMED_JSON, NUMERAL, QUOTED, Decoder
from tests.collectors.both_decoders import agree

Said = dict[str, tuple[str, Any]]


def path_of(*names: str, **fields: str) -> gnmi_pb2.Path:
    path = gnmi_pb2.Path(**fields)
    for name in names:
        path.elem.add(name=name)
    return path


def message_of(*values: tuple[str, dict[str, Any]], **fields: Any) -> gnmi_pb2.SubscribeResponse:
    message = gnmi_pb2.SubscribeResponse()
    for name, value in fields.items():
        setattr(message.update, name, value)
    for name, typed in values:
        message.update.update.add(path=path_of(name), val=gnmi_pb2.TypedValue(**typed))
    return message


def said(decoder: Decoder, *messages: bytes) -> tuple[Columns, Said]:
    """Columns of a batch, and of each path what sort its value is and the value."""
    columns = decoder.decode(messages, [0] * len(messages))
    rows: Said = {}
    for row, sort in enumerate(columns.sort):
        value: Any
        if SORTS[sort] == "FLOAT":
            value = float(columns.fval[row])
        elif SORTS[sort] in ("INT", "BOOL"):
            value = int(columns.ival[row])
        elif SORTS[sort] == "UINT":
            value = int(columns.ival[row]) % (1 << 64)
        elif SORTS[sort] == "TEXT":
            value = columns.text(row)
        elif SORTS[sort] == "LEAFLIST":
            value = columns.values(row)
        else:
            value = columns.raw(row)
        rows[decoder.paths.text(columns.path_id[row])] = (SORTS[sort], value)
    return columns, rows


@pytest.fixture
def decoder() -> Decoder:
    return Decoder(PathTable())


def test_every_encoding_has_its_sort_and_value(decoder: Decoder) -> None:
    leaflist = gnmi_pb2.ScalarArray(element=[gnmi_pb2.TypedValue(uint_val=3), gnmi_pb2.TypedValue(string_val="x")])
    message = message_of(
        ("int", {"int_val": -5}),
        ("uint", {"uint_val": 2**63 - 1}),
        ("large", {"uint_val": 2**64 - 1}),
        ("bool", {"bool_val": True}),
        ("float", {"float_val": 0.5}),
        ("double", {"double_val": 1e300}),
        ("decimal", {"decimal_val": gnmi_pb2.Decimal64(digits=12345, precision=2)}),
        ("text", {"string_val": "naïve"}),
        ("ascii", {"ascii_val": "up"}),
        ("bytes", {"bytes_val": b"\0\xff"}),
        ("proto", {"proto_bytes": b"\x08\x01"}),
        ("list", {"leaflist_val": leaflist}),
        ("quoted", {"json_ietf_val": b'"18446744073709551615"'}),
        ("json", {"json_val": b" 7 "}),
        ("fraction", {"json_ietf_val": b'"0.1"'}),
        ("nothing", {"json_val": b"null"}),
    )
    message.update.update.add(path=path_of("no-value"))
    _, rows = said(decoder, message.SerializeToString())
    assert rows == {
        "/int": ("INT", -5),
        "/uint": ("INT", 2**63 - 1),
        "/large": ("UINT", 2**64 - 1),
        "/bool": ("BOOL", 1),
        "/float": ("FLOAT", 0.5),
        "/double": ("FLOAT", 1e300),
        "/decimal": ("FLOAT", 123.45),
        "/text": ("TEXT", "naïve"),
        "/ascii": ("TEXT", "up"),
        "/bytes": ("BYTES", b"\0\xff"),
        "/proto": ("BYTES", b"\x08\x01"),
        "/list": ("LEAFLIST", [3, "x"]),
        "/quoted": ("UINT", 2**64 - 1),
        "/json": ("INT", 7),
        "/fraction": ("FLOAT", 0.1),
        "/nothing": ("NONE", b"null"),
        "/no-value": ("NONE", b""),
    }
    assert decoder.counters["fallback_messages"] == 0


def test_a_number_in_a_text_is_there_as_a_number_and_as_written(decoder: Decoder) -> None:
    message = message_of(("string", {"string_val": "-42"}), ("quoted", {"json_ietf_val": b'"42"'}))
    columns, rows = said(decoder, message.SerializeToString())
    assert rows == {"/string": ("TEXT", "-42"), "/quoted": ("INT", 42)}
    assert columns.flags.tolist() == [NUMERAL, QUOTED]
    assert columns.ival.tolist() == [-42, 42]
    assert columns.text(1) == "42"


def test_what_a_notification_says_of_itself_is_kept(decoder: Decoder) -> None:
    message = message_of(("a", {"uint_val": 1}), timestamp=1_700_000_000_000_000_007, atomic=True)
    message.update.prefix.CopyFrom(path_of("interfaces", origin="openconfig", target="leaf1"))
    message.update.update[0].duplicates = 9
    message.update.delete.append(path_of("gone"))
    sync = gnmi_pb2.SubscribeResponse(sync_response=True)
    columns, rows = said(decoder, message.SerializeToString(), sync.SerializeToString(), b"")
    assert [STATUSES[status] for status in columns.status] == ["OK", "SYNC", "EMPTY"]
    assert columns.time_ns.tolist() == [1_700_000_000_000_000_007, 0, 0]
    assert columns.atomic.tolist() == [True, False, False]
    assert columns.first_row.tolist() == [0, 2, 2, 2]
    assert columns.target_names[columns.prefix_target[0]] == "leaf1"
    assert columns.prefix_target.tolist()[1:] == [-1, -1]
    assert list(rows) == ["openconfig:/interfaces/a", "openconfig:/interfaces/gone"]
    assert columns.duplicates.tolist() == [9, 0]
    assert columns.op.tolist() == [0, DELETE]


def test_targets_of_one_model_share_the_numbers_of_their_paths(decoder: Decoder) -> None:
    batch = []
    for name in ("leaf1", "leaf2", ""):
        message = message_of(("in-octets", {"uint_val": 1}))
        message.update.prefix.CopyFrom(path_of("interfaces", target=name))
        batch.append(message.SerializeToString())
    whole = gnmi_pb2.SubscribeResponse()
    whole.update.update.add(path=path_of("interfaces", "in-octets"), val=gnmi_pb2.TypedValue(uint_val=1))
    columns, _ = said(decoder, *batch, whole.SerializeToString())
    assert len(set(columns.path_id.tolist())) == 1
    assert [columns.target_names[i] for i in columns.prefix_target.tolist()[:2]] == ["leaf1", "leaf2"]


def test_the_order_of_keys_does_not_matter(decoder: Decoder) -> None:
    def pair(name: str, value: str) -> bytes:
        inside = b"\x0a" + bytes([len(name)]) + name.encode() + b"\x12" + bytes([len(value)]) + value.encode()
        return b"\x12" + bytes([len(inside)]) + inside

    def response(keys: bytes) -> bytes:
        element = b"\x0a\x05queue" + keys
        path = b"\x1a" + bytes([len(element)]) + element
        update = b"\x0a" + bytes([len(path)]) + path
        notification = b"\x22" + bytes([len(update)]) + update
        return b"\x0a" + bytes([len(notification)]) + notification

    one, other = pair("port", "Ethernet1"), pair("index", "3")
    columns, rows = said(decoder, response(one + other), response(other + one))
    assert list(rows) == ["/queue[index=3][port=Ethernet1]"]
    assert columns.path_id[0] == columns.path_id[1]


def test_the_deprecated_forms_of_old_devices_are_read(decoder: Decoder) -> None:
    message = gnmi_pb2.SubscribeResponse()
    message.update.prefix.element.append("interfaces")
    update = message.update.update.add(path=gnmi_pb2.Path(element=["interface[name=Ethernet1]", "state"]))
    update.value.value, update.value.type = b'{"mtu": 9214}', gnmi_pb2.Encoding.JSON
    _, rows = said(decoder, message.SerializeToString())
    assert rows == {"/interfaces/interface[name=Ethernet1]/state/mtu": ("INT", 9214)}
    assert decoder.counters["fallback_messages"] == 1


def test_a_deprecated_error_is_told(decoder: Decoder) -> None:
    message = gnmi_pb2.SubscribeResponse(error=gnmi_pb2.Error(code=5, message="no such path"))
    columns = decoder.decode([message.SerializeToString()], [0])
    assert STATUSES[columns.status[0]] == "ERROR"
    assert columns.error(0) == "no such path (code 5)"


def test_an_extension_as_junos_sends_takes_no_detour(decoder: Decoder) -> None:
    message = message_of(("a", {"uint_val": 1}))
    extension = message.extension.add()
    extension.registered_ext.id, extension.registered_ext.msg = 1, b"header"
    _, rows = said(decoder, message.SerializeToString())
    assert rows == {"/a": ("INT", 1)}
    assert decoder.counters["fallback_messages"] == 0


def test_an_object_as_sonic_sends_is_a_row_for_each_field(decoder: Decoder) -> None:
    blob = {"Ethernet68:3": {"SAI_QUEUE_STAT_PACKETS": "12", "SAI_QUEUE_ATTR_PAUSE_STATUS": "true"}, "flat": "7"}
    message = message_of(("Queues", {"json_ietf_val": json.dumps(blob).encode()}))
    _, rows = said(decoder, message.SerializeToString())
    assert rows == {
        "/Queues/Ethernet68:3/SAI_QUEUE_STAT_PACKETS": ("INT", 12),
        "/Queues/Ethernet68:3/SAI_QUEUE_ATTR_PAUSE_STATUS": ("TEXT", "true"),
        "/Queues/flat": ("INT", 7),
    }


def test_entries_of_a_list_are_known_by_their_keys_wherever_they_stand() -> None:
    decoder = Decoder(PathTable(list_keys={"If-list": ("name",), "queue": ("index", "kind")}))

    def blob(entries: list[dict[str, Any]], name: str = "dme:If-list") -> bytes:
        return message_of(("x", {"json_val": json.dumps({name: entries}).encode()})).SerializeToString()

    first, rows = said(decoder, blob([{"name": "eth1", "drops": 1}, {"drops": 2, "dme:name": "eth2"}]))
    assert rows["/x/dme:If-list[name=eth1]/drops"] == ("INT", 1)
    assert rows["/x/dme:If-list[name=eth2]/drops"] == ("INT", 2)
    again, rows = said(decoder, blob([{"drops": 3, "dme:name": "eth2"}, {"name": "eth1", "drops": 4}]))
    assert rows["/x/dme:If-list[name=eth1]/drops"] == ("INT", 4)
    assert sorted(first.path_id.tolist()) == sorted(again.path_id.tolist())
    _, rows = said(decoder, blob([{"index": 3, "kind": "uc", "pkts": 5}], "queue"), blob([{"a": 1}, {"a": 2}], "other"))
    assert rows["/x/queue[index=3][kind=uc]/pkts"] == ("INT", 5)
    assert rows["/x/other[#=1]/a"] == ("INT", 2)


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"a":1', b'{"a":1,}', b"{'a':1}", b'{"a":NaN}', b"[1,]", b'{"a":1}x', b'{"a":"\xff"}', b"nul"]
)
def test_json_that_is_none_is_one_row_and_is_counted(decoder: Decoder, text: bytes) -> None:
    message = message_of(("before", {"uint_val": 1}), ("json", {"json_val": text}), ("behind", {"uint_val": 2}))
    columns, rows = said(decoder, message.SerializeToString())
    assert rows == {"/before": ("INT", 1), "/json": ("JSON", text), "/behind": ("INT", 2)}
    assert columns.flags.tolist() == [0, MALFORMED_JSON, 0]
    assert decoder.counters["malformed_json"] == 1


@pytest.mark.parametrize("number", ["0.1", "1e23", "9007199254740993.0", "123456789.123456789123", "5e-324", "1e400"])
def test_numbers_of_json_are_the_nearest_doubles(decoder: Decoder, number: str) -> None:
    _, rows = said(decoder, message_of(("x", {"json_val": number.encode()})).SerializeToString())
    assert rows["/x"] == ("FLOAT", float(number))


def test_floats_that_are_no_numbers_are_read(decoder: Decoder) -> None:
    message = message_of(("nan", {"float_val": math.nan}), ("inf", {"double_val": -math.inf}))
    _, rows = said(decoder, message.SerializeToString())
    assert math.isnan(rows["/nan"][1])
    assert rows["/inf"] == ("FLOAT", -math.inf)


def test_a_malformed_message_costs_itself_alone(decoder: Decoder) -> None:
    good = message_of(("a", {"uint_val": 1})).SerializeToString()
    bad = message_of(("b", {"string_val": "x"})).SerializeToString()[:-1] + b"\xff"
    columns = decoder.decode([good, bad, good[:-1], good], [0, 1, 1, 0])
    assert [STATUSES[status] for status in columns.status] == ["OK", "MALFORMED", "MALFORMED", "OK"]
    assert columns.first_row.tolist() == [0, 1, 1, 1, 2]
    assert decoder.counters["malformed_messages"] == 2


def test_a_path_that_is_malformed_makes_its_message_malformed_each_time(decoder: Decoder) -> None:
    message = bytearray(message_of(("abc", {"uint_val": 1})).SerializeToString())
    message[message.index(b"abc")] = 0xFF
    for _ in range(3):
        columns = decoder.decode([bytes(message)], [0])
        assert STATUSES[columns.status[0]] == "MALFORMED"
        assert len(columns.rows) == 0
    assert decoder.counters["malformed_messages"] == 3


def test_too_large_a_message_is_not_read() -> None:
    decoder = Decoder(PathTable(), max_message_bytes=100, max_rows=3)
    small = message_of(("a", {"uint_val": 1})).SerializeToString()
    long = message_of(("a", {"string_val": "x" * 100})).SerializeToString()
    many = message_of(*[("a", {"uint_val": 1})] * 4).SerializeToString()
    wide = message_of(("a", {"json_val": b'{"a":1,"b":2,"c":3,"d":4}'})).SerializeToString()
    columns = decoder.decode([small, long, many, wide, small], [0] * 5)
    assert [STATUSES[status] for status in columns.status] == ["OK", "TOO_LARGE", "TOO_LARGE", "TOO_LARGE", "OK"]
    assert columns.first_row.tolist() == [0, 1, 1, 1, 1, 2]
    assert decoder.counters["too_large_messages"] == 3


def test_a_target_that_invents_paths_takes_no_room_of_others() -> None:
    table = PathTable(limit=1000, per_target=100)
    decoder = Decoder(table)
    for i in range(50):
        invented = message_of(*[(f"invented-{i}-{k}", {"uint_val": 1}) for k in range(20)]).SerializeToString()
        columns = decoder.decode([invented], [7])
        assert len(columns.rows) + columns.refused[0] == 20
    assert table.introduced(7) == 100
    assert decoder.refused(7) == 900
    assert decoder.counters["paths_refused"] == 900
    honest = message_of(*[(f"leaf-{k}", {"uint_val": k}) for k in range(50)]).SerializeToString()
    for _ in range(2):
        assert len(decoder.decode([honest], [3]).rows) == 50
    assert decoder.refused(3) == 0
    # What it brought itself it may go on telling.
    known = message_of(("invented-0-0", {"uint_val": 1})).SerializeToString()
    assert len(decoder.decode([known], [7]).rows) == 1


def test_members_and_prefixes_that_a_target_invents_are_bounded_too() -> None:
    table = PathTable(limit=1000, per_target=10)
    decoder = Decoder(table)
    for i in range(30):
        message = message_of(("x", {"json_val": json.dumps({f"m{i}-{k}": {"a": 1} for k in range(5)}).encode()}))
        message.update.prefix.CopyFrom(path_of(f"prefix-{i}", target=f"name-{i}"))
        decoder.decode([message.SerializeToString()], [0])
    assert table.introduced(0) == 10
    # Of the first message a leaf and a member with its own; of each later one the update, whose prefix has no room.
    assert decoder.refused(0) == 2 + 29
    assert len(table) < 20


def test_a_path_of_absurd_length_is_left_out(decoder: Decoder) -> None:
    message = message_of(("x" * 5000, {"uint_val": 1}), ("y", {"uint_val": 2}))
    columns, rows = said(decoder, message.SerializeToString())
    assert rows == {"/y": ("INT", 2)}
    assert columns.refused.tolist() == [1]


def test_a_table_that_is_full_can_be_renewed() -> None:
    table = PathTable(limit=4, per_target=4)
    decoder = Decoder(table)
    message = message_of(*[(f"leaf-{k}", {"uint_val": k}) for k in range(8)]).SerializeToString()
    assert len(decoder.decode([message], [0]).rows) == 4
    generation = table.generation
    table.renew()
    assert table.generation == generation + 1
    again = message_of(*[(f"leaf-{k}", {"uint_val": k}) for k in range(4, 8)]).SerializeToString()
    columns, rows = said(decoder, again)
    assert list(rows) == ["/leaf-4", "/leaf-5", "/leaf-6", "/leaf-7"]
    assert columns.refused.tolist() == [0]


def test_tables_grow_as_far_as_they_are_needed() -> None:
    table = PathTable()
    decoder = Decoder(table)
    names = [f"{'long-' * (k % 40)}name-{k}" for k in range(5000)]
    for _ in range(2):
        message = message_of(*[(name, {"uint_val": k}) for k, name in enumerate(names)]).SerializeToString()
        columns = decoder.decode([message], [0])
        assert [table.text(path) for path in columns.path_id] == [f"/{name}" for name in names]
        assert columns.ival.tolist() == list(range(5000))
    assert decoder.counters["new_spellings"] == 5000


def test_the_same_messages_make_the_same_columns_whatever_the_batches(decoder: Decoder) -> None:
    batch = [
        message_of(*[(f"leaf-{k}", {"uint_val": i * k}) for k in range(i % 7)], timestamp=i).SerializeToString()
        for i in range(60)
    ]
    whole = decoder.decode(batch, np.zeros(60, np.int32))
    one_by_one = Decoder(PathTable())
    for i, message in enumerate(batch):
        columns = one_by_one.decode([message], [0])
        rows = whole.rows[whole.first_row[i] : whole.first_row[i + 1]]
        assert columns.ival.tolist() == rows["ival"].tolist()
        assert [one_by_one.paths.text(p) for p in columns.path_id] == [decoder.paths.text(p) for p in rows["path_id"]]
        assert columns.time_ns[0] == whole.time_ns[i]


def test_columns_outlive_later_calls(decoder: Decoder) -> None:
    first = decoder.decode([message_of(("a", {"string_val": "first"})).SerializeToString()], [0])
    for _ in range(5):
        decoder.decode([message_of(("a", {"string_val": "later"})).SerializeToString()], [0])
    assert first.text(0) == "first"


def test_misuse_is_an_error_and_an_empty_batch_is_none(decoder: Decoder) -> None:
    assert decoder.decode([], []).first_row.tolist() == [0]
    with pytest.raises(ValueError, match="1 messages of 2 targets"):
        decoder.decode([b""], [0, 1])
    with pytest.raises(ValueError, match="number targets from 0 on"):
        decoder.decode([b""], [-1])


@pytest.mark.parametrize("size", range(64))
def test_bytes_that_say_nothing_are_read_as_the_library_reads_them(decoder: Decoder, size: int) -> None:
    for fill in (0, 8, 10, 0x7F, 0x80, 0xFF):
        raw = bytes([fill]) * size
        agree(decoder.decode([raw], [0]), decoder.paths, 0, raw)


def length_prefixed(tag: int, inside: bytes) -> bytes:
    """A field of fewer than 128 bytes."""
    return bytes([tag, len(inside)]) + inside


def with_value(typed: bytes) -> bytes:
    """A response with one update of this TypedValue."""
    return length_prefixed(0x0A, length_prefixed(0x22, length_prefixed(0x0A, b"") + length_prefixed(0x1A, typed)))


def test_text_is_well_formed_where_python_says_so(decoder: Decoder) -> None:
    borders = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
    texts = [bytes([one]) for one in range(256)]
    texts += [bytes([one, two]) for one in range(0x80, 256) for two in borders]
    texts += [bytes([one, two, 0x80]) for one in range(0xC0, 256) for two in borders]
    texts += [bytes([one, two, 0xBF, three]) for one in range(0xE0, 256) for two in borders for three in borders]
    texts += [b"plain text of many bytes" + text + b"and more of it behind" for text in texts]
    columns = decoder.decode(
        [with_value(length_prefixed(0x0A, text)) for text in texts], np.zeros(len(texts), np.int32)
    )
    for text, status in zip(texts, columns.status, strict=True):
        try:
            text.decode()
        except UnicodeDecodeError:
            assert STATUSES[status] == "MALFORMED", text
        else:
            assert STATUSES[status] == "OK", text


def test_varints_of_every_length_are_read_as_the_library_reads_them(decoder: Decoder) -> None:
    raws = []
    for size in range(1, 13):
        for fill in (0x80, 0x81, 0xD5, 0xFF):
            for last in (0x00, 0x01, 0x02, 0x55, 0x7F):
                number = bytes([fill]) * (size - 1) + bytes([last])
                raws += [with_value(bytes([tag]) + number) for tag in (0x10, 0x18, 0x20)]
                raws.append(with_value(number))
    columns = decoder.decode(raws, np.zeros(len(raws), np.int32))
    outcomes = {agree(columns, decoder.paths, i, raw) for i, raw in enumerate(raws)}
    assert outcomes == {"OK", "MALFORMED"}


def test_quoted_numbers_up_to_the_limits_of_64_bits_are_integers_and_no_others(decoder: Decoder) -> None:
    numbers = {sign * (base + off) for base in (0, 2**31, 2**63, 2**64, *(10**k for k in range(22)))
               for off in (-2, -1, 0, 1, 2) for sign in (1, -1)}  # fmt: skip
    texts = [str(number) for number in sorted(numbers)] + [
        "-",
        "--1",
        "+1",
        "01",
        "-01",
        "1 ",
        "1/2",
        "1:2",
        "12345678x",
    ]
    messages = [message_of(("x", {"json_ietf_val": f'"{text}"'.encode()})).SerializeToString() for text in texts]
    columns = decoder.decode(messages, np.zeros(len(messages), np.int32))
    for i, raw in enumerate(messages):
        agree(columns, decoder.paths, i, raw)


def test_fields_that_come_twice_are_merged_or_the_last_one_counts(decoder: Decoder) -> None:
    typed = gnmi_pb2.TypedValue
    three = gnmi_pb2.ScalarArray(element=[typed(uint_val=3)])
    values = [
        typed(leaflist_val=three),
        typed(decimal_val=gnmi_pb2.Decimal64(digits=5)),
        typed(decimal_val=gnmi_pb2.Decimal64(precision=1)),
        typed(string_val="12"),
        typed(int_val=4),
    ]
    raws = [with_value(one.SerializeToString() + other.SerializeToString()) for one in values for other in values]
    columns = decoder.decode(raws, [0] * len(raws))
    for i, raw in enumerate(raws):
        assert agree(columns, decoder.paths, i, raw) == "OK"
    merged = with_value(values[0].SerializeToString() * 2)
    columns, rows = said(decoder, merged, with_value(values[3].SerializeToString() + values[4].SerializeToString()))
    assert columns.values(0) == [3, 3]
    assert columns.flags.tolist() == [0, 0]
    assert rows == {"/": ("INT", 4)}
