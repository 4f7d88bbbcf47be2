"""The policies in templates, with the ARNs that IAM would see."""

from __future__ import annotations

from typing import Any

import pytest

from tests.each_row import each_row
from tools.scan.policy import IamPolicy, UnknownReference, policies

TABLE = {"Type": "AWS::DynamoDB::Table"}


def allow(resource: Any) -> dict[str, Any]:
    return {"Statement": [{"Effect": "Allow", "Action": "x:Y", "Resource": resource}]}


def resources(templates: dict[str, Any]) -> list[Any]:
    return [policy.document["Statement"][0]["Resource"] for policy in policies(templates)]


def role(resource: Any) -> dict[str, Any]:
    properties = {
        "AssumeRolePolicyDocument": {"Statement": [{"Action": "sts:AssumeRole"}]},
        "Policies": [{"PolicyName": "own", "PolicyDocument": allow(resource)}],
    }
    return {"Type": "AWS::IAM::Role", "Properties": properties}


def test_a_policy_is_found_wherever_it_stands_and_a_trust_policy_is_none() -> None:
    queue = {"Type": "AWS::SQS::QueuePolicy", "Properties": {"PolicyDocument": allow("*")}}
    key = {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": allow("*")}}
    found = list(policies({"S": {"Resources": {"R": role("*"), "Q": queue, "K": key}}}))
    # In a key's own policy "*" is the key.
    this = allow("arn:aws:kms:eu-west-1:111122223333:key/K")
    assert found == [
        *(IamPolicy(f"S/{logical_id}", allow("*")) for logical_id in "RQ"),
        IamPolicy("S/K", this),
    ]


@each_row(
    ("value", "arn"),
    [
        ({"Fn::GetAtt": ["T", "Arn"]}, "arn:aws:dynamodb:eu-west-1:111122223333:table/T"),
        (
            {"Fn::Join": ["", [{"Fn::GetAtt": ["T", "Arn"]}, "/index/lanes"]]},
            "arn:aws:dynamodb:eu-west-1:111122223333:table/T/index/lanes",
        ),
        (
            {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":s3:::b"]]},
            "arn:aws:s3:::b",
        ),
        ({"Ref": "P"}, "arn:aws:sns:eu-west-1:111122223333:P"),
        (
            {"Fn::ImportValue": "there"},
            "arn:aws:dynamodb:eu-west-1:111122223333:table/T",
        ),
    ],
)
def test_references_become_the_arns_they_stand_for(value: Any, arn: str) -> None:
    output = {"Value": {"Fn::GetAtt": ["T", "Arn"]}, "Export": {"Name": "there"}}
    shared = {"Resources": {"T": TABLE}, "Outputs": {"O": output}}
    mine = {"Resources": {"T": TABLE, "P": {"Type": "AWS::SNS::Topic"}, "R": role(value)}}
    assert resources({"Shared": shared, "Mine": mine}) == [arn]


def test_a_reference_to_something_unknown_is_not_guessed() -> None:
    templates = {
        "S": {"Resources": {"X": {"Type": "AWS::X::Y"}, "R": role({"Fn::GetAtt": ["X", "Arn"]})}}
    }
    with pytest.raises(UnknownReference):
        resources(templates)
