"""The page docs/profile-tables.md: what each built-in profile asks for and what it makes of the answers.

`python -m collectors.profile_page > docs/profile-tables.md` writes it; a test holds the page to the profiles.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from collectors import profiles
from collectors.profile import Fact, Profile, Record, Row, Subscription

_INTRODUCTION = """\
# Vendor tables

This page is made by `python -m collectors.profile_page` from the built-in profiles; a test holds it to them, and
another one sends each row's notification through the collector. [profiles.md](profiles.md) explains the columns, and
lists what is left out and why.

How far a path is known to exist: `verified` in public YANG or source, `doc` in the vendor's documentation, `secondary`
in others' words, `unverified` in none of these. Where a profile extends another one, it has the rows of that too."""


def page() -> str:
    """The whole page."""
    return "\n\n".join([_INTRODUCTION, *(_section(profiles.own(name)) for name in profiles.names())]) + "\n"


def _section(profile: Profile) -> str:
    heads = [f"## {profile.title}"]
    words = [f"`{profile.name}`"]
    words += (
        [f"extends [{profile.extends}](#{_anchor(profiles.own(profile.extends).title)})"] if profile.extends else []
    )
    words += [f"without {', '.join(f'`{each}`' for each in profile.without)}"] if profile.without else []
    words += [f"target `{profile.target}`"] if profile.target else []
    words += [f"encodings {', '.join(profile.encodings)}", f"stamps off by {profile.stamp_error_ms} ms at most"]
    heads.append("; ".join(words) + ".")
    tables = [
        ("| subscription | mode | interval |\n| --- | --- | --- |", map(_subscription, profile.subscribe)),
        ("| row | leaf | becomes | as |\n| --- | --- | --- | --- |", map(_row, profile.row)),
        ("| event | container | becomes | as |\n| --- | --- | --- | --- |", map(_record, profile.record)),
        ("| fact | leaf | known |\n| --- | --- | --- |", map(_fact, profile.fact)),
    ]
    parts = ["\n".join([head, *rows]) for head, lines in tables if (rows := list(lines))]
    return "\n\n".join([*heads, *parts])


def _anchor(title: str) -> str:
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter in "-_")


def _subscription(each: Subscription) -> str:
    paths = "<br>or ".join(f"`{path}`" for path in (each.path, *each.alternatives))
    where = f" (target `{each.target}`)" if each.target else f" (origin `{each.origin}`)" if each.origin else ""
    least = f", {each.min_interval_ms} ms at least" if each.min_interval_ms else ""
    interval = f"{each.interval_ms} ms{least}" if each.interval_ms else f"the inventory's{least}"
    interval += ", by default alone" if each.by_default else ""
    return f"| {paths}{where} | {each.mode} | {interval if each.mode == 'SAMPLE' else ''} |"


def _row(row: Row) -> str:
    said = [f"{row.unit}, {row.semantics}", *_details(row), *([row.side] if row.side != "none" else []), row.status]
    note = f"; {row.note}" if row.note else ""
    paths = "<br>".join(f"`{path}`" for path in row.paths)
    return f"| {row.name} | {paths} | {'<br>'.join(row.into)} | {', '.join(said)}{note} |"


def _details(row: Row) -> Iterator[str]:
    if row.bits != 64:
        yield f"{row.bits} bits"
    if row.scale != (1, 1):
        yield f"times {row.scale[0]}/{row.scale[1]}"
    if row.window_ms:
        yield f"window {row.window_ms // 1000} s" + (f" or the interval of {row.window_of}" if row.window_of else "")
    if row.code:
        yield f"code {row.code}"
    if row.values:
        yield ", ".join(f"{word} = {number}" for word, number in row.values.items())
    if row.quality:
        yield row.quality


def _record(record: Record) -> str:
    leaves = [f"value `{record.value}` ({record.unit})", f"port `{record.port}`"]
    leaves += [f"{name} `{told}`" for name in ("priority", "queue", "extra") if (told := getattr(record, name))]
    leaves += [f"span `{record.span}` ({record.span_unit})"] if record.span else []
    note = f"; {record.note}" if record.note else ""
    return f"| {record.name} | `{record.path}` | {record.into} | {', '.join(leaves)}, {record.status}{note} |"


def _fact(fact: Fact) -> str:
    unit = f" ({fact.unit})" if fact.says == "port_speed" else ""
    return f"| {fact.says}{unit} | {'<br>'.join(f'`{path}`' for path in fact.paths)} | {fact.status} |"


if __name__ == "__main__":
    sys.stdout.write(page())
