"""docs/security.md says what the table of roles says."""

from pathlib import Path

from stream.acls import GROUP, PREFIXED, ROLES, TRANSACTIONAL_ID, Role

PAGE = Path(__file__).resolve().parents[2] / "docs/security.md"
BEGIN, END = "| --- | --- | --- |\n", "<!-- end of roles -->"
RENEW = "the table in docs/security.md is not that of stream/acls.py, which is:\n"


def rights(role: Role) -> str:
    """The rights of a role in words."""
    parts = []
    for right in role.rights:
        names = " ".join(f"`{name}*`" if right.pattern == PREFIXED else f"`{name}`" for name in right.names)
        kind = {GROUP: "group ", TRANSACTIONAL_ID: "transactional id "}.get(right.resource, "")
        parts.append(f"{', '.join(right.operations)}: {kind}{names}")
    return "; ".join(parts)


def test_the_table_of_roles_is_that_of_the_code() -> None:
    table = "".join(f"| `{name}` | {role.meaning} | {rights(role)} |\n" for name, role in ROLES.items())
    shown = PAGE.read_text().partition("<!-- roles")[2].partition(BEGIN)[2].partition(END)[0]
    assert shown == table, RENEW + table
