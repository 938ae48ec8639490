"""Paths as text: what is written is read back, and what a person writes wrongly is explained."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.messages import gnmi_pb2
from collectors.paths import Path, PathTable, parse_path, path_text
from collectors.wire import Decoder
from stream.errors import ConfigError

NAMES = st.text(alphabet="ab:/[]\\=#é ", max_size=5)
KEYS = st.dictionaries(NAMES.filter(bool), NAMES, max_size=2).map(lambda keys: tuple(sorted(keys.items())))


@settings(deadline=None)
@given(NAMES, st.lists(st.tuples(NAMES, KEYS), max_size=3))
def test_a_path_survives_being_written(origin: str, elems: list[tuple[str, tuple[tuple[str, str], ...]]]) -> None:
    path = Path(origin, tuple(elems))
    assert parse_path(path_text(path)) == path


@settings(deadline=None)
@given(NAMES, st.lists(st.tuples(NAMES, st.dictionaries(NAMES, NAMES, max_size=2)), max_size=3))
def test_a_path_of_a_device_survives_the_table(origin: str, elems: list[tuple[str, dict[str, str]]]) -> None:
    message = gnmi_pb2.SubscribeResponse()
    message.update.update.add().path.origin = origin
    for name, keys in elems:
        element = message.update.update[0].path.elem.add(name=name)
        for key, value in keys.items():
            element.key[key] = value
    table = PathTable()
    columns = Decoder(table).decode([message.SerializeToString()], [0])
    expected = tuple((name, tuple(sorted(keys.items()))) for name, keys in elems)
    assert table.path(int(columns.path_id[0])) == Path(origin, expected)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/", Path("", ())),
        ("", Path("", ())),
        ("interfaces/interface", Path("", (("interfaces", ()), ("interface", ())))),
        ("/interfaces/", Path("", (("interfaces", ()),))),
        ("openconfig:/a[k=v]", Path("openconfig", (("a", (("k", "v"),)),))),
        ("/oc-if:interfaces", Path("", (("oc-if:interfaces", ()),))),
        ("oc-if:interfaces/a", Path("", (("oc-if:interfaces", ()), ("a", ())))),
        ("/a[z=1][b=Ethernet1/1]/c", Path("", (("a", (("b", "Ethernet1/1"), ("z", "1"))), ("c", ())))),
        ("/a[name=*]/...", Path("", (("a", (("name", "*"),)), ("...", ())))),
    ],
)
def test_a_path_is_read_as_people_write_it(text: str, path: Path) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["//a", "/a[k]", "/a[k=v", "/a[=v]", "/a[k=v]b", "/a[k=1][k=2]", "/a\\", ":/a"])
def test_a_path_that_is_wrong_is_explained(text: str) -> None:
    with pytest.raises(ConfigError, match=r"path .* write it as /interfaces"):
        parse_path(text)


def test_keys_of_lists_are_checked() -> None:
    with pytest.raises(ValueError, match="no keys of a list"):
        PathTable(list_keys={"queue": ("a|b",)})
    with pytest.raises(ValueError, match="no table of paths"):
        PathTable(limit=0)
