"""The table of roles in docs/security.md, from the tables of permissions: `make docs` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from infra.on_call import ATTACH
from tests.infra.test_permissions import GRANTED, THEIR_CONSUMER, needed

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN = "<!-- roles: written by `make docs` -->"
END = "<!-- end of roles -->"

# Who takes on each role, in the words of the page.
FUNCTIONS = {
    "redrive": "the redriver of one pipeline",
    "watch": "the watch of one pipeline",
    "route": "the router of one pipeline",
    "consumer": "the webhook dispatcher of one pipeline",
    "circuit": "the circuit function of one pipeline",
    "probe": "the probe of one pipeline",
    "replay": "the function of one pipeline's replay runs",
    "starter": "EventBridge Scheduler and the state machines, for all pipelines",
    "check-rules": "the rule checker",
    "first-heartbeat": "the deployment's first heartbeats",
}


def rows() -> Iterator[str]:
    """Each role, who has it, and what it may do to what."""
    yield "| role | whose | may |"
    yield "|---|---|---|"
    for role, reaches in GRANTED.items():
        yield row(f"`{role}`", FUNCTIONS.get(role, ""), reaches)
    yield row("`<pipeline>-consumer` (policy)", "a consumer of yours", THEIR_CONSUMER)
    for policy, whose in ATTACH.items():
        yield row(f"`{policy}` (policy)", whose, needed(policy))


def row(role: str, whose: str, reaches: dict[str, set[str]]) -> str:
    actions = sorted({action for granted in reaches.values() for action in granted})
    return f"| {role} | {whose} | {' '.join(f'`{action}`' for action in actions)} |"


def section() -> str:
    return "\n".join([BEGIN, *rows(), END])


def main() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{section()}{after}")


if __name__ == "__main__":
    main()
