"""A log of something that may happen a million times: the first ten of it, and then every doubling with the count."""

from __future__ import annotations

import logging

FIRST = 10


class SampledLog:
    """Warnings of one sort on a logger, thinned out; the count itself is kept by whoever counts."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._count = 0

    def warning(self, message: str, *arguments: object) -> None:
        """Logs the message, or leaves it out."""
        self._count += 1
        if self._count <= FIRST:
            self._logger.warning(message, *arguments)
        elif self._count & (self._count - 1) == 0:
            self._logger.warning("%s (number %d of its sort)", message % arguments, self._count)
