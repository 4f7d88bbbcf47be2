"""S3, parameters and stacks: small claims that a deployment stands on."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from tools.verify_aws.account import AskedAccount, Unclear, expect, refused, taken
from tools.verify_aws.check import check


@check("s3-if-none-match", creates="a bucket and an object")
def if_none_match(account: AskedAccount) -> str:
    """Is a second write of an object refused that asks for none to be there?"""
    s3, name = account.client("s3"), account.name("bucket")
    where: dict[str, Any] = {}
    if account.region != "us-east-1":
        where["CreateBucketConfiguration"] = {"LocationConstraint": account.region}
    s3.create_bucket(Bucket=name, **where)
    account.remove(f"bucket {name}", lambda: s3.delete_bucket(Bucket=name))
    account.remove("object", lambda: s3.delete_object(Bucket=name, Key="page"))
    taken(s3.put_object, Bucket=name, Key="page", Body=b"one", IfNoneMatch="*")
    code = refused(
        s3.put_object,
        "PreconditionFailed",
        Bucket=name,
        Key="page",
        Body=b"two",
        IfNoneMatch="*",
    )
    kept = s3.get_object(Bucket=name, Key="page")["Body"].read()
    expect(kept == b"one", "the second write took the object's place")
    return f"refused with {code}"


@check("ssm-parameter-size", creates="a parameter")
def parameter_size(account: AskedAccount) -> str:
    """Is a standard parameter of 4 KB taken, and a longer one refused?"""
    ssm, name = account.client("ssm"), account.name("parameter")
    account.remove(f"parameter {name}", lambda: ssm.delete_parameter(Name=name))
    given = {"Name": name, "Type": "String", "Tier": "Standard", "Overwrite": True}
    taken(ssm.put_parameter, Value="x" * 4096, **given)
    code = refused(ssm.put_parameter, Value="x" * 4097, **given)
    return f"4,096 letters taken, 4,097 refused with {code}"


def parameter(value: object = "x", **more: Any) -> dict[str, Any]:
    """A resource that costs nothing."""
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value, **more}}


def template(outputs: dict[str, Any], value: object = "x") -> str:
    """A stack of one parameter."""
    return json.dumps({"Resources": {"One": parameter(value)}, "Outputs": outputs})


def status(account: AskedAccount, name: str) -> str:
    """How a stack stands, in AWS's words."""
    stacks = account.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    return str(stacks[0]["StackStatus"])


def ended(account: AskedAccount, name: str) -> str:
    """How a stack stands when CloudFormation is at rest."""

    def at_rest() -> str:
        now = status(account, name)
        return "" if now.endswith("_IN_PROGRESS") else now

    return str(account.until(at_rest, 180, f"{name} has ended", every=3))


def stack(account: AskedAccount, body: str) -> str:
    """The name of a new stack, at rest however its creation ended."""
    formation, name = account.client("cloudformation"), account.name("stack")
    formation.create_stack(StackName=name, TemplateBody=body)

    def deleted() -> None:
        formation.delete_stack(StackName=name)

        def gone() -> bool:
            try:
                return status(account, name) == "DELETE_COMPLETE"
            except ClientError:
                # A stack that is gone has no description.
                return True

        account.until(gone, 120, f"{name} is deleted", every=3)

    account.remove(f"stack {name}", deleted)
    ended(account, name)
    return name


@check("cloudformation-export", creates="two stacks of one parameter each", seconds=300)
def export_in_use(account: AskedAccount) -> str:
    """Does an update fail that removes an export which another stack imports?"""
    export = account.name("export")
    exporting = stack(account, template({"Out": {"Value": "v", "Export": {"Name": export}}}))
    importing = stack(account, template({}, {"Fn::ImportValue": export}))
    for name in (exporting, importing):
        if status(account, name) != "CREATE_COMPLETE":
            raise Unclear(f"{name} ended as {status(account, name)}")
    try:
        account.client("cloudformation").update_stack(
            StackName=exporting, TemplateBody=template({}, "y")
        )
    except ClientError as error:
        return f"refused: {error.response['Error'].get('Message')}"
    end = ended(account, exporting)
    expect("ROLLBACK" in end, f"the update ended as {end}")
    return f"the update ended as {end}"


@check(
    "cloudformation-retain-rollback",
    creates="a stack that fails, and a parameter that stays",
    seconds=300,
)
def retain_at_a_rollback(account: AskedAccount) -> str:
    """Does a resource stay by its deletion policy Retain when its first deployment fails?"""
    ssm, name = account.client("ssm"), account.name("parameter")
    account.remove(f"parameter {name}", lambda: ssm.delete_parameter(Name=name))
    kept = {**parameter(Name=name), "DeletionPolicy": "Retain"}
    # Longer than a queue may hide a message.
    fails = {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": 43_201}}
    resources = {"Kept": kept, "Fails": {**fails, "DependsOn": "Kept"}}
    end = status(account, stack(account, json.dumps({"Resources": resources})))
    if end != "ROLLBACK_COMPLETE":
        raise Unclear(f"the stack ended as {end}")
    there = ssm.get_parameters(Names=[name])["Parameters"]
    expect(bool(there), "the parameter went with its stack")
    return "the parameter stayed"
