"""OpenConfig's own fake gNMI server, in Go: a target that is not ours, by another gRPC. Built once for all tests."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from google.protobuf import text_format

from collectors.messages import gnmi_pb2
from tests.kafka_brokers import free_port

PACKAGE = "github.com/openconfig/gnmi/testing/fake/gnmi/cmd/fake_server@v0.14.1"
BUILD_DEADLINE_S = 300
START_DEADLINE_S = 15.0


def build(folder: Path) -> Path:
    """The server's program."""
    subprocess.run(
        ["go", "install", PACKAGE], env=os.environ | {"GOBIN": str(folder)}, check=True, timeout=BUILD_DEADLINE_S
    )
    return folder / "fake_server"


def fixed(responses: Sequence[bytes], *, end: bool = False, sync: bool = True) -> str:
    """A configuration that plays these SubscribeResponses exactly."""
    texts = [text_format.MessageToString(gnmi_pb2.SubscribeResponse.FromString(each)) for each in responses]
    played = "".join(f"responses {{ {text} }}\n" for text in texts)
    return _config(f"fixed {{ {played} }}", end=end, sync=sync)


def random_counters(paths: Sequence[str], count: int, *, sync: bool = True) -> str:
    """A configuration that makes up so many readings of counters, a tenth of a second apart, the last one now."""
    values, begin_ns = "", time.time_ns() - count * 100_000_000
    for seed, path in enumerate(paths, 1):
        elems = " ".join(f'path: "{elem}"' for elem in path.strip("/").split("/"))
        values += (
            f"values {{ {elems} seed: {seed} repeat: {count} timestamp {{ timestamp: {begin_ns} delta_min: 100000000 "
            "delta_max: 100000000 } uint_value { value: 1 range { minimum: 1 maximum: 1000000000 "
            "delta_min: 1 delta_max: 1000 } } }\n"
        )
    return _config(f"seed: 1\n{values}", end=False, sync=sync)


def _config(generator: str, *, end: bool, sync: bool) -> str:
    flags = f"disable_eof: {str(not end).lower()}\ndisable_sync: {str(not sync).lower()}\n"
    return f'target: "lab"\nclient_type: GRPC_GNMI\n{flags}{generator}\n'


@contextmanager
def serving(
    program: Path, folder: Path, config: str, certificate: tuple[Path, Path], clients: Path | None = None
) -> Iterator[int]:
    """The server at work; the value is its port. With `clients` it asks for a certificate of that authority's."""
    port = free_port()
    file = folder / f"fake-{port}.textproto"
    file.write_text(config)
    command = [str(program), "-config", str(file), "-text", "-port", str(port), "-logtostderr"]
    command += ["-server_crt", str(certificate[0]), "-server_key", str(certificate[1])]
    command += ["-ca_crt", str(clients)] if clients is not None else ["-allow_no_client_auth"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            end_s = time.monotonic() + START_DEADLINE_S
            while "Starting RPC server" not in process.stderr.readline():
                assert process.poll() is None
                assert time.monotonic() < end_s
            yield port
        finally:
            process.kill()
