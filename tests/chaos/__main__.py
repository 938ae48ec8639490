"""`python -m tests.chaos`: disturbs detect and correlate on a real Kafka in Docker, and says what held.

It starts a Kafka of its own, prints a table, and exits with 1 if anything did not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.replacement import REPLACEMENTS
from tests.chaos.scenarios import SCENARIOS, Amount, Lab, Result
from tests.conftest import KAFKA_IMAGE
from tests.kafka_brokers import run_kafka

ALL = {**SCENARIOS, **REPLACEMENTS}


def main() -> int:
    """Runs the scenarios; the exit status."""
    default = Amount()
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=default.kills, help="SIGKILLs (default: %(default)s)")
    parser.add_argument(
        "--every", type=float, default=default.every_s, metavar="S", help="seconds between two (default: %(default)s)"
    )
    parser.add_argument("--events", type=int, default=default.rows, help="rows of the input (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=default.seed, help="of the instants (default: %(default)s)")
    parser.add_argument(
        "--only", action="append", choices=ALL, metavar="NAME", help=f"one scenario, or several: {', '.join(ALL)}"
    )
    args = parser.parse_args()
    amount = Amount(args.kills, args.every, args.events, args.seed)
    folder = Path(tempfile.mkdtemp(prefix="pausetrace-chaos-"))
    print(f"chaos: {amount}; what the processes say: {folder}", flush=True)
    failed = 0
    with run_kafka(KAFKA_IMAGE) as kafka:
        lab = Lab(kafka, folder, amount)
        for name in args.only or ALL:
            failed += _run(name, lab)
    print(f"chaos: {'all held' if not failed else f'{failed} did NOT hold'}, {time.strftime('%F')}")
    return bool(failed)


def _run(name: str, lab: Lab) -> int:
    """Runs one scenario, whatever becomes of it; how many of its runs did not hold."""
    failed = 0
    begun_s = time.monotonic()
    try:
        for result in ALL[name](lab):
            failed += bool(result.differences)
            _tell(result)
    except Exception as err:  # noqa: BLE001 - the others are still to be run
        failed += 1
        _tell(Result(name, [f"{type(err).__name__}: {err}"], time.monotonic() - begun_s))
    return failed


def _tell(result: Result) -> None:
    figures = ", ".join(f"{value:,} {name}" if isinstance(value, int) else f"{name} {value}"
                        for name, value in result.figures.items())  # fmt: skip
    held = "held" if not result.differences else "DID NOT HOLD"
    print(f"| {result.what} | {held} | {result.wall_s:.0f} s | {figures} |", flush=True)
    for difference in result.differences:
        print(f"    {difference}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
