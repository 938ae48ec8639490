"""What the decoder's kernels pass to each other: words of the arrays, and what stands in them.

Rows and messages are arrays of int64 for the kernels, and of the records below for all others: the same bytes.
"""

from __future__ import annotations

import numpy as np

# Sorts of values.
NONE, INT, UINT, FLOAT, BOOL, TEXT, BYTES, JSON, LEAFLIST, ANY = range(10)
SORTS = ("NONE", "INT", "UINT", "FLOAT", "BOOL", "TEXT", "BYTES", "JSON", "LEAFLIST", "ANY")

UPDATE, DELETE = 0, 1

# Flags of a row.
QUOTED = 1
"""The number came as a JSON string (RFC 7951, 6.1)."""
NUMERAL = 2
"""The text is an integer's, which `ival` holds."""
ESCAPED = 4
"""A JSON string with escapes."""
MALFORMED_JSON = 8
"""What should be JSON is none, or goes beyond what is read of it."""
INEXACT = 16
"""Between kernel and front alone: a float that the front has to read."""

# What became of a message.
OK, SYNC, EMPTY, ERROR, MALFORMED, TOO_LARGE = range(6)
STATUSES = ("OK", "SYNC", "EMPTY", "ERROR", "MALFORMED", "TOO_LARGE")

ROW = np.dtype(
    {
        "names": ["ival", "fval", "path_id", "message", "start", "length", "duplicates", "sort", "op", "form", "flags"],
        "formats": ["<i8", "<f8", "<i4", "<i4", "<i4", "<i4", "<u4", "u1", "u1", "u1", "u1"],
        "offsets": [0, 0, 8, 12, 16, 20, 24, 28, 29, 30, 31],
        "itemsize": 32,
    }
)
ROW_WORDS = ROW.itemsize // 8
R_VALUE, R_PATH_MESSAGE, R_SLICE, R_SMALL = range(ROW_WORDS)
SORT_BIT, OP_BIT, FORM_BIT, FLAGS_BIT = 32, 40, 48, 56

# A message: where it lies, who sent it, what it said.
M_AT, M_SIZE, M_TARGET, M_STATUS, M_TIME, M_ATOMIC, M_FIRST_ROW, M_NAME, M_REFUSED, M_LIBRARY = range(10)
MESSAGE_WORDS = 10
UNREAD = -1
"""Status of a message that the kernel has to read."""
WANTED = 1
"""M_LIBRARY: the kernel cannot tell what it says, and wants it from the protobuf library; 2: it came from there."""
FROM_LIBRARY = 2

# A spelling: bytes that stand for a part of a path. Owner: what it continues, and as what.
E_HASH, E_OWNER, E_AT, E_SIZE, E_PATH, E_NEXT, E_BRANCH, E_LIST = range(8)
ENTRY_WORDS = 8
ROOT = 0
"""The entry of nothing at all: paths without a prefix continue it."""
# How a spelling continues its owner: in the low bits of E_OWNER, above them the entry, on top the place in a list.
PREFIX, PATH, NAME, MEMBER, KEY, PLACE, LIST = range(1, 8)
OWNER_BIT = 3
PLACE_BIT = 35
# E_PATH where there is no number yet, or never.
UNRESOLVED, INVALID = -1, -2

# A target: what it brought, and where in the stream of paths it is.
T_ENTRIES, T_BYTES, T_LAST, T_PREFIX, T_NAME = range(5)
TARGET_WORDS = 5

# State of a run: where it is, what it met, what it may not exceed.
S_FIRST, S_ROWS, S_STOP, S_ENTRIES, S_BYTES, S_PENDING, S_INEXACT, S_LOST, S_UNUSUAL = range(9)
S_BYTES_LAID, S_LEAST_TARGET, S_MOST_TARGET = range(9, 12)
S_MOST_ENTRIES, S_MOST_A_TARGET, S_MOST_ROWS, S_MOST_BYTES, S_SEED = range(12, 17)
S_STACK = 20
"""From here on: the open objects and arrays of a JSON text, STACK_WORDS each."""
STACK_WORDS = 4
STACK_DEPTH = 64
STATE_WORDS = S_STACK + STACK_WORDS * STACK_DEPTH

# Why a kernel stopped.
DONE, ROOM_FOR_ENTRIES, ROOM_FOR_ROWS = range(3)

# What a part of the kernel answers instead of a place or an entry.
BAD = -1
REFUSED = -2
NO_ROOM = -3
NO_ROWS = -4
TOO_MANY = -5

BYTES_AN_ENTRY = 128
"""Most bytes of spellings, on the average of all that are allowed."""
LONGEST_SPELLING = 4096
MOST_PROBES = 256
