"""Compiles eBPF programs in a child that lives for a second: its 150 MB of LLVM and bcc never enter the agent.

In: names of programs and the sizes of their maps. Out: the file descriptors of maps and loaded programs, which the
child hands over (SCM_RIGHTS) before it ends; they are all that keeps programs and maps alive. Imports no NumPy.
"""

from __future__ import annotations

import array
import ctypes
import importlib.util
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from probes import btf
from probes.sources import LATENCY_SOURCES, SETTINGS, SINGLE_PAUSES_SLOT, SOURCES, Source

DEADLINE_S = 30.0
BPF_DIRECTORY = Path(__file__).parent / "bpf"
RECORD_HEADER = "pausetrace_record.h"
"""Name in messages of the header that the record's table makes."""
_CAST = "bpf_rdonly_cast"
_CAST_CALL = 60_000
"""The helper's number, which no helper has, that stands for calls of _CAST until they are made such."""
_CALL, _KERNEL_FUNCTION = 0x85, 2 << 4
_MAX_FDS = 200
_MAX_MESSAGE_BYTES = 1 << 20
_SYSTEM_DIRECTORIES = ("/usr/lib/python3/dist-packages", "/usr/lib/python3*/site-packages",
                       "/usr/lib64/python3*/site-packages")  # fmt: skip


class Compiled(NamedTuple):
    """File descriptors by name, which the caller owns, and why the programs that are missing could not be had."""

    maps: dict[str, int]
    functions: dict[str, int]
    failed: dict[str, str]

    def close(self) -> None:
        """Gives all file descriptors back."""
        for fd in (*self.maps.values(), *self.functions.values()):
            os.close(fd)


def bcc_directory() -> Path | None:
    """Where bcc lies: in this Python's path, else where distributions put it for theirs. PyPI's bcc is another one."""
    for place in filter(None, sys.path):
        if (Path(place) / "bcc" / "libbcc.py").is_file():
            return Path(place) / "bcc"
    for pattern in _SYSTEM_DIRECTORIES:
        for found in sorted(Path("/").glob(pattern[1:] + "/bcc/libbcc.py")):
            return found.parent
    return None


def compile_programs(
    names: Sequence[str], macros: Mapping[str, int], record_header: str, deadline_s: float = DEADLINE_S
) -> Compiled:
    """Compiles and loads these programs, all in one module, so that they share maps and one run of the compiler.

    Raises TimeoutError after the deadline, and OSError where no child can be started or it ends without an answer.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = json.dumps({"names": list(names), "macros": dict(macros), "record_header": record_header})
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-P", "-m", "probes.compile", str(theirs.fileno())]
    with ours, tempfile.TemporaryFile() as words:
        with theirs:
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=words, stderr=words, pass_fds=(theirs.fileno(),), env=environment
            )
        try:
            assert child.stdin is not None
            child.stdin.write(request.encode())
            child.stdin.close()
            ours.settimeout(deadline_s)
            try:
                answer, fds = _receive(ours)
            except TimeoutError:
                raise TimeoutError(f"compiling took longer than {deadline_s:g} s") from None
        finally:
            child.kill()
            child.wait()
        words.seek(0)
        said = words.read().decode(errors="replace").strip().splitlines()
        if not answer:
            raise OSError(f"the compiling child ended without an answer: {said[-1] if said else 'it said nothing'}")
    told = json.loads(answer)
    split = len(told["maps"])
    return Compiled(
        dict(zip(told["maps"], fds[:split], strict=True)),
        dict(zip(told["functions"], fds[split:], strict=True)),
        {name: " ".join([reason, *_compiler_words(name, said)]) for name, reason in told["failed"].items()},
    )


def _compiler_words(name: str, said: Sequence[str]) -> list[str]:
    """The first error that the compiler found in a program's file."""
    return [line for line in said if line.startswith(f"{name}.bpf.c:") and "error:" in line][:1]


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    fds = array.array("i")
    answer, controls, _, _ = connection.recvmsg(
        _MAX_MESSAGE_BYTES, socket.CMSG_SPACE(_MAX_FDS * fds.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, data in controls:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return answer, list(fds)


# ---- what runs in the child -----------------------------------------------------------------------------------------


def load_bcc(directory: Path) -> ModuleType:
    """The module bcc alone, whatever Python this is: the distribution's other packages stay out of its path.

    It finds our headers instead of the kernel's.
    """
    os.environ["BCC_KERNEL_SOURCE"] = str(BPF_DIRECTORY / "kernel")
    spec = importlib.util.spec_from_file_location(
        "bcc", directory / "__init__.py", submodule_search_locations=[str(directory)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bcc"] = module
    spec.loader.exec_module(module)
    return module


def kernel_macros(source: Source, types: btf.Btf) -> dict[str, int]:
    """The macros that say this kernel's layout to one program. Raises LookupError where the kernel lacks something."""
    macros = {}
    for member in source.members:
        offsets = [types.member_offset(member.struct, name) for name in member.members]
        found = [offset for offset in offsets if offset is not None]
        if not found:
            raise LookupError(f"the kernel's {member.struct} has no {member.members[0]}")
        macros[member.macro] = found[0]
    for function in source.functions:
        if function.tracepoint and types.arguments(function.tracepoint) is None:
            raise LookupError(f"the kernel has no tracepoint {function.tracepoint}")
    for argument in source.arguments:
        structs = types.arguments(argument.tracepoint) or []
        if argument.struct not in structs:
            raise LookupError(f"the kernel's tracepoint {argument.tracepoint} tells of no struct {argument.struct}")
        macros[argument.macro] = structs.index(argument.struct)
    for later in source.later:
        if len(types.arguments(later.tracepoint) or []) > later.place:
            macros[later.macro] = 1
    if source.name == "runqueue":
        switch = types.arguments("sched_switch") or []
        if switch[1:3] != ["task_struct", "task_struct"]:
            raise LookupError("the kernel's tracepoint sched_switch has other arguments")
        task = types.struct_number("task_struct")
        if types.function_number(_CAST) is not None and task is not None:
            macros |= {"READ_ONLY_CAST": _CAST_CALL, "TYPE_TASK_STRUCT": task}
    return macros


def module_text(names: Sequence[str], record_header: str) -> str:
    """The text of one module of these programs: each file once, what is included before what includes it."""
    files = ["settings.h"]
    for name in names:
        files += [each for each in (*SOURCES[name].includes, f"{name}.bpf.c") if each not in files]
    parts = [f'#line 1 "{RECORD_HEADER}"\n{record_header}']
    parts += [f'#line 1 "{name}"\n{(BPF_DIRECTORY / name).read_text()}' for name in files]
    return "\n".join(parts)


def compiler_flags(macros: Mapping[str, int]) -> list[str]:
    """What the compiler is told of this kernel and machine, of our tables, and these macros."""
    release = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", os.uname().release)
    version, patch, sub = (int(part or 0) for part in release.groups()) if release else (5, 15, 0)
    fixed: dict[str, int] = {
        "__BPF__": 1,
        "PAGE_SIZE": os.sysconf("SC_PAGE_SIZE"),
        "LINUX_VERSION_CODE": (version << 16) + (patch << 8) + min(sub, 255),
        "SOURCES": len(LATENCY_SOURCES),
        "SETTINGS": SETTINGS,
        "SETTING_SINGLE_PAUSES": SINGLE_PAUSES_SLOT,
        **{f"SOURCE_{name.upper()}": slot for slot, name in enumerate(LATENCY_SOURCES)},
    }
    return ["-Wno-macro-redefined", *(f"-D{name}={value}" for name, value in {**fixed, **macros}.items())]


class _Module:
    """A compiled module, whose functions are loaded one by one."""

    def __init__(
        self, bcc: ModuleType, names: Sequence[str], macros: Mapping[str, int], record_header: str, cast: int | None
    ) -> None:
        self._bcc, self._cast = bcc, cast
        self._bpf = bcc.BPF(text=module_text(names, record_header).encode(), cflags=compiler_flags(macros))

    def load(self, name: str, program_type: str) -> int:
        self._call_the_kernel(name.encode())
        types = {"raw_tracepoint": "RAW_TRACEPOINT", "sched_cls": "SCHED_CLS", "xdp": "XDP"}
        return int(self._bpf.load_func(name.encode(), getattr(self._bcc.BPF, types[program_type])).fd)

    def _call_the_kernel(self, name: bytes) -> None:
        """Makes calls that stand for bpf_rdonly_cast calls of it: bcc knows of no functions of the kernel's."""
        lib, module = self._bcc.libbcc.lib, self._bpf.module
        size = lib.bpf_function_size(module, name)
        code = (ctypes.c_ubyte * size).from_address(lib.bpf_function_start(module, name))
        for place in range(0, size, 8):
            if code[place] == _CALL and struct.unpack_from("=i", code, place + 4)[0] == _CAST_CALL:
                assert self._cast is not None
                code[place + 1] = _KERNEL_FUNCTION
                struct.pack_into("=i", code, place + 4, self._cast)

    def maps(self) -> dict[str, int]:
        lib, module = self._bcc.libbcc.lib, ctypes.c_void_p(self._bpf.module)
        lib.bpf_table_name.restype = ctypes.c_char_p  # bcc declares none of the three
        numbers = [ctypes.c_size_t(number) for number in range(lib.bpf_num_tables(module))]
        return {lib.bpf_table_name(module, each).decode(): lib.bpf_table_fd_id(module, each) for each in numbers}


def _compile(request: dict[str, Any]) -> tuple[dict[str, int], dict[str, int], dict[str, str], _Module | None]:
    directory = bcc_directory()
    assert directory is not None, "bcc has gone"
    bcc = load_bcc(directory)
    types = btf.Btf(btf.VMLINUX.read_bytes())
    cast = types.function_number(_CAST)
    failed: dict[str, str] = {}
    macros = dict(request["macros"])
    names = []
    for name in request["names"]:
        try:
            macros.update(kernel_macros(SOURCES[name], types))
            names.append(name)
        except LookupError as error:
            failed[name] = str(error)
    module = None
    try:
        module = _Module(bcc, names, macros, request["record_header"], cast) if names else None
    except Exception:  # noqa: BLE001 - bcc raises bare Exceptions; which program it was is found out by each alone
        for name in list(names):
            try:
                _Module(bcc, [name], macros, request["record_header"], cast)
            except Exception as error:  # noqa: BLE001 - as above
                failed[name] = f"it does not compile: {error}"
                names.remove(name)
        module = _Module(bcc, names, macros, request["record_header"], cast) if names else None
    functions: dict[str, int] = {}
    for name in names:
        try:
            assert module is not None
            for function in SOURCES[name].functions:
                if function.name not in functions:
                    functions[function.name] = module.load(function.name, function.program_type)
        except Exception as error:  # noqa: BLE001 - as above
            failed[name] = f"the kernel does not load it: {error}"
    return module.maps() if module else {}, functions, failed, module


def main() -> None:
    """The child: a request on stdin, the answer and its file descriptors into the socket that argv names."""
    request = json.loads(sys.stdin.buffer.read())
    with socket.socket(fileno=int(sys.argv[1])) as answer:
        maps, functions, failed, module = _compile(request)
        told = {"maps": list(maps), "functions": list(functions), "failed": failed}
        socket.send_fds(answer, [json.dumps(told).encode()], [*maps.values(), *functions.values()])
    del module
    # Nothing is to be undone: what the agent took over lives on, the rest ends with this process.
    os._exit(0)


if __name__ == "__main__":
    main()
