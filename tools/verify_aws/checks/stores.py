"""S3, parameters and stacks: small claims that a deployment stands on."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from tools.verify_aws.account import AskedAccount, expect, refused, taken
from tools.verify_aws.check import Unclear, check


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


def template(outputs: dict[str, Any], value: object = "x") -> str:
    """A stack of one parameter, which costs nothing."""
    parameter = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}}
    return json.dumps({"Resources": {"One": parameter}, "Outputs": outputs})


@check("cloudformation-export", creates="two stacks of one parameter each", seconds=300)
def export_in_use(account: AskedAccount) -> str:
    """Does an update fail that removes an export which another stack imports?"""
    formation = account.client("cloudformation")
    export = account.name("export")

    def status(name: str) -> str:
        return str(formation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])

    def deleted(name: str) -> None:
        formation.delete_stack(StackName=name)

        def gone() -> bool:
            try:
                return status(name) == "DELETE_COMPLETE"
            except ClientError:
                # A stack that is gone has no description.
                return True

        account.until(gone, 120, f"{name} is deleted", every=3)

    def deploy(body: str) -> str:
        name = account.name("stack")
        formation.create_stack(StackName=name, TemplateBody=body)
        account.remove(f"stack {name}", lambda: deleted(name))
        end = account.until(
            lambda: None if status(name) == "CREATE_IN_PROGRESS" else status(name),
            120,
            f"{name} is created",
            every=3,
        )
        if end != "CREATE_COMPLETE":
            raise Unclear(f"{name} ended as {end}")
        return name

    exporting = deploy(template({"Out": {"Value": "v", "Export": {"Name": export}}}))
    deploy(template({}, {"Fn::ImportValue": export}))
    try:
        formation.update_stack(StackName=exporting, TemplateBody=template({}, "y"))
    except ClientError as error:
        return f"refused: {error.response['Error'].get('Message')}"
    going = ("UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS")
    end = account.until(
        lambda: None if status(exporting).startswith(going) else status(exporting),
        180,
        "the update has ended",
        every=3,
    )
    expect("ROLLBACK" in end, f"the update ended as {end}")
    return f"the update ended as {end}"
