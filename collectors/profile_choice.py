"""Where profiles come from: the built-in ones, and those of a folder of the user's.

In: that folder. Out: how sessions find a profile, and what the decoder tells entries of JSON arrays apart by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from collectors import profiles
from collectors.capabilities import Capabilities
from collectors.profile import Profile


class ProfileChoice(NamedTuple):
    """How a profile is found: by name or file, or by what the target says of itself."""

    load: Callable[[str], Profile]
    detect: Callable[[Capabilities], str | None]
    list_keys: Mapping[str, tuple[str, ...]]


def choice_of(folder: Path | None = None) -> ProfileChoice:
    """All profiles that there are; raises ConfigError for one that is wrong."""
    known = [profiles.load(name, folder) for name in profiles.names(folder)]
    return ProfileChoice(
        lambda name: profiles.load(name, folder),
        lambda capabilities: profiles.detect(capabilities, folder),
        profiles.list_keys(known),
    )
