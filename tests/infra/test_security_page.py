"""What the security page says of roles is what the templates give them."""

from __future__ import annotations

from infra.on_call import ATTACH
from tests.infra.roles import FUNCTIONS, PAGE, TABLE, roles, section, table
from tests.infra.test_permissions import GRANTED


def test_the_page_has_the_table_of_roles_as_it_is() -> None:
    assert section() in PAGE.read_text(), "run `make docs`"
    assert TABLE.read_text() == table(), "run `make docs`"


def test_every_role_is_said_whose_it_is() -> None:
    assert set(FUNCTIONS) == set(GRANTED)


def test_what_the_page_promises_of_roles_is_true() -> None:
    lines = {
        role.partition(" ")[0]: {action for actions in reaches.values() for action in actions}
        for role, reaches in roles()
    }
    moves = {"sqs:SendMessage", "sqs:DeleteMessage"}
    # "The router can move nothing."
    assert not lines["route"] & {*moves, "sqs:ReceiveMessage", "lambda:InvokeFunction"}
    # "The redriver can write no rules": its writes are on other tables.
    assert "table Rules" not in GRANTED["redrive"]
    # "People send and delete nothing."
    assert not any(lines[policy] & moves for policy in ATTACH)
    # "Nobody may purge a queue."
    assert not any("PurgeQueue" in action for actions in lines.values() for action in actions)
