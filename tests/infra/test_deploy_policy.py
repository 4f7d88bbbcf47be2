"""`make policy`: what CloudFormation's execution role takes, no more and no less."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from console.operations.account import ACTIONS as ASKED
from tests.infra.conftest import SANDBOXED, Synthesize
from tests.infra.templates import Synthesis, filled
from tools.deploy_policy import FOR_ANY, LARGEST, UnknownType, actions_of, main, policy, size


def templates(app: Synthesis) -> dict[str, Mapping[str, Any]]:
    return {name: stack.template for name, stack in app.stacks.items()}


def allowed(document: Mapping[str, Any]) -> set[str]:
    return {action for statement in document["Statement"] for action in statement["Action"]}


def lacking(actions: Iterable[str], stacks: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Types of resources that can't be made with these actions alone."""
    may = set(actions)
    return {
        resource["Type"]
        for template in stacks.values()
        for key, resource in template["Resources"].items()
        if not may.issuperset(actions_of({key: resource}))
    }


def test_a_deployment_takes_each_action_of_the_policy_and_no_other(app: Synthesis) -> None:
    stacks = templates(app)
    actions = allowed(policy(stacks, "deadletter"))
    assert lacking(actions, stacks) == set()
    spare = [each for each in actions - FOR_ANY if not lacking(actions - {each}, stacks)]
    assert spare == []
    # What `dlq doctor --account` asks IAM about is what deployments take.
    assert set(ASKED) <= actions


def test_it_fits_into_a_managed_policy_for_each_sort_of_app(
    app: Synthesis, synthesize: Synthesize
) -> None:
    for each in (app, synthesize(SANDBOXED)):
        assert size(policy(templates(each), "deadletter")) <= LARGEST


def test_a_property_takes_its_actions_only_where_it_is_set(app: Synthesis) -> None:
    table = {"Type": "AWS::DynamoDB::Table", "Properties": {}}
    backed_up = {**table, "Properties": {"PointInTimeRecoverySpecification": {}}}
    more = set(actions_of({"a": backed_up})) - set(actions_of({"a": table}))
    assert more == {"dynamodb:UpdateContinuousBackups"}
    assert "s3:PutBucketWebsite" not in allowed(policy(templates(app), "deadletter"))


def test_roles_and_policies_of_others_are_out_of_reach(app: Synthesis) -> None:
    _, of_iam, passed = policy(templates(app), "deadletter")["Statement"]
    assert all(action.startswith("iam:") for action in of_iam["Action"])
    assert passed["Action"] == ["iam:PassRole"]
    for kind, key, folder in (
        ("AWS::IAM::Role", "RoleName", "role"),
        ("AWS::IAM::ManagedPolicy", "ManagedPolicyName", "policy"),
    ):
        for place, resource in app.of(kind):
            # CloudFormation begins a name that it makes with the stack's.
            name = filled(resource["Properties"].get(key, place.replace("/", "-")))
            arn = f"arn:aws:iam::111122223333:{folder}/{name}"
            assert any(fnmatchcase(arn, each) for each in of_iam["Resource"]), arn
    assert not any(
        fnmatchcase("arn:aws:iam::111122223333:role/Admin", each) for each in of_iam["Resource"]
    )


def test_what_an_unknown_type_takes_is_not_guessed() -> None:
    stacks = {"S": {"Resources": {"a": {"Type": "AWS::New::Thing"}}}}
    with pytest.raises(UnknownType, match="AWS::New::Thing is not in"):
        policy(stacks, "deadletter")


def test_it_is_written_with_the_commands_that_give_it_to_the_role(
    app: Synthesis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, template in templates(app).items():
        (tmp_path / f"{name}.template.json").write_text(json.dumps(template))
    file = tmp_path / "build" / "policy.json"
    main(tmp_path, file)
    assert json.loads(file.read_text()) == policy(templates(app), "deadletter")
    assert "npx cdk bootstrap --cloudformation-execution-policies ARN" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="has no template"):
        main(tmp_path / "build", file)
