"""Text that cannot hurt a terminal: names come from the fabric, so control characters in them are shown, never sent."""


def printable(text: str) -> str:
    """The text with everything that is not printable escaped, such as control sequences of a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
