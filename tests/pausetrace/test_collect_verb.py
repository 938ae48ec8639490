"""`pausetrace collect` as people run it: rows on stdout, an inventory that changes, one look at a target."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from collectors.examine import snapshot
from collectors.failures import Failure
from collectors.inventory import load
from collectors.profile_choice import choice_of
from pausetrace.child import own_command, own_environment
from simulation.gnmi_targets.behaviour import Behaviour, Refusal
from simulation.gnmi_targets.http2 import Stream
from simulation.gnmi_targets.leaves import Leaves
from simulation.gnmi_targets.raw_target import RawTarget
from simulation.gnmi_targets.server import FakeTarget
from tests.collectors.lab_device import lab_leaves

LAB = Path(__file__).parents[1] / "collectors/lab.toml"
DEADLINE_S = 60


def inventory(file: Path, **addresses: str) -> Path:
    """An inventory of these targets."""
    text = f'[collect]\nfabric = "lab"\n[defaults]\nplaintext = true\ninterval = "200ms"\nprofile = "{LAB}"\n'
    text += "".join(f'[targets.{name}]\naddress = "{address}"\n' for name, address in addresses.items())
    file.write_text(text)
    return file


async def run(*arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a verb."""
    process = await asyncio.create_subprocess_exec(
        *own_command(["collect", *arguments]), env=own_environment(),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    return process.returncode or 0, out.decode(), err.decode()


def test_rows_come_as_json_lines_and_targets_come_and_go_on_sighup(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeTarget(lab_leaves()) as first, FakeTarget(lab_leaves()) as second:
            file = inventory(tmp_path / "lab.toml", leaf1=first.address)
            process = await asyncio.create_subprocess_exec(
                *own_command(["collect", str(file), "-o", "jsonl"]), env=own_environment(),
                stdout=asyncio.subprocess.PIPE, stderr=sys.stderr,
            )  # fmt: skip
            assert process.stdout is not None

            async def until(device: str) -> dict[str, Any]:
                assert process.stdout is not None
                while True:
                    row: dict[str, Any] = json.loads(await process.stdout.readline())
                    if row.get("device") == device and "kind" in row:
                        return row

            row = await asyncio.wait_for(until("leaf1"), DEADLINE_S)
            assert (row["kind"], row["fabric"]) == ("PORT_BYTES", "lab")
            inventory(file, leaf1=first.address, leaf2=second.address)
            process.send_signal(signal.SIGHUP)
            await asyncio.wait_for(until("leaf2"), DEADLINE_S)
            # The one that stayed was not disturbed.
            assert len(first.requests) == 1
            # A wrong inventory changes nothing.
            file.write_text("[collect\n")
            process.send_signal(signal.SIGHUP)
            await asyncio.sleep(0.5)
            await asyncio.wait_for(until("leaf2"), DEADLINE_S)
            # A file that changes is noticed without a signal.
            inventory(file, leaf2=second.address)
            for _ in range(100):
                if first.open_streams == 0:
                    break
                await asyncio.sleep(0.1)
            assert (first.open_streams, second.open_streams) == (0, 1)
            process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.communicate(), DEADLINE_S)
            assert process.returncode == 0

    asyncio.run(play())


def test_check_tells_what_a_target_can_give(tmp_path: Path) -> None:
    async def play() -> None:
        path = "/interfaces/interface[name=*]/state/counters"
        async with FakeTarget(lab_leaves()) as fake:
            file = inventory(tmp_path / "lab.toml", leaf1=fake.address)
            status, out, err = await run("check", str(file), "leaf1", "-o", "json")
            assert status == 0
            assert "looking at leaf1; the first look compiles" in err
            told = json.loads(out)
            assert (told["profile"], told["encoding"], told["security"]) == ("lab", "PROTO", "PLAIN TEXT")
            assert [(each["path"], each["result"]) for each in told["subscriptions"]] == [(path, "data")]
            fake.behaviour = Behaviour(refusals=(Refusal("INVALID_ARGUMENT", "no such model", path),))
            status, out, _ = await run("check", str(file), "leaf1")
            assert status == 1
            assert "refused" in out
            assert "no such model" in out
            assert "does not give: port bytes" in out

    asyncio.run(play())


def test_check_tells_garbage_from_silence(tmp_path: Path) -> None:
    async def garbage(stream: Stream, _request: bytes) -> None:
        while stream.open:
            stream.send(b"\x0a\xff\xff\xff\xff\xff")
            await asyncio.sleep(0.05)

    async def play() -> None:
        async with RawTarget(garbage) as odd, FakeTarget(Leaves()) as mute:
            file = inventory(tmp_path / "lab.toml", odd=odd.address, mute=mute.address)
            (_, odd_told, _), (_, mute_told, _) = await asyncio.gather(
                run("check", str(file), "odd"), run("check", str(file), "mute")
            )
        assert "accepted, sends no gNMI" in odd_told
        assert "accepted, nothing came" in mute_told

    asyncio.run(play())


def test_an_output_that_takes_no_more_ends_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeTarget(lab_leaves()) as fake:
            file = inventory(tmp_path / "lab.toml", leaf1=fake.address)
            with Path("/dev/full").open("w") as full:
                process = await asyncio.create_subprocess_exec(
                    *own_command(["collect", str(file), "-o", "jsonl"]), env=own_environment(),
                    stdout=full, stderr=asyncio.subprocess.PIPE,
                )  # fmt: skip
                _, err = await asyncio.wait_for(process.communicate(), DEADLINE_S)
            assert process.returncode == 1
            assert b"output cannot be written: No space left on device" in err

    asyncio.run(play())


def test_lines_are_written_by_one_process(tmp_path: Path) -> None:
    file = inventory(tmp_path / "lab.toml", leaf1="127.0.0.1:1")
    status, _, err = asyncio.run(run(str(file), "-o", "jsonl", "--workers", "2"))
    assert (status, err) == (2, "pausetrace: error: -o jsonl is written by one process; leave --workers out\n")


def test_once_says_why_there_is_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeTarget(Leaves()) as fake:
            file = inventory(tmp_path / "lab.toml", leaf1=fake.address)
            status, out, err = await run("once", str(file))
            assert (status, out) == (1, "")
            assert "leaf1: the target told nothing that was asked of it; see `pausetrace collect check`" in err
            fake.behaviour = Behaviour(refusals=(Refusal("PERMISSION_DENIED", "no \x1b[31mright"),))
            status, _, err = await run("once", str(file))
            assert status == 1
            assert "no \\x1b[31mright" in err
        async with FakeTarget(lab_leaves(), Behaviour(sync="absent", once=False)) as fake:
            target = load(inventory(tmp_path / "lab.toml", leaf1=fake.address)).target("leaf1")
            with pytest.raises(Failure, match="never said that it had told all: no whole snapshot within 1 s"):
                await snapshot(target, choice_of(), 1.0)

    asyncio.run(play())


def test_once_prints_every_leaf(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeTarget(lab_leaves(3)) as fake:
            file = inventory(tmp_path / "lab.toml", leaf1=fake.address, gone="127.0.0.1:1")
            status, out, err = await run("once", str(file), "leaf1", "-o", "jsonl")
            assert status == 0, err
            leaves = [json.loads(line) for line in out.splitlines()]
            assert len(leaves) == 6
            assert {leaf["device"] for leaf in leaves} == {"leaf1"}
            assert leaves[0]["path"].startswith("/interfaces/interface[name=Ethernet1]/state/counters/")
            status, out, err = await run("once", str(file))
            assert status == 1
            assert "gone" in err
            assert len(out.splitlines()) == 6
            # Those that do not answer are waited for together, and the rows of the others do not wait.
            with socket.create_server(("127.0.0.1", 0)) as mute:
                address = f"127.0.0.1:{mute.getsockname()[1]}"
                silent = {f"silent{number}": address for number in range(12)}
                file = inventory(tmp_path / "lab.toml", **silent, leaf1=fake.address)
                file.write_text(file.read_text().replace("[defaults]", '[defaults]\nconnect_deadline = "1s"'))
                status, out, err = await run("once", str(file))
            assert status == 1
            assert err.count("did not answer by the deadline") == 12
            assert len(out.splitlines()) == 6

    asyncio.run(play())


def test_a_dry_run_connects_nowhere(tmp_path: Path) -> None:
    file = inventory(tmp_path / "lab.toml", leaf1="192.0.2.1:9339")
    status, out, _ = asyncio.run(run(str(file), "--dry-run", "--workers", "3"))
    assert status == 0
    assert "fabric lab: 1 targets, 3 processes" in out
    assert "192.0.2.1:9339" in out
    assert "PLAIN TEXT" in out


def test_who_speaks_no_tls_is_told_from_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeTarget(lab_leaves()) as fake:
            for setting in ("", "insecure_skip_verify = true"):
                file = inventory(tmp_path / "lab.toml", leaf1=fake.address)
                file.write_text(file.read_text().replace("plaintext = true", setting))
                status, out, err = await run("check", str(file), "leaf1")
                assert status == 1
                assert "the target speaks no TLS there" in out
                assert "plaintext = true where the target has no TLS" in out
                # gRPC's own words, which name no target, stay out of it.
                assert "ssl_transport_security" not in err

    asyncio.run(play())


def test_a_look_says_that_nobody_was_verified(tmp_path: Path) -> None:
    file = inventory(tmp_path / "lab.toml", leaf1="127.0.0.1:1")
    file.write_text(file.read_text().replace("plaintext = true", "insecure_skip_verify = true"))
    for verb in ("check", "once"):
        status, _, err = asyncio.run(run(verb, str(file), "leaf1"))
        assert status == 1
        assert "leaf1: insecure_skip_verify: whoever answers there is trusted" in err
