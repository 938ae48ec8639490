"""The record: 56 bytes with the same offsets in NumPy and in C, and a header that says so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

from stream import kinds, record
from stream.record import EVENT, FIELDS
from tests.c_compiler import c_compiler

OFFSETS = {
    "time_ns": 0, "seen_ns": 8, "span_ns": 16, "value": 24, "extra": 32, "flow": 40, "device": 48, "port": 50,
    "kind": 52, "priority": 53, "side": 54, "quality": 55,
}  # fmt: skip

PROGRAM = """
#include <stddef.h>
#include <stdio.h>
#include "pausetrace_record.h"
#define FIELD(name) printf("\\"" #name "\\": [%zu, %zu, %d],", offsetof(struct pausetrace_event, name), \\
    sizeof(((struct pausetrace_event *)0)->name), (__typeof__(((struct pausetrace_event *)0)->name))-1 < 0)
int main(void) {
    printf("{");
    /* fields */
    printf("\\"constants\\": {");
    /* constants */
    printf("\\"\\": 0}, \\"size\\": %zu, \\"align\\": %zu}",
        sizeof(struct pausetrace_event), _Alignof(struct pausetrace_event));
    return 0;
}
"""

CONSTANTS = (
    {f"PAUSETRACE_KIND_{kind.name}": kind.code for kind in kinds.KINDS}
    | {f"PAUSETRACE_SIDE_{name}": code for code, name in enumerate(("NONE", "RX", "TX"))}
    | {f"PAUSETRACE_QUALITY_{name}": 1 << bit for bit, name in enumerate(kinds.QUALITY_BITS)}
    | {"PAUSETRACE_UNKNOWN": -(2**63), "PAUSETRACE_NO_PRIORITY": 255, "PAUSETRACE_SCHEMA_VERSION": 1}
)


def compile_c(folder: Path, source: str, *flags: str) -> Path:
    """Compiles the program against the header without a single warning."""
    (folder / "pausetrace_record.h").write_text(record.c_header())
    (folder / "program.c").write_text(source)
    program = folder / "program"
    command = [c_compiler(), "-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *flags, "-o", str(program)]
    done = subprocess.run([*command, str(folder / "program.c")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def test_the_record_has_the_offsets_that_captures_and_bpf_programs_hold() -> None:
    assert EVENT.itemsize == record.RECORD_BYTES == 56
    assert {name: offset for name, (_, offset, *_) in (EVENT.fields or {}).items()} == OFFSETS


def test_the_c_header_lays_the_record_out_as_numpy_does(tmp_path: Path) -> None:
    fields = "\n".join(f"FIELD({name});" for name, *_ in FIELDS)
    constants = "\n".join(f'printf("\\"{name}\\": %lld,", (long long)({name}));' for name in CONSTANTS)
    program = compile_c(
        tmp_path, PROGRAM.replace("/* fields */", fields).replace("/* constants */", constants), "-Wno-type-limits"
    )
    said = json.loads(subprocess.run([program], capture_output=True, check=True).stdout)
    assert (said.pop("size"), said.pop("align")) == (56, 8)
    assert said.pop("constants") == CONSTANTS | {"": 0}
    assert said == {name: [OFFSETS[name], EVENT[name].itemsize, int(EVENT[name].kind == "i")] for name in OFFSETS}


def test_a_row_written_in_c_reads_the_same_in_numpy(tmp_path: Path) -> None:
    row = {
        name: (index + 1) * (0x0101_0101_0101 if EVENT[name].itemsize == 8 else 7) for index, name in enumerate(OFFSETS)
    }
    values = ", ".join(f".{name} = {number}" for name, number in row.items())
    source = f"""
        #include <stdio.h>
        #include "pausetrace_record.h"
        int main(void) {{
            struct pausetrace_event event = {{{values}}};
            return fwrite(&event, sizeof event, 1, stdout) != 1;
        }}"""
    written = subprocess.run([compile_c(tmp_path, source)], capture_output=True, check=True).stdout
    event = np.frombuffer(written, EVENT)[0]
    assert {name: int(event[name]) for name in OFFSETS} == row


def test_the_header_compiles_for_a_bpf_program_that_has_no_stdint(tmp_path: Path) -> None:
    # Kernel headers give a BPF program these names; INT64_MIN is not among them.
    source = """
        typedef signed long long int64_t;
        typedef unsigned long long uint64_t;
        typedef unsigned short uint16_t;
        typedef unsigned char uint8_t;
        #include "pausetrace_record.h"
        int main(void) {
            struct pausetrace_event event = {.value = PAUSETRACE_UNKNOWN, .kind = PAUSETRACE_KIND_PFC_XOFF};
            return event.value == PAUSETRACE_UNKNOWN ? 0 : 1;
        }"""
    subprocess.run([compile_c(tmp_path, source, "-D__BPF__")], check=True)


def test_a_comment_in_the_header_is_closed_where_it_opens() -> None:
    for line in record.c_header().splitlines():
        assert line.count("/*") == line.count("*/") <= 1


def test_empty_events_name_no_priority_and_nothing_else() -> None:
    events = record.empty_events(3)
    assert events["priority"].tolist() == [255, 255, 255]
    events["priority"] = 0
    assert events.tobytes() == bytes(3 * 56)
