"""What may never be renamed, as a file: `python -m tests.infra.snapshot` adds what is new.

CloudFormation knows a resource by its logical id, and people, policies and other stacks know it by
its name. A release that changed either would leave letters behind in what it no longer knows. So
each pair of both stays as it is once it is in the file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.infra.conftest import EACH_SORT, synthesized
from tests.infra.edits import KINDS, STATEFUL
from tests.infra.shop import own_queues
from tests.infra.templates import Stack, filled

FILE = Path(__file__).with_name("snapshot.json")

# These hold nothing, but the command line, policies and other stacks know their names.
NAMED = frozenset({"AWS::SSM::Parameter", "AWS::StepFunctions::StateMachine"})


def lasting(stacks: Mapping[str, Stack]) -> dict[str, str]:
    """Kind and name of each resource that has to stay, by its stack and logical id.

    A name that CloudFormation generates is empty.
    """
    return {
        f"{stack.name}/{key}": " ".join((resource["Type"], *_name(resource)))
        for stack in stacks.values()
        for key, resource in stack.resources.items()
        if resource["Type"] in STATEFUL | NAMED
    }


def _name(resource: Mapping[str, dict[str, object]]) -> list[str]:
    properties = resource["Properties"]
    identity = KINDS[str(resource["Type"])].identity
    return [str(filled(properties[name])) for name in identity if name in properties]


def of_a_team(folder: Path) -> dict[str, Stack]:
    """The stack of a pipeline in a team's app: its ids begin with those that the team chose."""
    return {"Heals": own_queues(folder)["Heals"]}


def kept() -> dict[str, str]:
    """What the file holds."""
    read: dict[str, str] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return read


def main() -> None:
    """Add what is new to the file; change and remove nothing."""
    with TemporaryDirectory() as folder:
        now = lasting(synthesized(EACH_SORT, Path(folder)).stacks)
    with TemporaryDirectory() as folder:
        now |= lasting(of_a_team(Path(folder)))
    before = kept()
    FILE.write_text(json.dumps(dict(sorted({**now, **before}.items())), indent=2) + "\n")
    if broken := [key for key, name in before.items() if now.get(key) != name]:
        lines = (f"{key} was {before[key]} and is {now.get(key, 'gone')}" for key in broken)
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    main()
