"""The protocol that detect and correlate follow, and its rules of determinism.

A step sees batches, facts and roster changes and nothing else: no clock, `seen_ns`, offset or batch boundary may
change its final outputs, nor may the order in which sources arrive. Items of one stream arrive in that stream's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class Step(Protocol[In, Out]):
    """A pure object: the same items in any batching give the same outputs, and snapshot/restore continue exactly."""

    def process(self, batch: Sequence[In]) -> Sequence[Out]:
        """Takes the items in and returns what is settled by them."""
        ...

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        ...

    def restore(self, state: bytes) -> None:
        """Makes the state that of a snapshot of the same version; raises PausetraceError for any other bytes."""
        ...
