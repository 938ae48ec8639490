"""The page about Kafka says what the code does."""

from pathlib import Path

from stream.dead_letters import MAX_KEPT_BYTES
from stream.embedded import LIMITS
from stream.outbox import HELD_BYTES, HOLD_S, QUEUE_BYTES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "kafka.md").read_text()


def test_the_page_tells_every_limit_of_the_embedded_broker() -> None:
    assert [limit for limit in LIMITS if f"- {limit}\n" not in PAGE] == []


def test_the_page_tells_how_much_is_held() -> None:
    queue, held = f"{QUEUE_BYTES >> 20} MB wait in librdkafka's queue", f"{HELD_BYTES >> 20} MB behind it"
    assert f"{queue} for as long as it takes, and {held}, {HOLD_S:g} s at most" in PAGE
    assert f"{MAX_KEPT_BYTES >> 10} KiB at most" in PAGE
