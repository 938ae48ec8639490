"""What a broker refuses is said with its cause, whichever of librdkafka and OpenSSL gives the words."""

from __future__ import annotations

import pytest

from stream.kafka_settings import KafkaSettings
from stream.refusals import not_let_in


@pytest.mark.parametrize(
    "words",
    [
        "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could not be"
        " verified, verify that ssl.ca.location is correctly configured",
        "sasl_ssl://127.0.0.1:38215/bootstrap: error:0A000086:SSL routines::certificate verify failed",
    ],
)
def test_a_certificate_that_nobody_known_has_signed_is_named(words: str) -> None:
    error = not_let_in(KafkaSettings("127.0.0.1:38215"), words)
    assert error is not None
    assert "is not signed by an authority that this system knows" in str(error)


def test_what_is_no_refusal_is_left_to_others() -> None:
    assert (
        not_let_in(KafkaSettings("127.0.0.1:9092"), "Connect to ipv4#127.0.0.1:9092 failed: Connection refused") is None
    )
