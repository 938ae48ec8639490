"""Puts what a script has measured into a page: between the marks of that place, and nowhere else."""

from __future__ import annotations


def replaced(page: str, place: str, content: str) -> str:
    """The page with the content, which ends with a line break, at the marked place; ValueError without its marks."""
    begin_mark, end_mark = f"<!-- {place}: begin -->", f"<!-- {place}: end -->"
    before, begin, rest = page.partition(begin_mark)
    _, end, after = rest.partition(end_mark)
    if not begin or not end:
        raise ValueError(f"no {begin_mark} and {end_mark}")
    return f"{before}{begin}\n{content}{end}{after}"
