"""What holds data, or is known by its name, is neither renamed nor lost from release to release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.infra.snapshot import kept, lasting, of_a_team
from tests.infra.templates import Stack, Synthesis


def check(stacks: Mapping[str, Stack]) -> None:
    now = lasting(stacks)
    before = {key: name for key, name in kept().items() if key.partition("/")[0] in stacks}
    changed = {key: (name, now.get(key)) for key, name in before.items() if now.get(key) != name}
    assert changed == {}, "letters would stay behind in what is no longer known"
    assert now.keys() <= before.keys(), "python -m tests.infra.snapshot adds what is new"


def test_what_holds_data_or_has_a_name_keeps_it_and_its_logical_id(app: Synthesis) -> None:
    check(app.stacks)
    # No stack goes: what it held would be in none.
    assert {key.partition("/")[0] for key in kept()} == {*app.stacks, "Heals"}


@pytest.mark.nightly
def test_so_does_that_of_a_pipeline_in_an_app_of_a_team(tmp_path: Path) -> None:
    check(of_a_team(tmp_path))


def test_the_file_has_tables_bucket_queues_topic_logs_parameters_and_machines() -> None:
    kinds = {name.partition(" ")[0] for name in kept().values()}
    assert {
        *("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::SNS::Topic"),
        *("AWS::Logs::LogGroup", "AWS::SSM::Parameter", "AWS::StepFunctions::StateMachine"),
    } <= kinds
