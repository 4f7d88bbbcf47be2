"""The runbook has the section that each alarm names."""

from __future__ import annotations

import re
from pathlib import Path

from tests.infra.templates import Synthesis
from tests.infra.test_permissions import COMMANDS

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"


def test_each_section_begins_with_a_command_and_ends_with_what_clears_the_page() -> None:
    _, *sections = re.split(r"^## \w+\n", RUNBOOK.read_text(), flags=re.M)
    assert len(sections) > 20
    for section in sections:
        assert re.match(r"\n```\ndlq [a-z]", section), section
        assert section.strip().rpartition("\n\n")[2].startswith("Clears "), section


def test_each_alarm_has_its_section_and_each_section_an_alarm(app: Synthesis) -> None:
    sections = {name.lower() for name in re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.M)}
    named = {
        alarm["Properties"]["AlarmDescription"].rpartition("#")[2]
        for _, alarm in app.of("AWS::CloudWatch::Alarm")
    }
    assert named == sections


def test_the_description_of_an_alarm_and_its_section_begin_with_one_command(
    app: Synthesis,
) -> None:
    text = RUNBOOK.read_text()
    first = dict(re.findall(r"^## (\w+)\n\n```\n(dlq [a-z ]*[a-z])", text, re.M))
    for _, alarm in app.of("AWS::CloudWatch::Alarm"):
        description = alarm["Properties"]["AlarmDescription"]
        [command] = re.findall(r"First command: `(dlq [a-z ]*[a-z])", description)
        section = re.sub("_.*", "", alarm["Properties"]["AlarmName"]).rpartition("-")[2]
        assert command == first[section], section


def test_people_who_may_only_read_may_type_the_first_command_of_each_section() -> None:
    first = set(re.findall(r"^```\n(dlq [a-z ]*[a-z])", RUNBOOK.read_text(), re.M))
    assert {command: list(COMMANDS[command]) for command in first} == {
        command: ["DlqReader"] for command in first
    }
