"""Agents of many recorded hosts in one process, for `pausetrace probe --hosts`: each folder of a folder is one host.

In: the settings of one agent, and the folder. Out: what the pollers of each host see, published as that host's own
agent would, until it is told to stop.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from probes.agent import Agent
from probes.output import KafkaOutput
from probes.promises import Promises
from probes.settings import AgentSettings
from probes.table import PROBES, PROGRAMS
from stream.errors import ConfigError
from stream.kafka_settings import KafkaSettings

MAX_HOSTS = 256
"""Each has some threads of its own."""
WAIT_S = 0.2


def hosts_in(folder: Path) -> list[Path]:
    """The folders of hosts, by name; raises ConfigError where there are none, or too many."""
    if not folder.is_dir():
        raise ConfigError(f"--hosts {folder} is no folder", "give one with a folder for each host")
    found = [path for path in sorted(folder.iterdir()) if any((path / name).is_dir() for name in ("sys", "proc"))]
    if not 1 <= len(found) <= MAX_HOSTS:
        raise ConfigError(
            f"--hosts {folder} holds {len(found)} folders with a sys or proc", f"give one that holds 1 to {MAX_HOSTS}"
        )
    return found


def run_hosts(
    settings: AgentSettings, folder: Path, kafka: KafkaSettings, stop: threading.Event, duration_s: float | None
) -> None:
    """Runs the agents until `stop`, or until one of them fails, whose error is raised."""
    own = {kind.name for kind in PROBES if kind.module != PROGRAMS}
    pollers = {name: probe for name, probe in settings.probes.items() if name in own}
    if not pollers:
        raise ConfigError("--hosts: none of these probes reads files", "leave the names out")
    failed: list[BaseException] = []

    def run(root: Path) -> None:
        promises = Promises()
        of_host = settings._replace(device=root.name, root=root, probes=pollers)
        try:
            output = KafkaOutput(kafka, of_host.fabric, of_host.device, promises)
            Agent(of_host, output, promises).run(stop, duration_s)
        except BaseException as err:  # noqa: BLE001 - raised again by the thread that waits
            failed.append(err)
            stop.set()

    threads = [threading.Thread(target=run, args=(root,), name=f"agent {root.name}") for root in hosts_in(folder)]
    for thread in threads:
        thread.start()
    print(f"pausetrace: probe: agents of {len(threads)} hosts", file=sys.stderr, flush=True)
    for thread in threads:
        while thread.is_alive():
            # A short wait, so that signals are taken.
            thread.join(WAIT_S)
    if failed:
        raise failed[0]
