"""The cascade of a correlator that knows the truth, made from a folder's truth.json, for tests to spoil."""

import csv
import json
from pathlib import Path
from typing import Any

from stream.cascade import FINAL, Cascade, Contributor, Edge, Root, Victim

CLASSES = {"slow_receiver": "slow_receiver_pcie", "degraded_link": "link_degraded", "spine_downlink": "ecmp_collision"}
PAUSE_NS = 4_000_000


def read_truth_json(folder: Path) -> dict[str, Any]:
    """truth.json as it stands."""
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    return truth


def contributor(name: str) -> Contributor:
    """A flow named contributor; the judge goes by its name alone."""
    return Contributor(flow=f"{int(name) + 1:016x}", name=name, src_device="", dst_device="", bytes=1, share_ppm=1)


def victim(name: str) -> Victim:
    """A flow named victim."""
    return Victim(flow=f"{int(name) + 1:016x}", name=name, src_device="", dst_device="", pause_ns=1)


def perfect_cascade(folder: Path) -> Cascade:
    """One final cascade with the true roots, classes, edges, victims and, on the planted roots, contributors."""
    truth = read_truth_json(folder)
    planted = {
        _host_or_port(root): CLASSES.get(root["cls"], root["cls"])
        for root in truth["expected_roots"]
        if "device" in root
    }
    names = tuple(contributor(str(flow)) for flow in truth["flows"].get("contributor", ()))
    roots = []
    for root in truth.get("packet_level_roots_visible", truth["packet_level_roots"]):
        key = _host_or_port(root)
        kind = "host" if key[1] == "" else "egress"
        roots.append(
            Root(
                device=key[0],
                port=key[1],
                priority=3,
                kind=kind,
                share_ppm=round(root["share"] * 1e6),
                pause_ns=1,
                root_class=planted.get(key, "unclassified"),
                evidence=(),
                contributors=names if key in planted else (),
            )
        )
    return Cascade(
        id="c",
        fabric="lab",
        revision=FINAL,
        start_ns=0,
        end_ns=3_000_000,
        mode="exact",
        confidence_ppm=900_000,
        suspect_set=False,
        severity="critical",
        severity_reason="",
        pause_ns=PAUSE_NS,
        pauses=100,
        roots=tuple(roots),
        queues=(),
        edges=_edges(folder),
        missing_evidence=(),
        losses={},
        victims=tuple(victim(str(flow)) for flow in truth["flows"].get("victim", ())),
    )


def _host_or_port(root: dict[str, Any]) -> tuple[str, str]:
    is_host = root["port"] == "pcie" or root["port"].startswith("host-internal")
    return root["device"], "" if is_host else root["port"]


def _edges(folder: Path) -> tuple[Edge, ...]:
    with (folder / "truth_edges.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    total = sum(int(row["bytes"]) for row in rows) or 1
    return tuple(
        Edge(row["device"], row["ingress_port"], row["egress_port"], int(row["bytes"]) * 1_000_000 // total)
        for row in rows
    )
