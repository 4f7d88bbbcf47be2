"""The roles in docs/security.md and docs/roles.csv, from the tables of permissions: `make docs`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from infra.on_call import ATTACH
from tests.infra.test_permissions import GRANTED, THEIR_CONSUMER, needed

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
TABLE = PAGE.parent / "roles.csv"
BEGIN = "<!-- roles: written by `make docs` -->"
END = "<!-- end of roles -->"

# Who takes on each role, in the words of the page.
FUNCTIONS = {
    "redrive": "the automatic retry of one pipeline",
    "watch": "the monitor of one pipeline",
    "route": "the router of one pipeline",
    "consumer": "the webhook dispatcher of one pipeline",
    "circuit": "the circuit function of one pipeline",
    "probe": "the probe of one pipeline",
    "replay": "the function of one pipeline's runs",
    "starter": "EventBridge Scheduler and the state machines, for all pipelines",
    "check-rules": "the rule checker",
    "first-heartbeat": "the deployment's first heartbeats",
}


def roles() -> Iterator[tuple[str, dict[str, set[str]]]]:
    """Each role and policy, with what it may do to what."""
    yield from GRANTED.items()
    yield "<pipeline>-consumer (policy)", THEIR_CONSUMER
    yield from ((f"{policy} (policy)", needed(policy)) for policy in ATTACH)


def table() -> str:
    """docs/roles.csv: a line for each role and thing that it reaches."""
    lines = [("role", "reaches", "may")]
    for role, reaches in roles():
        lines += [(role, on, " ".join(sorted(actions))) for on, actions in sorted(reaches.items())]
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def section() -> str:
    """The roles of functions, and who has them."""
    rows = [f"| `{role}` | {whose} |" for role, whose in FUNCTIONS.items()]
    return "\n".join([BEGIN, "| role | whose |", "|---|---|", *rows, END])


def main() -> None:
    """Write the table into the page, and the file beside it."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{section()}{after}")
    TABLE.write_text(table())


if __name__ == "__main__":
    main()
