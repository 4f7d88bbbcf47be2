"""The runbook has the section that each alarm names."""

from __future__ import annotations

import re
from pathlib import Path

from tests.infra.templates import Synthesis

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"


def test_each_alarm_has_its_section_and_each_section_an_alarm(app: Synthesis) -> None:
    sections = {name.lower() for name in re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.M)}
    named = {
        alarm["Properties"]["AlarmDescription"].rpartition("#")[2]
        for _, alarm in app.of("AWS::CloudWatch::Alarm")
    }
    assert named == sections
