"""The rights of each role on Kafka: one table, from which `pausetrace topics acls` prints or makes the ACLs.

Nobody gets more than the role needs: a probe can only write, a viewer only read. Write and Read bring Describe with
them. In: a role, the topics' prefix and a principal. Out: ACLs to print, or to make on a Kafka with an authorizer.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import NamedTuple

import msgspec
from confluent_kafka import KafkaException

# Public names of the package, which its type hints forget to export.
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from stream.errors import BrokerError
from stream.kafka_log import error_text
from stream.kafka_settings import CONNECT_DEADLINE_S, KafkaSettings, admin_client, connect
from stream.topics import FACTS, RAW, TOPICS, full_name

APPLY_DEADLINE_S = 30.0

TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "transactional-id"
LITERAL, PREFIXED = "literal", "prefixed"
REPLAY_PREFIX = "replay."
"""Where replays may write: never onto the live topics."""


class Acl(msgspec.Struct, frozen=True):
    """One right: `principal` may do `operation` (Kafka's word) on the resource, or on all that begin with its name."""

    principal: str
    operation: str
    resource: str
    name: str
    pattern: str

    @property
    def line(self) -> str:
        """The options of Kafka's own `kafka-acls.sh --add`."""
        words = ["--allow-principal", self.principal, "--operation", self.operation, f"--{self.resource}", self.name]
        return shlex.join([*words, "--resource-pattern-type", self.pattern])


class _Right(NamedTuple):
    operations: tuple[str, ...]
    resource: str
    names: tuple[str, ...]
    """Bare names of topics, or what follows the prefix and a dot."""
    pattern: str = LITERAL


class Role(NamedTuple):
    """What a kind of program does on Kafka, and the rights that it needs for it."""

    meaning: str
    rights: tuple[_Right, ...]


READABLE = tuple(topic.name for topic in TOPICS if topic.name != "state")
"""Everything but snapshots, which only steps can read."""
_SOURCE = _Right(("Write",), TOPIC, (*RAW, *FACTS, "control", "health"))

ROLES: dict[str, Role] = {
    "probe": Role("publishes what a host sees", (_SOURCE,)),
    "collector": Role("publishes what switches tell, or a trace (import csv)", (_SOURCE,)),
    "detect": Role(
        "step 1: raw events to pause intervals",
        (
            _Right(("Read",), TOPIC, (*RAW, *FACTS, "control")),
            _Right(("Read", "Write"), TOPIC, ("state",)),
            _Right(("Write",), TOPIC, ("episode", "control", "health", "deadletter")),
            _Right(("Read",), GROUP, ("detect",)),
            _Right(("Write",), TRANSACTIONAL_ID, ("detect.",), PREFIXED),
        ),
    ),
    "correlate": Role(
        "step 2: pause intervals to cascades",
        (
            _Right(("Read",), TOPIC, ("episode", *FACTS)),
            # It reads what it has published itself, so that a restart withdraws what is not so any more.
            _Right(("Read", "Write"), TOPIC, ("cascade", "control", "state")),
            _Right(("Write",), TOPIC, ("health", "deadletter")),
            # Before it calls a source late, it looks whether detect has read all that there is.
            _Right(("Describe",), TOPIC, RAW),
            _Right(("Describe",), GROUP, ("detect",)),
            _Right(("Read",), GROUP, ("correlate",)),
            _Right(("Write",), TRANSACTIONAL_ID, ("correlate",)),
        ),
    ),
    "viewer": Role("people and programs that read: observe, subscribe", (_Right(("Read",), TOPIC, READABLE),)),
    "capture": Role("keeps every topic in files, snapshots too", (_Right(("Read",), TOPIC, (*READABLE, "state")),)),
    "replay": Role(
        f"writes captures to topics {REPLAY_PREFIX}* alone",
        (_Right(("Create", "DescribeConfigs", "Read", "Write"), TOPIC, (REPLAY_PREFIX,), PREFIXED),),
    ),
    "admin": Role(
        "makes and describes topics (topics create, describe)",
        (_Right(("Create", "Describe", "DescribeConfigs"), TOPIC, ("",), PREFIXED),),
    ),
}


def acls_of(role: str, prefix: str, principal: str) -> list[Acl]:
    """The rights of a role on the topics of a prefix; raises KeyError for a role that does not exist."""
    return list(_acls(ROLES[role].rights, prefix, principal))


def _acls(rights: Sequence[_Right], prefix: str, principal: str) -> Iterator[Acl]:
    for right in rights:
        for name in right.names:
            full = name if name == REPLAY_PREFIX else full_name(prefix, name)
            for operation in right.operations:
                yield Acl(principal, operation, right.resource, full, right.pattern)


def apply_acls(settings: KafkaSettings, acls: Sequence[Acl], deadline_s: float = APPLY_DEADLINE_S) -> None:
    """Makes the ACLs that Kafka does not have; raises BrokerError if one cannot be made, and on the embedded broker."""
    if connect(settings, min(deadline_s, CONNECT_DEADLINE_S)).embedded:
        raise BrokerError("the embedded broker has no ACLs: it is for this machine alone", "use a real Kafka")
    client = admin_client(settings)  # lives until its futures are done
    bindings = {_binding(acl): acl for acl in acls}
    for binding, future in client.create_acls(list(bindings)).items():
        acl = bindings[binding]
        try:
            future.result(deadline_s)
        except KafkaException as err:
            raise BrokerError(
                f"ACL {acl.line} cannot be made: {error_text(err.args[0])}",
                "the broker needs an authorizer, and you the right to Alter on the cluster",
            ) from err
        except FutureTimeoutError as err:
            raise BrokerError(
                f"ACL {acl.line} cannot be made within {deadline_s:g} s", "check that the broker runs"
            ) from err


_RESOURCES = {
    TOPIC: ResourceType.TOPIC,
    GROUP: ResourceType.GROUP,
    TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}
_PATTERNS = {LITERAL: ResourcePatternType.LITERAL, PREFIXED: ResourcePatternType.PREFIXED}
_OPERATIONS = {
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
}
_ANY_HOST = "*"


def _binding(acl: Acl) -> AclBinding:
    return AclBinding(
        _RESOURCES[acl.resource],
        acl.name,
        _PATTERNS[acl.pattern],
        acl.principal,
        _ANY_HOST,
        _OPERATIONS[acl.operation],
        AclPermissionType.ALLOW,
    )
