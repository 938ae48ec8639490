"""An explanation for people: plain text as wide as the terminal, or Markdown for a ticket.

In: an Explanation. Out: text. What comes from the fabric is escaped, so that no name can steer a terminal or a page.
"""

from __future__ import annotations

import re
import textwrap

from pausetrace.explanation import Explanation
from pausetrace.plain_text import printable

MAX_WIDTH = 100
MIN_WIDTH = 20
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#!|~&$@]|:(?=//)|^[-+]|(?<=^www)\.|(?<=^\d)[.)])")


def as_text(explanation: Explanation, width: int = MAX_WIDTH) -> str:
    """Headed paragraphs, one sentence a bullet."""
    width = max(MIN_WIDTH, min(width, MAX_WIDTH))
    lines = []
    for section in explanation.sections:
        lines += [*textwrap.wrap(section.title, width), "-" * min(len(section.title), width)]
        for sentence in section.sentences:
            lines += textwrap.wrap(
                printable(sentence), width, initial_indent="* ", subsequent_indent="  ",
                break_on_hyphens=False,
            )  # fmt: skip
        lines.append("")
    return "\n".join(lines)


def as_markdown(explanation: Explanation) -> str:
    """A heading, and a list a section."""
    lines = [f"# {_escaped(explanation.headline)}", ""]
    for section in explanation.sections:
        lines += [f"## {section.title}", ""]
        lines += [f"- {_escaped(sentence)}" for sentence in section.sentences]
        lines.append("")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Letters that mean something in Markdown are shown as themselves, and no address becomes a link."""
    return _MARKDOWN.sub(r"\\\1", printable(text))
