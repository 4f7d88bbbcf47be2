"""Finds by their names what a killed run left in the account, and removes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tools.verify_aws.account import GONE, PREFIX, AskedAccount, code_of, is_ours

Leftover = tuple[str, Callable[[], object]]


def sweep(
    account: AskedAccount,
    services: Collection[str] | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> tuple[list[str], list[str]]:
    """What was removed, and what could not be; of these services only, if any are given.

    `say` hears of each thing before it is removed: a stack takes minutes.
    """
    removed: list[str] = []
    left: list[str] = []
    for service, find in _FINDERS:
        if services is not None and service not in services:
            continue
        try:
            for what, removal in list(find(account)):
                say(f"removing {what}")
                try:
                    removal()
                    removed.append(what)
                except (ClientError, BotoCoreError) as error:
                    if code_of(error) not in GONE:
                        left.append(f"{what}: {error}")
        except (ClientError, BotoCoreError) as error:
            left.append(f"{find.__name__.strip('_')}: {error}")
    return removed, left


def found(account: AskedAccount, services: Collection[str]) -> Iterator[Leftover]:
    """What runs have left in these services, each with how it is removed."""
    for service, find in _FINDERS:
        if service in services:
            yield from find(account)


def _pages(client: Any, operation: str, member: str, **arguments: Any) -> Iterator[Any]:
    for answer in client.get_paginator(operation).paginate(**arguments):
        yield from answer.get(member, [])


def _queues(account: AskedAccount) -> Iterator[Leftover]:
    sqs = account.client("sqs")
    for url in _pages(sqs, "list_queues", "QueueUrls", QueueNamePrefix=PREFIX):
        if is_ours(url.rpartition("/")[2]):
            yield f"queue {url}", partial(sqs.delete_queue, QueueUrl=url)


def _tables(account: AskedAccount) -> Iterator[Leftover]:
    dynamodb = account.client("dynamodb")

    def remove(name: str) -> None:
        table = dynamodb.describe_table(TableName=name)["Table"]
        if table.get("DeletionProtectionEnabled"):
            dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
            dynamodb.get_waiter("table_exists").wait(TableName=name)
        dynamodb.delete_table(TableName=name)

    for name in _pages(dynamodb, "list_tables", "TableNames"):
        if is_ours(name):
            yield f"table {name}", partial(remove, name)


def _mappings(account: AskedAccount) -> Iterator[Leftover]:
    function = account.client("lambda")
    for mapping in _pages(function, "list_event_source_mappings", "EventSourceMappings"):
        if is_ours(mapping.get("FunctionArn", "").rpartition(":")[2]):
            yield (
                f"mapping {mapping['UUID']}",
                partial(function.delete_event_source_mapping, UUID=mapping["UUID"]),
            )


def _functions(account: AskedAccount) -> Iterator[Leftover]:
    function = account.client("lambda")
    for found in _pages(function, "list_functions", "Functions"):
        name = found["FunctionName"]
        if is_ours(name):
            yield (
                f"function {name}",
                partial(function.delete_function, FunctionName=name),
            )


def _machines(account: AskedAccount) -> Iterator[Leftover]:
    states = account.client("stepfunctions")
    for found in _pages(states, "list_state_machines", "stateMachines"):
        if is_ours(found["name"]):
            yield (
                f"state machine {found['name']}",
                partial(states.delete_state_machine, stateMachineArn=found["stateMachineArn"]),
            )


def _log_groups(account: AskedAccount) -> Iterator[Leftover]:
    logs = account.client("logs")
    for prefix in (PREFIX, f"/aws/lambda/{PREFIX}"):
        for group in _pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=prefix):
            name = group["logGroupName"]
            if is_ours(name.rpartition("/")[2]):
                yield (
                    f"log group {name}",
                    partial(logs.delete_log_group, logGroupName=name),
                )


def _alarms(account: AskedAccount) -> Iterator[Leftover]:
    watch = account.client("cloudwatch")
    for alarm in _pages(watch, "describe_alarms", "MetricAlarms", AlarmNamePrefix=PREFIX):
        name = alarm["AlarmName"]
        if is_ours(name):
            yield f"alarm {name}", partial(watch.delete_alarms, AlarmNames=[name])


def _mute_rules(account: AskedAccount) -> Iterator[Leftover]:
    watch = account.client("cloudwatch")
    for rule in _pages(watch, "list_alarm_mute_rules", "AlarmMuteRuleSummaries"):
        name = rule["AlarmMuteRuleArn"].rpartition(":")[2]
        if is_ours(name):
            yield (
                f"mute rule {name}",
                partial(watch.delete_alarm_mute_rule, AlarmMuteRuleName=name),
            )


def _topics(account: AskedAccount) -> Iterator[Leftover]:
    sns = account.client("sns")
    for found in _pages(sns, "list_topics", "Topics"):
        arn = found["TopicArn"]
        if is_ours(arn.rpartition(":")[2]):
            yield f"topic {arn}", partial(sns.delete_topic, TopicArn=arn)


def _schedules(account: AskedAccount) -> Iterator[Leftover]:
    scheduler = account.client("scheduler")
    for found in _pages(scheduler, "list_schedules", "Schedules", NamePrefix=PREFIX):
        name = found["Name"]
        if is_ours(name):
            yield f"schedule {name}", partial(scheduler.delete_schedule, Name=name)


def _dashboards(account: AskedAccount) -> Iterator[Leftover]:
    watch = account.client("cloudwatch")
    for board in _pages(watch, "list_dashboards", "DashboardEntries", DashboardNamePrefix=PREFIX):
        name = board["DashboardName"]
        if is_ours(name):
            yield (
                f"dashboard {name}",
                partial(watch.delete_dashboards, DashboardNames=[name]),
            )


def _parameters(account: AskedAccount) -> Iterator[Leftover]:
    ssm = account.client("ssm")
    # An app has a folder of its own.
    chosen = [{"Key": "Name", "Option": "BeginsWith", "Values": [PREFIX, f"/{PREFIX}"]}]
    for found in _pages(ssm, "describe_parameters", "Parameters", ParameterFilters=chosen):
        name = found["Name"]
        if is_ours(name.removeprefix("/")):
            yield f"parameter {name}", partial(ssm.delete_parameter, Name=name)


def _stacks(account: AskedAccount) -> Iterator[Leftover]:
    formation = account.client("cloudformation")

    def remove(name: str) -> None:
        formation.update_termination_protection(StackName=name, EnableTerminationProtection=False)
        formation.delete_stack(StackName=name)
        formation.get_waiter("stack_delete_complete").wait(StackName=name)

    stacks = list(_pages(formation, "describe_stacks", "Stacks"))
    # The newest first: what it needs to be deleted is in older ones.
    for stack in sorted(stacks, key=itemgetter("CreationTime"), reverse=True):
        name = stack["StackName"]
        if is_ours(name):
            yield f"stack {name}", partial(remove, name)


def _attached(iam: Any, role: str) -> Iterator[Any]:
    return _pages(iam, "list_attached_role_policies", "AttachedPolicies", RoleName=role)


def _policies(account: AskedAccount) -> Iterator[Leftover]:
    """Policies of our stacks on roles outside them: while one is there, its stack stays."""
    iam = account.client("iam")
    for role in _pages(iam, "list_roles", "Roles"):
        name = role["RoleName"]
        for policy in list(_attached(iam, name)) if is_ours(name) else ():
            if is_ours(policy["PolicyName"]):
                yield (
                    f"policy {policy['PolicyName']} of {name}",
                    partial(iam.detach_role_policy, RoleName=name, PolicyArn=policy["PolicyArn"]),
                )


def _roles(account: AskedAccount) -> Iterator[Leftover]:
    iam = account.client("iam")

    def remove(name: str) -> None:
        for policy in list(_attached(iam, name)):
            iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
        for policy in list(_pages(iam, "list_role_policies", "PolicyNames", RoleName=name)):
            iam.delete_role_policy(RoleName=name, PolicyName=policy)
        iam.delete_role(RoleName=name)

    for role in _pages(iam, "list_roles", "Roles"):
        name = role["RoleName"]
        if is_ours(name):
            yield f"role {name}", partial(remove, name)


def _buckets(account: AskedAccount) -> Iterator[Leftover]:
    s3 = account.client("s3")

    def remove(name: str) -> None:
        for found in list(_pages(s3, "list_objects_v2", "Contents", Bucket=name)):
            s3.delete_object(Bucket=name, Key=found["Key"])
        s3.delete_bucket(Bucket=name)

    for bucket in s3.list_buckets().get("Buckets", []):
        name = bucket["Name"]
        if is_ours(name):
            yield f"bucket {name}", partial(remove, name)


# Stacks first, for they own some of the rest; a role goes when nothing acts with it any more.
_FINDERS = (
    ("iam", _policies),
    ("cloudformation", _stacks),
    ("lambda", _mappings),
    ("lambda", _functions),
    ("stepfunctions", _machines),
    ("sqs", _queues),
    ("dynamodb", _tables),
    ("logs", _log_groups),
    ("cloudwatch", _alarms),
    ("cloudwatch mute rules", _mute_rules),
    ("cloudwatch", _dashboards),
    ("sns", _topics),
    ("scheduler", _schedules),
    ("ssm", _parameters),
    ("s3", _buckets),
    ("iam", _roles),
)

SERVICES = frozenset(service for service, _ in _FINDERS)
"""The services in which is looked for what a run has left."""
