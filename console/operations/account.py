"""What a first deployment needs of an account, and what of it the account lacks.

`examined` asks the account; the other public functions judge what it said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deadletter.contract import DEFAULT_APP
from deadletter.signals.pages import APP_PAGES, PIPELINE_PAGES

from .aws import Aws, rows
from .deadline import Asking
from .dlqs import CdkJson
from .doctor_checks import ERROR, WARNING, DoctorFault, Examined, QueueFault, findings, worst_first
from .key_policy import key_uses, read_key

# How many of a kind a deployment makes at most: for the app, and for each pipeline.
MADE = {
    "Roles": (3, 5),
    "Policies": (9, 1),
    "alarms": (len(APP_PAGES), len(PIPELINE_PAGES)),
    "state machines": (0, 2),
}
# AWS's quotas, where no answer has them: an account may have asked for more.
_QUOTAS = {"alarms": 5_000, "state machines": 10_000}

# At once in the worst minute of one pipeline: monitor, automatic retry, router, probe, a run, and
# ten batches of its webhook dispatcher.
AT_ONCE = 15
# Lambda keeps as many for functions that reserve none; in a new account it is fewer.
UNRESERVED = 100
# The version of the bootstrap that templates of the CDK ask for.
BOOTSTRAP = 6

# An action of each service of which a deployment makes something.
ACTIONS = (
    *("cloudwatch:PutDashboard", "cloudwatch:PutMetricAlarm", "dynamodb:CreateTable"),
    *("iam:CreatePolicy", "iam:CreateRole", "iam:PassRole", "kms:CreateKey"),
    *("lambda:CreateEventSourceMapping", "lambda:CreateFunction", "logs:CreateLogGroup"),
    *("s3:CreateBucket", "scheduler:CreateSchedule", "sns:CreateTopic", "sqs:CreateQueue"),
    *("ssm:PutParameter", "states:CreateStateMachine"),
)
# What the functions talk to: a VPC without a way out needs an endpoint of each.
ENDPOINTS = ("dynamodb", "events", "lambda", "monitoring", "s3", "sqs", "ssm", "states")
_WAYS_OUT = ("NatGatewayId", "TransitGatewayId", "NetworkInterfaceId", "InstanceId")


def planned(file: Path) -> Mapping[str, Any]:
    """The context of a cdk.json, of one pipeline if it names none. Raises Problem."""
    settings = CdkJson(file)
    return {**settings.context, "pipelines": settings.pipelines or [{}]}


def examined(aws: Aws, ask: Asking, context: Mapping[str, Any]) -> Sequence[QueueFault]:
    """What an account lacks. What it does not answer is lost, and not judged."""
    account, region, partition = aws.account, aws.region, aws.caller.split(":")[1]
    qualifier = context.get("@aws-cdk/core:bootstrapQualifier", "hnb659fds")
    role = f"cdk-{qualifier}-cfn-exec-role-{account}-{region}"
    app, pipelines = context.get("app", DEFAULT_APP), len(context["pipelines"])
    key_arn, ids = context.get("kms_key_arn"), (context.get("vpc") or {}).get("subnet_ids", ())
    # Made before there are threads.
    _ = aws.iam, aws.functions, aws.cloudwatch, aws.stepfunctions, aws.ssm, aws.ec2, aws.kms
    limits = ask("how many functions may run at once", aws.functions.get_account_settings)
    summary = ask("roles and policies", aws.iam.get_account_summary)
    alarms = ask("alarms", _count, aws.cloudwatch, "describe_alarms", "MetricAlarms")
    sfn = ask("state machines", _count, aws.stepfunctions, "list_state_machines", "stateMachines")
    version = ask("the CDK's bootstrap", _bootstrap, aws, f"/cdk-bootstrap/{qualifier}/version")
    arn = f"arn:{partition}:iam::{account}:role/{role}"
    refused = ask(f"what {role} may do", _decisions, aws, arn)
    lacking = ask("subnets", _lacking, aws, ids) if ids else None
    key = ask(f"key {key_arn}", read_key, aws.kms, key_arn) if key_arn else None
    found: list[QueueFault] = []
    if (answer := limits()) is not None:
        found += concurrency(answer["AccountLimit"], account, region, pipelines)
    of_iam = (summary() or {}).get("SummaryMap", {})
    counts = {"alarms": alarms(), "state machines": sfn(), **of_iam}
    found += quotas(counts, account, pipelines)
    if (bootstrap := version()) is not None and bootstrap < BOOTSTRAP:
        fix = f"npx cdk bootstrap aws://{account}/{region}"
        found.append(DoctorFault.BOOTSTRAP.of(account, fix, version=bootstrap, least=BOOTSTRAP))
    # IAM is asked about all resources: a policy that names those of the app does not allow that.
    decisions = refused() or {}
    if denied := ", ".join(a for a, said in decisions.items() if said != "allowed"):
        sure = "explicitDeny" in decisions.values()
        level, unless = (ERROR, "") if sure else (WARNING, "its policies name resources")
        found += [DoctorFault.DEPLOYER.of(role, None, level=level, actions=denied, unless=unless)]
    for subnet, services in ((lacking and lacking()) or {}).items():
        found.append(DoctorFault.NO_WAY_OUT.of(subnet, None, services=", ".join(services)))
    app_key = key and key()
    uses = key_uses(app, partition=partition, region=region, account=account)
    of_key = Examined(
        (), None, region, {}, {}, (), {}, (), f"{app}-alarms", "", None, uses, app_key, app_key
    )
    return worst_first([*found, *findings(of_key)])


def concurrency(
    limits: Mapping[str, Any], account: str, region: str, pipelines: int
) -> Iterator[QueueFault]:
    """Whether so many pipelines may run, and whether their monitors can reserve an execution."""
    limit, free = limits["ConcurrentExecutions"], limits["UnreservedConcurrentExecutions"]
    if free < AT_ONCE:
        fix = (
            "aws service-quotas request-service-quota-increase --service-code lambda"
            f" --quota-code L-B99A9384 --desired-value 1000 --region {region}"
        )
        yield DoctorFault.FEW_EXECUTIONS.of(account, fix, limit=limit, free=free, needed=AT_ONCE)
    spares = free - pipelines >= UNRESERVED
    note = DoctorFault.RESERVES if spares else DoctorFault.RESERVES_NONE
    yield note.of(account, None, free=free, least=UNRESERVED)


def quotas(counts: Mapping[str, Any], account: str, pipelines: int) -> Iterator[QueueFault]:
    """Which quotas so many pipelines pass; counts have the names of `MADE`, None if unknown."""
    for kind, (of_app, of_pipeline) in MADE.items():
        has, made = counts.get(kind), of_app + of_pipeline * pipelines
        most = counts.get(f"{kind}Quota", _QUOTAS.get(kind, 0))
        if has is not None and has + made > most:
            sure = kind not in _QUOTAS
            level, unless = (ERROR, "") if sure else (None, "it has asked for more")
            numbers = {"has": has, "made": made, "most": most}
            says = {"kind": kind.lower(), "unless": unless}
            yield DoctorFault.QUOTA.of(account, None, level=level, costs=False, **numbers, **says)


def _count(client: Any, operation: str, key: str) -> int:
    return sum(1 for _ in rows(client, operation, key))


def _bootstrap(aws: Aws, name: str) -> int:
    """The version of the CDK's bootstrap; 0 if there is none."""
    found = aws.ssm.get_parameters(Names=[name])["Parameters"]
    return int(found[0]["Value"]) if found else 0


def _decisions(aws: Aws, role: str) -> Mapping[str, str]:
    asked = {"PolicySourceArn": role, "ActionNames": list(ACTIONS)}
    answers = rows(aws.iam, "simulate_principal_policy", "EvaluationResults", **asked)
    return {answer["EvalActionName"]: answer["EvalDecision"] for answer in answers}


def _lacking(aws: Aws, subnets: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The services that functions in these subnets do not reach: no way out, and no endpoint."""

    def found_by(operation: str, key: str, name: str, *values: str) -> Sequence[Any]:
        return [*rows(aws.ec2, operation, key, Filters=[{"Name": name, "Values": list(values)}])]

    known = found_by("describe_subnets", "Subnets", "subnet-id", *subnets)
    vpcs = {row["SubnetId"]: row["VpcId"] for row in known}
    found = {}
    for subnet in subnets:
        vpc = vpcs.get(subnet, "")
        endpoints = found_by("describe_vpc_endpoints", "VpcEndpoints", "vpc-id", vpc)
        there = {endpoint["ServiceName"].rpartition(".")[2] for endpoint in endpoints}
        lacks = [service for service in ENDPOINTS if service not in there]
        tables = found_by("describe_route_tables", "RouteTables", "vpc-id", vpc)
        if lacks and not leads_out(tables, subnet):
            found[subnet] = lacks
    return found


def leads_out(tables: Sequence[Mapping[str, Any]], subnet: str) -> bool:
    """Whether a subnet's route table, else the main one of its VPC, has a way out."""

    def of(key: str, value: object) -> Sequence[Mapping[str, Any]]:
        return [
            table
            for table in tables
            if any(each.get(key) == value for each in table["Associations"])
        ]

    routes = [route for t in of("SubnetId", subnet) or of("Main", True) for route in t["Routes"]]
    ways = [route for route in routes if route.get("DestinationCidrBlock") == "0.0.0.0/0"]
    return any(route.get(way) for route in ways for way in _WAYS_OUT)
