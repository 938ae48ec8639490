"""What `evaluate` says when a constant of the method is halved or doubled: a Markdown table for docs/diagnosis.md.

Each setting runs in a process of its own, which puts the changed constant into the source before anything imports it;
where kernels see it, they are compiled anew into a folder of their own. `--write FILE` replaces the marked place there.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.marked_page import replaced

ROOT = Path(__file__).resolve().parents[1]
TRACES = (ROOT / "tests/data/ns3", ROOT / "tests/data/sim")
FACTORS = (0.5, 2.0)
DEADLINE_S = 1200
PLACE = "sensitivity"

CONSTANTS: dict[str, tuple[str, ...]] = {
    "layout": ("MEMORY_NS", "JOIN_SHARE", "ACTIVE_SHARE", "CAUSE_MIN_SHARE", "GAP_NS", "MAX_POLL_NS",
               "MIN_QUEUED_BYTES"),
    "classes": ("STORM_COVER", "STORM_MIN_NS", "STORM_SENT_RATIO", "DEGRADED_RATIO", "DEGRADED_WINDOWS",
                "COLLISION_SKEW", "COLLISION_MEAN", "INCAST_SOURCES", "INCAST_INGRESS_PORTS", "DEADLOCK_MIN_NS",
                "DEADLOCK_FACTOR", "PLATEAU_STOPS", "PLATEAU_LEAST", "PLATEAU_MOST", "ONE_HOST_SHARE",
                "LINE_RATE_RATIO"),
    "bounds": ("ACCEPT_PPM", "VERDICT_PPM", "WARNING_SHARE"),
    "confidence": ("EVIDENCE_KINDS",),
    "polarization": ("CHANCE", "IDLE_SHARE"),
    "verdict": ("REPORT_PPM", "LINK_PPM", "EXPOSURE_NS"),
    "severity": ("HARMLESS_NS", "LIFE_MIN_NS"),
    "thresholds": ("FREE_PARTS",),
    "reconcile": ("LOOK_NS", "FULL_SHARE", "MISSED_NS"),
    "clocks": ("TOLERANCE_NS",),
    "victims": ("PRESENT_BYTES",),
}  # fmt: skip
"""By module of analytics/. CRITICAL_SHARE only names a severity, and is left out."""
FLOWS_UNKNOWN: dict[str, tuple[str, ...]] = {"thresholds": ("FREE_PARTS",), "port_edges": ("PASSES", "ROUNDS")}
"""Those that count where nobody tells of flows, which are withheld from the traces for them."""
IN_KERNELS = ("layout", "port_edges")
"""Modules whose constants are compiled into kernels."""

FIGURES = (
    ("blame_distance_mean", "distance, mean"),
    ("blame_distance_max", "max"),
    ("top1", "top-1"),
    ("class_accuracy", "class"),
    ("edge_f1", "edge F1"),
    ("contributor_f1", "contributor F1"),
    ("victim_precision", "victim P"),
    ("victim_recall", "victim R"),
    ("abstained", "abstained"),
    ("negatives_alarmed", "alarmed"),
    ("deadlock_missed", "deadlocks missed"),
    ("deadlock_false", "false"),
)

Summary = dict[str, Any]


class Setting(NamedTuple):
    """A constant of a module and what it is multiplied by; module "" changes nothing."""

    module: str = ""
    name: str = ""
    factor: float = 1.0
    without: str = ""
    """Evidence that is withheld: "flows" or nothing."""


class Changed(NamedTuple):
    """A source with another constant, and the constant before and after."""

    source: str
    before: float
    after: float


def with_constant(source: str, name: str, factor: float) -> Changed:
    """The source with the constant times the factor; a whole number stays one, of 1 at least. Raises KeyError."""
    for statement in ast.parse(source).body:
        for target, value in _assigned(statement):
            if target != name:
                continue
            before = ast.literal_eval(value)
            after = max(1, round(before * factor)) if isinstance(before, int) else before * factor
            assert value.end_col_offset is not None
            assert value.lineno == value.end_lineno, f"{name} is spread over lines"
            lines = source.splitlines(keepends=True)
            line = lines[value.lineno - 1].encode()
            lines[value.lineno - 1] = (
                line[: value.col_offset] + repr(after).encode() + line[value.end_col_offset :]
            ).decode()
            return Changed("".join(lines), before, after)
    raise KeyError(name)


def _assigned(statement: ast.stmt) -> list[tuple[str, ast.expr]]:
    """Names that a statement gives literal numbers to; A, B = 1, 2 gives two."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        pairs: list[tuple[ast.expr, ast.expr]] = [(statement.target, statement.value)]
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
        both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        pairs = list(zip(target.elts, value.elts, strict=True)) if both else [(target, value)]  # type: ignore[attr-defined]
    else:
        return []
    return [
        (target.id, value)
        for target, value in pairs
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    ]


def source_of(module: str) -> Path:
    """The file of a module of analytics."""
    return ROOT / "analytics" / f"{module}.py"


def run_setting(setting: Setting, traces: Sequence[Path]) -> Summary:
    """The summary of `evaluate` with the setting, from a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        own = {"NUMBA_CACHE_DIR": cache} if setting.module in IN_KERNELS else {}
        command = [sys.executable, __file__, "--child", json.dumps(setting), *map(str, traces)]
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": str(ROOT)} | own, cwd=ROOT, timeout=DEADLINE_S, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{setting} failed:\n{done.stderr}")
    summary: Summary = json.loads(done.stdout.splitlines()[-1])
    return summary


def child(setting: Setting, traces: Sequence[Path]) -> Summary:
    """The summary, in this process: the changed module is there before any other imports it."""
    from types import ModuleType

    if setting.module:
        file, name = source_of(setting.module), f"analytics.{setting.module}"
        source = with_constant(file.read_text(), setting.name, setting.factor).source
        import analytics

        module = ModuleType(name)
        module.__file__, module.__package__ = str(file), "analytics"
        sys.modules[name] = module
        setattr(analytics, setting.module, module)
        exec(compile(source, str(file), "exec"), module.__dict__)
    import msgspec

    from analytics.offline import final_cascades
    from pausetrace.evaluate import evaluate

    withheld = frozenset(filter(None, [setting.without]))
    summary: Summary = msgspec.to_builtins(evaluate(traces, withheld, final_cascades).summary)
    return summary


def settings(only: Sequence[str]) -> list[Setting]:
    """Nothing changed, then each constant with each factor; the same once more where flows are unknown."""
    chosen: list[Setting] = []
    for constants, without in ((CONSTANTS, ""), (FLOWS_UNKNOWN, "flows")):
        pairs = [(module, name) for module, names in constants.items() for name in names if not only or name in only]
        if pairs or not without:
            chosen.append(Setting(without=without))
        chosen += [Setting(*pair, factor, without) for pair in pairs for factor in FACTORS]
    return chosen


def table(results: Sequence[tuple[Setting, Summary]]) -> str:
    """Markdown: the figures as they are, then a line a setting in which what is the same is `=`."""
    lines = [
        f"| constant | value | {' | '.join(words for _, words in FIGURES)} |",
        f"|---|---|{'---|' * len(FIGURES)}",
    ]
    base: list[str] = []
    for setting, summary in results:
        cells = [_figure(summary[name]) for name, _ in FIGURES]
        where = f" without {setting.without}" if setting.without else ""
        if not setting.module:
            base = cells
            lines.append(f"| (as they are{where}) | | {' | '.join(cells)} |")
            continue
        changed = with_constant(source_of(setting.module).read_text(), setting.name, setting.factor)
        shown = ["=" if cell == same else cell for cell, same in zip(cells, base, strict=True)]
        lines.append(f"| `{setting.name}`{where} | {changed.before:g} → {changed.after:g} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def _figure(figure: float | None) -> str:
    if figure is None:
        return "-"
    return str(figure) if isinstance(figure, int) else f"{figure:.3f}"


def main() -> int:
    """Runs every setting and prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", metavar="DIR", nargs="*", type=Path, help="traces with truth (default: tests/data)")
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="this constant only (repeatable)")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="settings at once (default: 1)")
    parser.add_argument("--write", metavar="FILE", type=Path, help="put the table into this page, not on stdout")
    parser.add_argument("--child", metavar="SETTING", help=argparse.SUPPRESS)
    args = parser.parse_args()
    traces = args.traces or TRACES
    if args.child:
        print(json.dumps(child(Setting(*json.loads(args.child)), traces)))
        return 0

    def run(setting: Setting) -> tuple[Setting, Summary]:
        print(f"sensitivity: {setting.name or 'as they are'} x {setting.factor:g}", file=sys.stderr)
        return setting, run_setting(setting, traces)

    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(run, settings(args.only)))
    content = table(results)
    if args.write:
        args.write.write_text(replaced(args.write.read_text(), PLACE, content))
    else:
        print(content, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
