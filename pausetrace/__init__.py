"""The roof: the command line, configuration, and the public library API of Pausetrace.

It ties the rooms below it together; nothing in those rooms imports it. The public names are imported when first used,
so that `import pausetrace` costs nothing:

    for columns in pausetrace.subscribe("pfc", bootstrap_servers="localhost:9092"):
        print(columns.device, columns.measure("paused_ns"))
"""

# typing.TYPE_CHECKING without the import of typing, which costs as much as the rest of Python's start.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from pausetrace.captures import read_capture
    from pausetrace.columns import Columns
    from pausetrace.subscription import cascades, subscribe
    from pausetrace.training import StepTimer
    from stream.cascade import Cascade
    from stream.errors import PausetraceError

__all__ = ["Cascade", "Columns", "PausetraceError", "StepTimer", "cascades", "read_capture", "subscribe"]

_HOME = {
    "Cascade": "stream.cascade",
    "Columns": "pausetrace.columns",
    "PausetraceError": "stream.errors",
    "StepTimer": "pausetrace.training",
    "cascades": "pausetrace.subscription",
    "read_capture": "pausetrace.captures",
    "subscribe": "pausetrace.subscription",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'pausetrace' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
