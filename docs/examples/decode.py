"""Prints the rows of a packed topic as JSON lines; needs confluent-kafka and msgspec: decode.py HOST:PORT fabric.pfc"""

import json
import struct
import sys
from collections import namedtuple

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

HEADER = struct.Struct("<4sHHII")  # magic, size of a record, schema version, count of records, length of the names
RECORD = struct.Struct("<5qQHHBBBB")  # version 1; later ones only add to it
Row = namedtuple("Row", "time_ns seen_ns span_ns value extra flow device port kind priority side quality")

passed_over = 0
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "decode", "enable.partition.eof": True})
partitions = consumer.list_topics(sys.argv[2], 10).topics[sys.argv[2]].partitions
consumer.assign([TopicPartition(sys.argv[2], partition, OFFSET_BEGINNING) for partition in partitions])
while partitions:  # which are left to read; a program that goes on for ever takes `while True`
    if (message := consumer.poll(1.0)) is None or message.error():
        partitions.pop(message.partition() if message else -1, None)
        continue
    try:
        magic, size, version, count, length = HEADER.unpack_from(value := message.value() or b"")
        names = msgspec.msgpack.decode(value[HEADER.size : HEADER.size + length])
        places = range(HEADER.size + length + -length % 8, len(value), size)
        assert (magic, len(places)) == (b"PTB1", count)
        rows = [Row(*RECORD.unpack_from(value, place))._asdict() for place in places]
        for index, row in enumerate(rows):
            row |= {measure: None for measure in ("value", "extra") if row[measure] == -(2**63)}  # unknown
            row |= {"port": names["ports"][row["port"]], "seq": names["seq"] + index}
            row |= {name: names[name] for name in ("fabric", "source", "epoch", "device")}
        print(end="".join(json.dumps(row) + "\n" for row in rows))
    except (struct.error, msgspec.DecodeError, AssertionError, LookupError, RuntimeError, TypeError, ValueError):
        passed_over += 1  # no packed rows: anybody may put anything on a topic
print(f"{passed_over} values passed over: they are not packed rows", file=sys.stderr)
