"""The verbs one after another on a broker, as a user would type them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stream.embedded import EmbeddedBroker
from stream.topics import TOPICS
from tests.kafka_brokers import fresh_prefix
from tests.pausetrace.publishing import publish
from tests.pausetrace.sample_batches import PAUSES

ROOT = Path(__file__).resolve().parents[2]
AT_LEAST_ONCE, EXACTLY_ONCE = "at least once: ", "exactly once: "
TRACE = str(ROOT / "tests/data/ns3/slow_receiver-ft4-s1")


def pausetrace(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pausetrace.cli.main", *arguments],
        capture_output=True, text=True, timeout=120, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done


def the_whole_way(*kafka: str, promise: str) -> None:
    imported = pausetrace("import", "csv", TRACE, "--time", "keep", *kafka)
    assert "published 1,696 rows" in imported.stderr
    detected = pausetrace("detect", "--no-follow", *kafka)
    assert promise in detected.stderr
    assert "pausetrace: detect: " in detected.stderr
    correlated = pausetrace("correlate", "--no-follow", "--final-only", *kafka)
    assert promise in correlated.stderr
    observed = pausetrace("observe", "cascade", "--from", "earliest", "--no-follow", *kafka)
    analyzed = pausetrace("analyze", TRACE, "-o", "jsonl")
    assert sorted(observed.stdout.splitlines()) == sorted(analyzed.stdout.splitlines())
    # At least once, everything again gives the same cascades under the same ids; exactly once, nothing comes again.
    pausetrace("detect", "--no-follow", *kafka)
    pausetrace("correlate", "--no-follow", "--final-only", *kafka)
    again = pausetrace("observe", "cascade", "--from", "earliest", "--no-follow", *kafka)
    assert set(again.stdout.splitlines()) == set(analyzed.stdout.splitlines())
    if promise == EXACTLY_ONCE:
        assert again.stdout == observed.stdout


@pytest.mark.slow
def test_a_trace_that_is_imported_twice_gives_its_final_cascades_once(embedded_broker: EmbeddedBroker) -> None:
    kafka = ("--bootstrap-servers", embedded_broker.bootstrap_servers)
    for _ in range(2):
        pausetrace("import", "csv", TRACE, "--time", "keep", *kafka)
    pausetrace("detect", "--no-follow", *kafka)
    pausetrace("correlate", "--no-follow", "--final-only", *kafka)
    observed = pausetrace("observe", "cascade", "--from", "earliest", "--no-follow", *kafka)
    # Each import is a life of its own of the source; what both tell is one cascade with one id.
    assert set(observed.stdout.splitlines()) == set(pausetrace("analyze", TRACE, "-o", "jsonl").stdout.splitlines())


def test_observe_says_how_much_a_filter_passed_over_that_nothing_fits(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, PAUSES)
    observe = ("observe", "pfc", "--from", "earliest", "--no-follow", "--bootstrap-servers")
    done = pausetrace(*observe, embedded_broker.bootstrap_servers, "--device", "nobody")
    assert (done.stdout, done.stderr) == ("", "pausetrace: no row was chosen, 3 rows were passed over\n")
    done = pausetrace(*observe, embedded_broker.bootstrap_servers, "--kind", "PFC_XOFF")
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


@pytest.mark.slow
def test_the_whole_way_through_the_embedded_broker(embedded_broker: EmbeddedBroker) -> None:
    the_whole_way("--bootstrap-servers", embedded_broker.bootstrap_servers, promise=AT_LEAST_ONCE)


@pytest.mark.kafka
@pytest.mark.slow
def test_the_whole_way_through_a_real_kafka(real_kafka: str) -> None:
    kafka = ("--bootstrap-servers", real_kafka, "--prefix", fresh_prefix())
    made = pausetrace("topics", "create", "--partitions", "2", *kafka).stdout.splitlines()
    assert len(made) == len(TOPICS)
    assert all(line.endswith(": made") for line in made)
    the_whole_way(*kafka, promise=EXACTLY_ONCE)


@pytest.mark.kafka
def test_topics_are_made_once_listed_and_described(real_kafka: str) -> None:
    prefix = fresh_prefix()
    kafka = ("--bootstrap-servers", real_kafka, "--prefix", prefix)
    before = json.loads(pausetrace("topics", "list", "-o", "json", *kafka).stdout)
    assert [topic["partitions"] for topic in before] == [0] * len(TOPICS)
    assert "missing" in pausetrace("topics", "list", *kafka).stdout
    pausetrace("topics", "create", *kafka)
    again = pausetrace("topics", "create", *kafka).stdout.splitlines()
    assert all(line.endswith(": exists") for line in again)
    described = json.loads(pausetrace("topics", "describe", f"{prefix}.pfc", "link", "-o", "json", *kafka).stdout)
    assert [(topic["name"], topic["partitions"], topic["differences"]) for topic in described] == [
        ("pfc", 4, []), ("link", 1, []),
    ]  # fmt: skip
    assert "cleanup.policy=compact" in pausetrace("topics", "describe", "link", *kafka).stdout
    other = pausetrace("topics", "create", "--partitions", "7", *kafka).stdout
    assert f"{prefix}.pfc: exists, but has 4 partitions, not 7" in other


def test_the_embedded_broker_refuses_what_it_cannot_do(embedded_broker: EmbeddedBroker) -> None:
    kafka = ("--bootstrap-servers", embedded_broker.bootstrap_servers)
    for verb in ("create", "describe"):
        refused = pausetrace("topics", verb, *kafka, status=1)
        assert refused.stderr.startswith(f"pausetrace: error: the embedded broker cannot {verb} topics")
    assert "fabric.pfc" in pausetrace("topics", "list", *kafka).stdout


def test_a_missing_topic_is_told_with_the_verb_that_makes_it(embedded_broker: EmbeddedBroker) -> None:
    kafka = ("--bootstrap-servers", embedded_broker.bootstrap_servers, "--prefix", "nobody-has-this")
    for arguments in (["observe", "pfc"], ["detect"], ["correlate"], ["import", "csv", TRACE]):
        refused = pausetrace(*arguments, *kafka, status=1)
        assert refused.stderr.count("\n") == 1
        assert "pausetrace topics create" in refused.stderr
