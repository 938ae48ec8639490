"""The table of roles: nobody has more rights than its work needs, and every topic has a writer and a reader."""

import shlex

import pytest

from stream.acls import LITERAL, READABLE, ROLES, TOPIC, Acl, acls_of, apply_acls
from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError
from stream.topics import RAW, TOPICS


def topics_of(role: str, operation: str) -> set[str]:
    """Bare names of the topics that a role may do this on."""
    acls = acls_of(role, "fabric", "User:x")
    return {a.name.removeprefix("fabric.") for a in acls if (a.resource, a.operation) == (TOPIC, operation)}


@pytest.mark.parametrize("role", ["probe", "collector"])
def test_a_source_only_writes_and_not_what_steps_write(role: str) -> None:
    assert {acl.operation for acl in acls_of(role, "fabric", "User:x")} == {"Write"}
    assert not topics_of(role, "Write") & {"episode", "cascade", "state", "deadletter"}
    assert set(RAW) <= topics_of(role, "Write")


def test_a_viewer_only_reads_and_everything_but_snapshots() -> None:
    assert {acl.operation for acl in acls_of("viewer", "fabric", "User:x")} == {"Read"}
    assert topics_of("viewer", "Read") == set(READABLE) == {topic.name for topic in TOPICS} - {"state"}


def test_every_topic_has_a_writer_and_a_reader_among_the_roles() -> None:
    names = {topic.name for topic in TOPICS}
    for operation in ("Read", "Write"):
        assert (
            set().union(*(topics_of(role, operation) for role in ("probe", "detect", "correlate", "viewer"))) == names
        )


def test_a_replay_has_no_right_on_a_live_topic() -> None:
    assert {acl.name for acl in acls_of("replay", "fabric", "User:x")} == {"replay."}


@pytest.mark.parametrize("role", ROLES)
def test_rights_belong_to_the_prefix_and_to_names_not_to_everything(role: str) -> None:
    for acl in acls_of(role, "lab", "User:x"):
        assert acl.name.startswith(("lab.", "replay."))
        assert acl.pattern == LITERAL or acl.name.endswith(".")


def test_a_line_is_what_a_shell_takes_apart_again() -> None:
    acl = Acl("User:CN=a b,O='x'", "Read", TOPIC, "fabric.pfc", LITERAL)
    assert shlex.split(acl.line)[:2] == ["--allow-principal", "User:CN=a b,O='x'"]


def test_the_embedded_broker_has_no_acls(embedded_broker: EmbeddedBroker) -> None:
    with pytest.raises(BrokerError, match="the embedded broker has no ACLs"):
        apply_acls(embedded_broker.settings, acls_of("viewer", "fabric", "User:x"))
