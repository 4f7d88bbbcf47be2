"""What the whole session left behind. These tests run last: see conftest."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from deadletter.contract import Partition
from sandbox.server import ACCOUNT, Sandbox
from tests.e2e import canaries, stranger
from tests.e2e.conftest import COLLECTED, PIPELINES
from tests.e2e.covers import MOST
from tests.e2e.covers import rows as rows_of_the_day
from tests.e2e.deployed import Deployed, event, rows
from tests.e2e.receiver import Receiver
from tests.infra.test_permissions import GRANTED

HERE = Path(__file__).parent

# Seconds since a run ended well: longer than any setting of RedriveStalled.
LONG_AGO = 900.0

# Roles whose calls the emulator does not ask about.
NOT_COMPARED = {
    "starter": "the emulator does not ask what a schedule or an execution may",
}


@pytest.fixture(scope="module", autouse=True)
def trouble(
    sandbox: Sandbox,
    aws: Callable[[str], Any],
    outputs: Mapping[str, str],
    receiver: Receiver,
) -> None:
    """Messages that fail in ways whose errors could quote them, their endpoint or its secret."""
    orders = Deployed(sandbox, aws, outputs)
    folder = "deadletter/webhooks"
    key = base64.b64encode(canaries.SECRET.encode()[:40]).decode()
    for name, value in (("bad", canaries.SECRET), ("good", f"whsec_{key}")):
        aws("secretsmanager").create_secret(Name=f"{folder}/{name}", SecretString=value)
    receiver.statuses["c-gone"] = 410
    endpoints = {
        "c-refused": (f"https://10.0.0.1/{canaries.URL}", []),
        # Its host is in the audit table, as it is in `dlq endpoint list`; its path is nowhere.
        "c-nowhere": (f"https://nowhere.invalid/{canaries.URL}", []),
        "c-unsigned": (receiver.url("c-unsigned"), [f"{folder}/bad"]),
        "c-signed": (receiver.url("c-signed"), [f"{folder}/good"]),
        "c-gone": (receiver.url("c-gone"), []),
    }
    for tenant, (url, secrets) in endpoints.items():
        orders.register(tenant, url, secrets)
    bodies = [json.dumps({"tenantId": endpoint, "note": canaries.BODY}) for endpoint in endpoints]
    bodies += [canaries.BODY, json.dumps({"tenantId": canaries.BODY}), f'{{"{canaries.BODY}']
    for body in bodies:
        orders.send(body)
    for body in bodies:
        orders.send(body, "Dlq")
    main = orders.url("MainQueue").rpartition("/")[2]

    def tried() -> bool:
        orders.redrive()
        return all(queue["ReceiveCount"] for queue in sandbox.queues().get(main, []))

    orders.until(tried, "each message has been tried")
    orders.until(lambda: receiver.bodies["c-signed"], "the signed one is delivered")


def whole_session(request: pytest.FixtureRequest) -> bool:
    """Whether every case of this folder is being run, by day and at night."""
    run = {item.nodeid for item in request.session.items}
    files = {item.path.name for item in request.session.items}
    every = {path.name for path in HERE.glob("test_*.py")}
    return run >= request.config.stash[COLLECTED] and files >= every


def whole_day(request: pytest.FixtureRequest) -> bool:
    """Whether every case of the table is being run."""
    run = {(item.path.stem, item.name) for item in request.session.items}
    return run >= {(file, f"test_{case}") for file, case, _ in rows_of_the_day()}


def test_no_canary_is_where_people_and_machines_look(
    sandbox: Sandbox, aws: Callable[[str], Any]
) -> None:
    group, logs = "/planted/leak", aws("logs")
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="one")
    line = {"timestamp": int(sandbox.time() * 1000), "message": f"failed on {canaries.SEEN}!"}
    logs.put_log_events(logGroupName=group, logStreamName="one", logEvents=[line])
    texts = list(canaries.everything(sandbox, aws))
    kinds = {where.partition(" ")[0] for where, _ in texts}
    assert {"log", "metric", "alarm", "table", "parameter"} <= kinds
    # A leaking line would be seen.
    assert canaries.leaks(texts, [canaries.SEEN]) == [f"canary-seen in log {group}"]
    assert canaries.leaks(texts) == []


def used(sandbox: Sandbox, function: str) -> set[str]:
    """What one function was seen to do, of what it may: that of any pipeline, or the app's."""
    owners = ["deadletter", *(f"deadletter-{pipeline['name']}" for pipeline in PIPELINES)]
    names = {f"{owner}-{function}" for owner in owners}
    return {call.action for call in sandbox.calls() if call.caller in names and call.allowed}


# Where a pipeline has an ordering key; those of the table have none.
ORDERED = {"consumer": {"dynamodb:Query", "dynamodb:DeleteItem"}, "route": {"dynamodb:Query"}}


def test_no_function_asks_for_more_than_it_is_granted(sandbox: Sandbox) -> None:
    """That each permission is used is shown by day: see `tests/infra/test_recorded_calls.py`."""
    more = {
        function: sorted(
            used(sandbox, function)
            - set().union(*GRANTED[function].values(), ORDERED.get(function, set()))
        )
        for function in GRANTED.keys() - NOT_COMPARED.keys()
    }
    assert {function: actions for function, actions in more.items() if actions} == {}
    denied = [
        call
        for call in sandbox.calls()
        if not call.allowed and call.caller.startswith("deadletter")
    ]
    assert denied == []


def test_the_routers_policy_with_the_partition_of_another_pipeline_is_refused(
    sandbox: Sandbox, aws: Callable[[str], Any], outputs: Mapping[str, str]
) -> None:
    iam, functions = aws("iam"), aws("lambda")
    router = functions.get_function_configuration(FunctionName="deadletter-orders-route")
    its_role = router["Role"].rpartition("/")[2]
    [policy] = iam.list_role_policies(RoleName=its_role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=its_role, PolicyName=policy)["PolicyDocument"]
    for statement in document["Statement"]:
        for condition in statement.get("Condition", {}).values():
            condition["dynamodb:LeadingKeys"] = [
                partition.replace("orders", "payments")
                for partition in condition["dynamodb:LeadingKeys"]
            ]
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": ACCOUNT}}
    role = iam.create_role(
        RoleName="misdirected",
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
    )["Role"]
    iam.put_role_policy(
        RoleName="misdirected", PolicyName="rows", PolicyDocument=json.dumps(document)
    )
    session = aws("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="misdirected")
    tables = sandbox.client("dynamodb", session["Credentials"])

    def read(partition: str) -> None:
        key = {"pk": {"S": partition}, "sk": {"S": "ledger"}}
        table = outputs["MessagesTableName"]
        tables.batch_get_item(RequestItems={table: {"Keys": [key]}})

    read("payments#ledger#x")
    with pytest.raises(ClientError, match="AccessDenied"):
        read("orders#ledger#x")


def test_without_one_permission_a_run_is_denied_and_the_letters_stay(
    sandbox: Sandbox, aws: Callable[[str], Any], orders: Deployed
) -> None:
    iam, functions = aws("iam"), aws("lambda")
    name = "deadletter-orders-route"
    role = functions.get_function_configuration(FunctionName=name)["Role"].rpartition("/")[2]
    [policy] = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    without = {
        **document,
        "Statement": [
            statement for statement in document["Statement"] if statement.get("Sid") != "Rules"
        ],
    }
    assert len(without["Statement"]) == len(document["Statement"]) - 1

    def put(what: dict[str, Any]) -> None:
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(what))

    rules = itertools.count(1)

    def denied() -> bool:
        # Routers go on with the rules that they have until one is edited.
        orders.add_rule("unreadable", tenantId="nobody", action="DEFAULT", ticket=str(next(rules)))
        question = {"letters": [{"id": "x", "body": "{}", "attributes": {}, "system": {}}]}
        answer = functions.invoke(FunctionName=name, Payload=json.dumps(question))
        named = b"AccessDeniedException for dynamodb:Query on"
        return "FunctionError" in answer and named in answer["Payload"].read()

    put(without)
    try:
        orders.until(denied, "the router can't read the rules")
    finally:
        put(document)
        orders.remove_rule("unreadable")
    assert any(
        (call.caller, call.action, call.allowed) == (name, "dynamodb:Query", False)
        for call in sandbox.calls()
    )


def test_dlq_status_names_the_action_that_stops_all_runs(orders: Deployed, tenant: str) -> None:
    orders.settle()
    orders.deny("redrive", rows(Partition.JOURNAL.of(orders.name)))
    orders.send(event(tenant), "Dlq")
    try:
        denied = "AccessDeniedException for dynamodb:Query on"
        orders.redrive_until(lambda report: denied in report.get("trouble", ""), "a run is denied")
        orders.age_the_last_run(LONG_AGO)

        def stalled() -> str:
            [shown] = orders.dlq("status", "--pipeline", orders.name)["pipelines"]
            return " ".join(seen["says"] for seen in shown["seen"])

        orders.until(lambda: denied in stalled(), "the command line names the action")
    finally:
        orders.permit("redrive")
    orders.redrive_until(lambda report: report["decisions"].get("REDRIVE"), "the letter goes back")


def names(aws: Callable[[str], Any], service: str, operation: str, member: str) -> set[str]:
    """What the app has deployed of a kind, by the words behind app and pipeline."""
    name = {"Functions": "FunctionName", "stateMachines": "name", "MetricAlarms": "AlarmName"}
    owners = ["deadletter", *(f"deadletter-{pipeline['name']}" for pipeline in PIPELINES)]
    owners.append(f"deadletter-{stranger.PIPELINE}")
    found = set()
    for page in aws(service).get_paginator(operation).paginate():
        for each in page[member]:
            owner = max((o for o in owners if each[name[member]].startswith(f"{o}-")), default="")
            found |= {each[name[member]].removeprefix(f"{owner}-")} if owner else set()
    return found


def test_each_part_of_the_app_is_in_a_case_of_the_day(
    orders: Deployed,
    aws: Callable[[str], Any],
    outputs: Mapping[str, str],
    request: pytest.FixtureRequest,
) -> None:
    """The table says so, and each was seen at work."""
    table = [covered for _, _, covered in rows_of_the_day()]
    assert len(table) <= MOST
    texts = {file: (HERE / f"{file}.py").read_text() for file, _, _ in rows_of_the_day()}
    cases = [(file, case.partition("[")[0]) for file, case, _ in rows_of_the_day()]
    # A case under another name would be played at night alone, and the rest of this skipped.
    assert [case for file, case in cases if f"def test_{case}(" not in texts[file]] == []
    functions = names(aws, "lambda", "list_functions", "Functions")
    assert functions == {name for covered in table for name in covered.functions}
    machines = names(aws, "stepfunctions", "list_state_machines", "stateMachines")
    assert machines == {name for covered in table for name in covered.machines}
    alarms = names(aws, "cloudwatch", "describe_alarms", "MetricAlarms")
    assert alarms == {name for covered in table for name in covered.alarms}
    assert any(covered.commands for covered in table)
    if not whole_day(request):
        pytest.skip("only a whole day has all of it at work")
    assert {name for name in functions if not orders.invoked(name)} == set()
    ran = {
        machine["name"].rpartition("deadletter-")[2].partition("-")[2]
        for page in aws("stepfunctions").get_paginator("list_state_machines").paginate()
        for machine in page["stateMachines"]
        if aws("stepfunctions").list_executions(
            stateMachineArn=machine["stateMachineArn"], statusFilter="SUCCEEDED"
        )["executions"]
    }
    assert machines <= ran
