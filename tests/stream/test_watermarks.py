"""In which order a broker is asked for offsets: where metadata arrives meanwhile, librdkafka dies."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition

from stream import watermarks
from stream.kafka_settings import KafkaSettings
from stream.offset_gaps import PartitionId

PLACES = [PartitionId("pfc", 0), PartitionId("pfc", 1)]


class Answer(Future[SimpleNamespace]):
    """An offset that is noted as answered when it is waited for."""

    def __init__(self, order: list[str], question: str, offset: int) -> None:
        super().__init__()
        self._order, self._question = order, question
        self.set_result(SimpleNamespace(offset=offset))

    def result(self, timeout: float | None = None) -> SimpleNamespace:
        self._order.append(f"{self._question} answered")
        return super().result(timeout)


class Client:
    """An admin client that notes what it is asked."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def list_topics(self, timeout: float) -> None:
        assert timeout > 0
        self.order.append("metadata")

    def list_offsets(self, asked: Iterable[TopicPartition], request_timeout: float) -> dict[TopicPartition, Answer]:
        assert request_timeout > 0
        question = f"question {self.order.count('question 1') + 1}"
        self.order.append(question)
        return {place: Answer(self.order, question, int(question[-1]) * 10 + place.partition) for place in asked}


def test_no_metadata_are_on_their_way_while_a_question_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    monkeypatch.setattr(watermarks, "admin_client", lambda _settings: client)
    marks = watermarks.WatermarkQuery(KafkaSettings("127.0.0.1:1")).ask(PLACES, 1.0)
    assert marks == {PLACES[0]: (10, 20), PLACES[1]: (11, 21)}
    assert client.order == [
        "metadata", "question 1", *["question 1 answered"] * 2, "question 2", *["question 2 answered"] * 2,
    ]  # fmt: skip
