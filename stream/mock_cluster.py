"""librdkafka's mock cluster through its C API: brokers, topics and groups in the memory of this process.

The only module that knows C. The functions are those of rdkafka_mock.h, which calls itself experimental.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping

from confluent_kafka import cimpl

from stream.errors import BrokerError, MissingDependencyError

_PRODUCER = 0
_CONF_OK = 0
_BETWEEN_CALLS_S = 0.002

_FUNCTIONS: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "rd_kafka_conf_new": (ctypes.c_void_p, ()),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t),
    ),
    "rd_kafka_new": (ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)),
    "rd_kafka_err2str": (ctypes.c_char_p, (ctypes.c_int,)),
    "rd_kafka_mock_cluster_new": (ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int)),
    "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, (ctypes.c_void_p,)),
    "rd_kafka_mock_topic_create": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, (ctypes.c_void_p, ctypes.c_int32)),
}
"""Result and arguments of each C function used."""


def _library() -> ctypes.CDLL:
    # The wheel carries librdkafka under a hashed name that differs by platform; looked up through the extension module
    # that is linked to it, the dynamic loader finds it under any name, and a system's own as well.
    library = ctypes.CDLL(cimpl.__file__)
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError as err:
            raise MissingDependencyError(
                f"this confluent-kafka's librdkafka has no {name}",
                "install confluent-kafka from its wheel, or use a real Kafka: docker compose up -d --wait kafka",
            ) from err
        function.restype = result
        function.argtypes = arguments
    return library


class MockCluster:
    """A cluster of one broker on a free port of 127.0.0.1, alive as long as this process."""

    def __init__(self, partitions: Mapping[str, int], group_rebalance_delay_ms: int) -> None:
        library = _library()
        text = ctypes.create_string_buffer(512)
        conf = library.rd_kafka_conf_new()
        # The client that carries the cluster would print warnings about itself on stderr.
        if library.rd_kafka_conf_set(conf, b"log_level", b"0", text, len(text)) != _CONF_OK:
            raise BrokerError(f"the embedded broker cannot be set up: {text.value.decode()}")
        client = library.rd_kafka_new(_PRODUCER, conf, text, len(text))
        if not client:
            raise BrokerError(f"the embedded broker cannot be set up: {text.value.decode()}")
        cluster = library.rd_kafka_mock_cluster_new(client, 1)
        if not cluster:
            raise BrokerError("the embedded broker cannot open a port on 127.0.0.1")
        for topic, count in partitions.items():
            # The cluster's thread may take the wake-up of a call that follows at once for that of the last one, and
            # sleep a second on it.
            time.sleep(_BETWEEN_CALLS_S)
            error = library.rd_kafka_mock_topic_create(cluster, topic.encode(), count, 1)
            if error:
                raise BrokerError(
                    f"the embedded broker cannot make topic {topic}: {library.rd_kafka_err2str(error).decode()}"
                )
        time.sleep(_BETWEEN_CALLS_S)
        library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, group_rebalance_delay_ms)
        self.bootstrap_servers: str = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
