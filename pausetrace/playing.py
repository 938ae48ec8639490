"""A played fabric that is polled as one in the field: `play`, `probe` and `collect`, each a process of its own.

In: a trace, how it is played and where Kafka is. Out: what collectors and probes of that fabric publish, for as long
as a block.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pausetrace.child import Child
from pausetrace.config import variable
from pausetrace.units import duration_words, parse_time
from stream.kafka_settings import KafkaSettings
from stream.masking import is_secret

READY_DEADLINE_S = 30.0
BEGIN_DEADLINE_S = 60.0
"""For the collector to compile its kernels, if they are not, and to reach all switches."""
SAYS_TIMES = "queues stop from "


@dataclass(frozen=True, slots=True)
class KafkaOfChild:
    """What a child process has to be given so that it finds the same Kafka."""

    flags: Sequence[str]
    environment: Mapping[str, str]
    files: Sequence[int]

    def child(self, arguments: Sequence[str]) -> Child:
        """A verb with Kafka."""
        return Child([*arguments, *self.flags], self.environment, self.files)


@contextlib.contextmanager
def kafka_of_child(settings: KafkaSettings) -> Iterator[KafkaOfChild]:
    """The settings as flags, variables and a file that is gone with this process."""
    # A file on the disk would outlive a kill; everybody may read a command line: secrets go by the environment.
    # JSON's strings are TOML's.
    secrets = {key: value for key, value in settings.librdkafka.items() if is_secret(key, value)}
    environment = {variable(f"kafka.librdkafka.{key}"): value for key, value in secrets.items()}
    with os.fdopen(os.memfd_create("kafka.toml"), "w", encoding="utf-8") as file:
        lines = (f"{json.dumps(k)} = {json.dumps(v)}" for k, v in settings.librdkafka.items() if k not in secrets)
        file.write("\n".join(["[kafka.librdkafka]", *lines, ""]))
        file.flush()
        number = file.fileno()
        flags = [
            "--config", f"/proc/self/fd/{number}", "--bootstrap-servers", settings.bootstrap_servers,
            "--prefix", settings.prefix,
        ]  # fmt: skip
        yield KafkaOfChild(flags, environment, [number])


@dataclass(frozen=True, slots=True)
class Play:
    """How a trace is played: see `pausetrace play`."""

    trace: Path
    vendor: str
    period_ns: int
    over_ns: int
    fabric: str
    repeat: bool = False

    def arguments(self, folder: Path) -> list[str]:
        """The command line of the verb."""
        flags = ["--vendor", self.vendor, "--fabric", self.fabric]
        flags += ["--period", duration_words(self.period_ns), "--over", duration_words(self.over_ns)]
        return ["play", str(self.trace), str(folder), *flags, *["--repeat"] * self.repeat]


class Playing:
    """The processes of a played fabric that is polled."""

    def __init__(self, play: Child, children: Sequence[Child]) -> None:
        self._play, self._children = play, (play, *children)

    def incident_ns(self) -> tuple[int, int]:
        """When the first queue will stop and the last go on, once that is known; raises ChildError if it never is."""
        self._play.wait_until_said(SAYS_TIMES, BEGIN_DEADLINE_S)
        told = self._play.said().partition(SAYS_TIMES)[2].splitlines()[0]
        first, last = told.split(" to ")
        return parse_time(first), parse_time(last)

    def check(self) -> None:
        """Raises ChildError if any of them has ended."""
        for child in self._children:
            child.check()


@contextlib.contextmanager
def playing(play: Play, kafka: KafkaOfChild) -> Iterator[Playing]:
    """Has the trace played and polled for as long as the block."""
    with tempfile.TemporaryDirectory(prefix="pausetrace-") as folder, Child(play.arguments(Path(folder))) as player:
        player.wait_until_said("ready to be polled", READY_DEADLINE_S)
        probe = [
            "probe",
            "--hosts",
            f"{folder}/hosts",
            "--interval",
            duration_words(play.period_ns),
            "--fabric",
            play.fabric,
        ]
        with kafka.child(probe) as probes:
            probes.wait_until_said("agents of ", READY_DEADLINE_S)
            with kafka.child(["collect", "run", f"{folder}/fabric.toml"]) as collector:
                yield Playing(player, (probes, collector))
