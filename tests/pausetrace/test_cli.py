"""The command line from outside: its help, its exit status and its one line for every error."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from pausetrace.cli.main import build_parser, main
from pausetrace.cli.observe import EVENT_TOPICS, JSON_TOPICS
from pausetrace.cli.topics import ROLES as OFFERED_ROLES
from stream.acls import ROLES
from stream.embedded import EmbeddedBroker
from stream.roster_keeper import SOURCE_DEADLINE_S
from stream.topics import TOPICS
from tests.pausetrace.golden import assert_golden
from tests.simulation.small_trace import write_trace

ROOT = Path(__file__).resolve().parents[2]
TRACE = str(ROOT / "tests/data/ns3/slow_receiver-ft4-s1")
COMMAND = [sys.executable, "-m", "pausetrace.cli.main"]
NOWHERE = ["--bootstrap-servers", "127.0.0.1:1"]


def verbs() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every verb and group with its parser."""
    todo = [("", build_parser())]
    while todo:
        name, parser = todo.pop()
        yield name.strip(), parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                todo += [(f"{name} {verb}", inner) for verb, inner in action.choices.items()]


VERBS = dict(verbs())


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_is_as_ever(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert_golden(f"help{'-' if verb else ''}{verb.replace(' ', '-')}.txt", VERBS[verb].format_help())


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_imports_no_room_and_nothing_heavy(verb: str) -> None:
    code = f"""
import sys
from pausetrace.cli.main import main
try:
    main({[*verb.split(), "--help"]!r})
except SystemExit as done:
    assert done.code == 0
heavy = {{"numpy", "msgspec", "rich", "confluent_kafka", "numba", "dataclasses", "logging", "importlib.metadata"}}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_costs_at_most_three_times_the_import_of_msgspec_and_argparse() -> None:
    script = ROOT / "benchmarks/help_cost.py"
    done = subprocess.run([sys.executable, script, "--quick"], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert {"claim", "ratio", "bar", "holds"} <= result.keys()
    assert result["bar"] == 3.0
    assert result["ratio"] <= 3.0


def test_no_verb_is_a_usage_error_that_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: pausetrace")


@pytest.mark.parametrize("arguments", [["topics"], ["observe"], ["observe", "pfc", "--from", "x"], ["nonsense"]])
def test_wrong_usage_ends_with_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: pausetrace" in capsys.readouterr().err


WRONG = {
    "offsets of an unknown topic": (["capture", "/nowhere/x", "--offsets", "x:1"], 2, "no topic 'x'; choose from: pfc"),
    "a missing trace": (["analyze", "/nowhere/x"], 1, "/nowhere/x is not a folder"),
    "a missing trace to score": (["evaluate", "/nowhere/x"], 1, "/nowhere/x does not exist"),
    "a missing trace to import": (["import", "csv", "/nowhere/x"], 1, "/nowhere/x is not a folder"),
    "a missing trace to show": (["demo", "--trace", "/nowhere/x"], 1, "/nowhere/x is not a folder"),
    "evidence that does not exist": (["analyze", TRACE, "--without", "flow"], 2, "choose from: flows, queues"),
    "withheld evidence without a name": (["analyze", TRACE, "--without", ""], 2, "give flows, queues or flows,queues"),
    "a disturbance that does not exist": (["evaluate", TRACE, "--degrade", "noise=1"], 2, "'noise=1' is none of skew"),
    "no run at all": (["evaluate", TRACE, "--degrade", "loss=.1", "--seeds", "0"], 2, "--seeds 0 leaves nothing to do"),
    "no process at all": (["evaluate", TRACE, "--degrade", "loss=.1", "--workers", "0"], 2, "--workers 0 leaves"),
    "seeds of nothing": (["evaluate", TRACE, "--seeds", "5"], 2, "are for spoilt traces; say how: --degrade loss=.1"),
    "an empty part among the evidence": (["evaluate", TRACE, "--without", "flows,"], 2, "names nothing in a place"),
    "a fabric with a slash": (
        ["import", "csv", "/nowhere/x", "--fabric", "a/b c"],
        2,
        "--fabric 'a/b c' cannot be a fabric's name; give 1 to 256 characters without '/'",
    ),
    "a fabric without a name": (["import", "csv", "/nowhere/x", "--fabric", ""], 2, "give 1 to 256 characters"),
    "a port that is none": (["topics", "list", "--bootstrap-servers", "localhost:90922"], 2, "port from 1 to 65535"),
    "a missing configuration": (
        ["topics", "list", "--config", "/nowhere/x.toml"],
        2,
        "check the path given by --config",
    ),
    "a setting without value": (["topics", "list", "-X", "debug"], 2, "write it like -X"),
    "an unknown topic": (["observe", "pcf"], 2, "choose from: pfc, ecn"),
    "snapshots": (["observe", "state"], 2, "which only they can read"),
    "an unknown kind": (["observe", "pfc", "--kind", "PFC_XOF"], 2, "did you mean PFC_XOFF?"),
    "a choice that JSON has not": (["observe", "cascade", "--port", "p1"], 2, "use --device alone"),
    "nothing to show": (["observe", "pfc", "--limit", "0"], 2, "give a number from 1"),
    "no time": (["import", "csv", TRACE, "--time", "yesterday"], 2, "give now, keep or a time like"),
    "a time after all times": (
        ["import", "csv", TRACE, "--time", "2150-01-01T00:00:00Z"],
        2,
        "--time 2150-01-01T00:00:00Z is after 2116",
    ),
    "a pace that is none": (["import", "csv", TRACE, "--pace", "-1"], 2, "publish at full speed"),
    "a trace of the past again and again": (
        ["import", "csv", TRACE, "--time", "keep", "--every", "60"],
        2,
        "give --every a second or more, and no --time",
    ),
    "no partitions": (["topics", "create", "--partitions", "0"], 2, "is not a number from 1"),
    "a principal without a type": (
        ["topics", "acls", "--role", "viewer", "--principal", "ann"],
        2,
        "write it like User:ann",
    ),
    "polls that are longer than any": (
        ["analyze", TRACE, "--polled", "10m"],
        2,
        "--polled 10m is too long; give 60s or less",
    ),
    "polls of no length": (["analyze", TRACE, "--polled", ""], 2, "--polled "),
    "a file where a fabric is to be played": (["play", TRACE, "/etc/passwd"], 2, "/etc/passwd: File exists; choose a"),
    "ports that there are not": (["play", TRACE, "/nowhere", "--port", "99999"], 2, "have no ports from there on"),
    "a played fabric with a slash": (["play", TRACE, "/nowhere", "--fabric", "a/b"], 2, "cannot be a fabric's name"),
    "a vendor of a demo without polls": (["demo", "--vendor", "sonic"], 2, "add --sampled 1s"),
    "an endless demo": (["demo", "--seconds", "inf"], 2, "from 1 to 3600"),
    "an unknown setting of librdkafka": (
        ["topics", "list", "-X", "no.such=1"],
        2,
        "librdkafka does not take a setting",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_is_one_line_with_the_next_step(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, status, said = WRONG[case]
    assert main(arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pausetrace: error: ")
    assert said in err
    assert err.count("\n") == 1


def test_a_wrong_key_in_the_configuration_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[kafka]\nbootstrap_server = 'x'\n")
    assert main(["topics", "list", "--config", str(file)]) == 2
    said = f"{file}:2: no key 'bootstrap_server' in section 'kafka'; did you mean 'bootstrap_servers'?"
    assert capsys.readouterr().err == f"pausetrace: error: {said}\n"


@pytest.mark.slow
def test_an_unreachable_broker_is_one_line_from_every_verb() -> None:
    commands = {
        "list": ["topics", "list"],
        "create": ["topics", "create"],
        "describe": ["topics", "describe"],
        "observe": ["observe", "pfc"],
        "detect": ["detect"],
        "correlate": ["correlate"],
        "import": ["import", "csv", TRACE],
        "demo": ["demo"],
    }
    running = {
        name: subprocess.Popen(
            [*COMMAND, *arguments, *NOWHERE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name, arguments in commands.items()
    }
    for name, process in running.items():
        out, err = process.communicate(timeout=120)
        lines = [line for line in err.splitlines() if not line.startswith("demo: ")]
        assert process.returncode == 1, (name, err)
        assert out == ""
        assert len(lines) == 1, (name, err)
        assert lines[0].startswith("pausetrace: error: no Kafka broker answers at 127.0.0.1:1"), name
        assert "docker compose up" in lines[0], name


def test_a_missing_extra_is_told_with_the_command_that_installs_it() -> None:
    code = f"""
import sys
sys.modules["numba"] = None
from pausetrace.cli.main import main
sys.exit(main(["analyze", {TRACE!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 3
    assert done.stderr == (
        "pausetrace: error: numba is not installed; install it: python -m pip install 'pausetrace[analytics]'\n"
    )


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    process = subprocess.Popen([*COMMAND, "schema", "docs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 0


WRITERS = [
    ["--help"],
    ["schema", "docs"],
    ["analyze", TRACE],
    ["analyze", TRACE, "-o", "json"],
    ["explain", TRACE, "fcd"],
    ["config", "show"],
]


@pytest.mark.parametrize("arguments", WRITERS, ids=lambda arguments: " ".join(arguments).replace(TRACE, "TRACE"))
def test_output_that_cannot_be_written_is_one_line_and_a_reader_that_left_is_none(arguments: list[str]) -> None:
    def told(stdout: int | IO[str]) -> tuple[int, str]:
        done = subprocess.run([*COMMAND, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stderr

    read, write = os.pipe()
    os.close(read)
    assert told(write) == (0, "")
    os.close(write)
    with open("/dev/full", "w") as full:  # noqa: PTH123
        assert told(full) == (1, "pausetrace: error: output cannot be written: No space left on device\n")


def test_a_stdout_that_was_closed_is_told_in_one_line() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "analyze", TRACE, "-o", "json"],
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "pausetrace: error: output cannot be written: it is closed\n")


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_import_that_is_stopped_tells_the_roster_and_has_no_traceback(
    ending: signal.Signals, status: int, embedded_broker: EmbeddedBroker
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "import", "csv", TRACE, "--pace", "60", "--bootstrap-servers", embedded_broker.bootstrap_servers],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    watch = [*COMMAND, "observe", "pcie", "--from", "earliest", "--limit", "1", "--bootstrap-servers"]
    subprocess.run([*watch, embedded_broker.bootstrap_servers], stdout=subprocess.DEVNULL, check=True, timeout=60)
    process.send_signal(ending)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (status, "", "")
    told = subprocess.run(
        [*COMMAND, "observe", "control", "--from", "earliest", "--no-follow", "--bootstrap-servers",
         embedded_broker.bootstrap_servers],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert json.loads(told.stdout.splitlines()[-1])["reason"] == "interrupted"


def test_a_trace_is_published_again_and_again(embedded_broker: EmbeddedBroker) -> None:
    process = subprocess.Popen(
        [*COMMAND, "import", "csv", TRACE, "--every", "1", "--bootstrap-servers", embedded_broker.bootstrap_servers],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    first, second = process.stderr.readline(), process.stderr.readline()
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert first.startswith("pausetrace: published 1,696 rows")
    # Each time is a life of its own, which no reader takes for rows read again.
    assert first.partition("epoch")[2] != second.partition("epoch")[2] != ""


def test_config_show_tells_origins_and_no_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAUSETRACE_KAFKA_LIBRDKAFKA_SASL_PASSWORD", "hush")
    assert main(["config", "show", "--prefix", "lab", "-o", "json"]) == 0
    shown = {setting["key"]: setting for setting in json.loads(capsys.readouterr().out)}
    assert shown["kafka.prefix"] == {"key": "kafka.prefix", "value": "lab", "origin": "flag --prefix"}
    assert shown["kafka.librdkafka.sasl.password"]["value"] == "********"
    assert main(["config", "show"]) == 0
    out = capsys.readouterr().out
    assert "hush" not in out
    assert "variable PAUSETRACE_KAFKA_LIBRDKAFKA_SASL_PASSWORD" in out


@pytest.mark.parametrize("key", ["sasl.password", "ssl.key.password", "ssl.key.pem"])
def test_a_secret_on_the_command_line_is_refused_with_its_place(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "-X", f"{key}=hush"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"pausetrace: error: flag -X {key}: {key} is a secret, and everybody here can read a command")
    assert "put" in err
    assert "hush" not in out + err


def test_the_rights_of_a_role_are_printed_without_a_connection(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "acls", "--role", "viewer", "--prefix", "lab", *NOWHERE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "kafka-acls.sh --bootstrap-server 127.0.0.1:1 --add --allow-principal User:viewer --operation Read "
        "--topic lab.pfc --resource-pattern-type literal"
    )
    assert main(["topics", "acls", "--role", "viewer", "--principal", "User:ann", "-o", "json", *NOWHERE]) == 0
    acls = json.loads(capsys.readouterr().out)
    assert len(acls) == len(lines)
    assert acls[0] == {
        "principal": "User:ann", "operation": "Read", "resource": "topic", "name": "fabric.pfc", "pattern": "literal"
    }  # fmt: skip


def test_the_help_names_the_roles_that_there_are() -> None:
    assert tuple(ROLES) == OFFERED_ROLES


def test_analyze_names_the_host_and_gives_json_exactly_as_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", TRACE]) == 0
    text = capsys.readouterr().out
    assert "h9 is a slow receiver" in text
    assert "31500 of 100000 Mb/s" in text
    assert "\x1b" not in text
    assert main(["analyze", TRACE, "-o", "jsonl"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["analyze", TRACE, "-o", "json"]) == 0
    whole = capsys.readouterr().out
    assert whole == f"[{','.join(lines)}]\n"
    worst = json.loads(lines[0])
    assert (worst["roots"][0]["device"], worst["roots"][0]["root_class"]) == ("h9", "slow_receiver_pcie")


def test_a_trace_without_pause_events_has_suspects_by_its_counters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", str(write_trace(tmp_path, pfc=None))]) == 0
    out, err = capsys.readouterr()
    assert "SUSPECTS" in out
    assert "No verdict" in out
    assert err == "pausetrace: note: no pfc.csv: no exact pause events, so its counters are taken as polls\n"


def test_evaluate_prints_cases_and_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", TRACE, "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [case["name"] for case in report["cases"]] == ["slow_receiver-ft4-s1"]
    assert report["summary"]["top1"] == 1.0
    assert {
        "blame_distance_mean", "blame_distance_max", "top1", "planted_named", "class_accuracy", "edge_f1",
        "contributor_f1", "victim_precision", "victim_recall", "innocents_blamed", "abstained", "negatives_alarmed",
        "deadlock_missed", "deadlock_false", "slow_hosts_missed", "slow_hosts_false",
    } <= report["summary"].keys()  # fmt: skip
    assert main(["evaluate", TRACE]) == 0
    assert "slow_receiver-ft4-s1" in capsys.readouterr().out


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("pausetrace 0.")


def test_a_terminal_without_unicode_gets_ascii() -> None:
    done = subprocess.run(
        [*COMMAND, "analyze", TRACE], capture_output=True, check=False,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"|- " in done.stdout or b"`- " in done.stdout


def test_observe_refuses_and_lists_the_same_topics(capsys: pytest.CaptureFixture[str]) -> None:
    topics = [topic.name for topic in TOPICS if topic.encoding != "binary"]
    assert (*EVENT_TOPICS, *JSON_TOPICS) == tuple(topics)
    assert main(["observe", "pcf"]) == 2
    assert capsys.readouterr().err == f"pausetrace: error: no topic 'pcf'; choose from: {', '.join(topics)}\n"
    said = VERBS["observe"].format_help().partition("topics: ")[2]
    assert re.findall("[a-z]+", re.sub(r"\(.*?\)", "", said)) == topics


def test_a_source_has_as_long_as_the_help_says() -> None:
    args = build_parser().parse_args(["correlate"])
    assert args.source_deadline == SOURCE_DEADLINE_S
    assert f"default: {SOURCE_DEADLINE_S:g}" in re.sub(r"\s+", " ", VERBS["correlate"].format_help())
