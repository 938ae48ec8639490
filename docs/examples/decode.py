"""Prints the rows of a packed topic as JSON lines; needs confluent-kafka and msgspec: decode.py HOST:PORT fabric.pfc"""

import json
import struct
import sys

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

HEADER = struct.Struct("<4xHHII")  # after the magic: size of a record, schema version, records, length of the names
RECORD = struct.Struct("<5qQHHBBBB")  # version 1; later ones only add to it
FIELDS = "time_ns seen_ns span_ns value extra flow device port kind priority side quality".split()
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "decode", "enable.partition.eof": True})
partitions = consumer.list_topics(sys.argv[2], 10).topics[sys.argv[2]].partitions
consumer.assign([TopicPartition(sys.argv[2], partition, OFFSET_BEGINNING) for partition in partitions])
while partitions:  # which are left to read; a program that goes on for ever takes `while True`
    if (message := consumer.poll(1.0)) is None or message.error():
        partitions.pop(message.partition() if message else -1, None)
        continue
    try:  # anybody may put anything on a topic
        start = (value := message.value() or b"").index(b"PTB1", 0, 4) + HEADER.size
        size, version, count, length = HEADER.unpack_from(value)
        names = msgspec.msgpack.decode(value[start : start + length])
        for index, offset in enumerate(range(0, count * size, size)):
            cells = RECORD.unpack_from(value, start + length + -length % 8 + offset)
            row = {field: None if cell == -(2**63) else cell for field, cell in zip(FIELDS, cells, strict=True)}
            row |= {"port": names["ports"][row["port"]], "seq": names["seq"] + index}
            print(json.dumps(row | {name: names[name] for name in ("fabric", "source", "epoch", "device")}))
    except (struct.error, msgspec.DecodeError, LookupError, TypeError, ValueError) as error:
        print(f"passed over at {message.partition()}@{message.offset()}, no packed rows: {error}", file=sys.stderr)
