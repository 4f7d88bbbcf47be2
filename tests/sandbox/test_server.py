"""The emulator comes up closed to strangers, behaves as corrected, and leaves nothing behind."""

import contextlib
import io
import json
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, SSLError

from sandbox.calls import Call
from sandbox.emulator import MAX_INVOCATION_BYTES
from sandbox.progress import STANDSTILL_SECONDS, until
from sandbox.server import ACCOUNT, REGION, ROOT, Sandbox, SandboxError

# Holds a connection open and never returns: a busy worker.
BUSY = """
import socket
def handler(event, context):
    with socket.create_connection(("127.0.0.1", event)) as held:
        held.recv(1)
"""

COUNTING = """
import json
def handler(event, context):
    print(json.dumps({"_aws": {"CloudWatchMetrics": [{"Namespace": "Try", "Dimensions": [[]],
        "Metrics": [{"Name": "Handled"}]}]}, "Handled": 7}))
"""

# Sends as itself, and tells who a message that it is given came from.
ECHO = """
import boto3, socket
def handler(event, context):
    for record in event.get("Records", []):
        with socket.create_connection(("127.0.0.1", int(record["body"]))) as listener:
            listener.sendall(record["attributes"]["SenderId"].encode())
    if "queue" in event:
        boto3.client("sqs").send_message_batch(
            QueueUrl=event["queue"], Entries=[{"Id": "1", "MessageBody": event["body"]}]
        )
"""

READING = """
import boto3
def handler(event, context):
    found = boto3.client("ssm").get_parameters_by_path(Path=event)["Parameters"]
    return [parameter["Name"] for parameter in found]
"""

NAMING = """
import boto3
def handler(event, context):
    found = boto3.client("ssm").get_parameters(Names=event)["Parameters"]
    return [parameter["Name"] for parameter in found]
"""

PAUSING = """
import boto3
def handler(event, context):
    boto3.client("lambda").get_event_source_mapping(UUID=event)
    changed = boto3.client("lambda").update_event_source_mapping(UUID=event, Enabled=False)
    return changed["State"]
"""

TOUCHING = """
import boto3
def handler(event, context):
    getattr(boto3.client("dynamodb"), event["call"])(**event["request"])
"""

# Seconds without a word from the other side after which there will be none.
PATIENCE_SECONDS = STANDSTILL_SECONDS


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        yield running


def make_function(sandbox: Sandbox, name: str, code: str) -> Any:
    """Create a function and return the client to invoke it with."""
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}}
    role = sandbox.client("iam").create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [trust | {"Action": "sts:AssumeRole"}]}
        ),
    )
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("index.py", code)
    functions = sandbox.client("lambda")
    functions.create_function(
        FunctionName=name,
        Runtime="python3.11",
        Role=role["Role"]["Arn"],
        Handler="index.handler",
        Code={"ZipFile": archive.getvalue()},
        Timeout=900,
    )
    return functions


def occupy_worker(sandbox: Sandbox) -> socket.socket:
    """Keep a function's worker busy; the connection returned ends when the worker does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        make_function(sandbox, "busy", BUSY).invoke(
            FunctionName="busy",
            InvocationType="Event",
            Payload=json.dumps(listener.getsockname()[1]),
        )["Payload"].close()
        connection, _ = listener.accept()
    connection.settimeout(PATIENCE_SECONDS)
    return connection


def total(sandbox: Sandbox, namespace: str, name: str, dimensions: dict[str, str]) -> float:
    """Sum up what a metric has counted so far."""
    answer = sandbox.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=name,
        Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
        StartTime=time.time() - 3600,
        EndTime=time.time() + 60,
        Period=86400,
        Statistics=["Sum"],
    )
    return float(sum(point["Sum"] for point in answer["Datapoints"]))


def wait_for_the_end(connection: socket.socket) -> None:
    """Return when the other side is gone; raise TimeoutError if it stays."""
    with contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def test_root_is_let_in_and_a_stranger_is_not(sandbox: Sandbox):
    assert sandbox.client("sts").get_caller_identity()["Arn"].endswith(":root")
    stranger = boto3.client(
        "sqs",
        endpoint_url=sandbox.endpoint,
        verify=sandbox.environment["AWS_CA_BUNDLE"],
        region_name=REGION,
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="none",
    )
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        stranger.list_queues()


def test_its_certificate_convinces_only_those_who_were_given_it(sandbox: Sandbox):
    other = boto3.client(
        "sqs",
        endpoint_url=sandbox.endpoint,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"max_attempts": 0}),
    )
    with pytest.raises(SSLError):
        other.list_queues()


def test_an_alarm_looks_at_its_own_queue_and_at_missing_data(sandbox: Sandbox):
    cloudwatch = sandbox.client("cloudwatch")
    for queue, silence in (("busy", "missing"), ("idle", "missing"), ("mute", "breaching")):
        cloudwatch.put_metric_alarm(
            AlarmName=queue,
            Namespace="AWS/SQS",
            MetricName="ApproximateAgeOfOldestMessage",
            Dimensions=[{"Name": "QueueName", "Value": queue}],
            Statistic="Maximum",
            Period=60,
            EvaluationPeriods=1,
            Threshold=10,
            ComparisonOperator="GreaterThanThreshold",
            TreatMissingData=silence,
        )
    cloudwatch.put_metric_data(
        Namespace="AWS/SQS",
        MetricData=[
            {
                "MetricName": "ApproximateAgeOfOldestMessage",
                "Dimensions": [{"Name": "QueueName", "Value": "busy"}],
                "Value": 50,
            }
        ],
    )
    alarms = cloudwatch.describe_alarms()["MetricAlarms"]
    assert {alarm["AlarmName"]: alarm["StateValue"] for alarm in alarms} == {
        "busy": "ALARM",
        "idle": "INSUFFICIENT_DATA",
        "mute": "ALARM",
    }


def test_a_run_publishes_its_embedded_metrics_and_counts_once(sandbox: Sandbox):
    functions = make_function(sandbox, "counting", COUNTING)
    functions.invoke(FunctionName="counting", Payload=b"{}")["Payload"].read()
    assert total(sandbox, "Try", "Handled", {}) == 7
    assert total(sandbox, "AWS/Lambda", "Invocations", {"FunctionName": "counting"}) == 1


def test_a_function_throttled_to_0_is_not_invoked_and_counts_each_refusal(sandbox: Sandbox):
    functions = make_function(sandbox, "throttled", COUNTING)
    # Without the client's own retries, which take ten seconds.
    once = boto3.client(
        "lambda",
        endpoint_url=sandbox.endpoint,
        verify=sandbox.environment["AWS_CA_BUNDLE"],
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"max_attempts": 0}),
    )
    function = {"FunctionName": "throttled"}
    functions.put_function_concurrency(**function, ReservedConcurrentExecutions=0)

    def throttles() -> float:
        return total(sandbox, "AWS/Lambda", "Throttles", function)

    with (
        contextlib.closing(once),
        pytest.raises(once.exceptions.TooManyRequestsException) as refusal,
    ):
        once.invoke(**function, Payload=b"{}")
    reason = "ReservedFunctionConcurrentInvocationLimitExceeded"
    assert refusal.value.response["Reason"] == reason
    assert throttles() == 1

    # Asynchronously, as schedules and rules do: accepted, and refused behind the scenes.
    functions.put_function_event_invoke_config(**function, MaximumRetryAttempts=0)
    answer = functions.invoke(**function, InvocationType="Event", Payload=b"{}")
    assert (answer["StatusCode"], answer["Payload"].read()) == (202, b"")
    until(lambda: throttles() == 2, "the event is refused")

    queues = sandbox.client("sqs")
    url = queues.create_queue(QueueName="throttled")["QueueUrl"]
    functions.create_event_source_mapping(
        **function, EventSourceArn=f"arn:aws:sqs:{REGION}:{ACCOUNT}:throttled"
    )
    queues.send_message(QueueUrl=url, MessageBody="{}")
    until(lambda: throttles() == 3, "the batch is refused")
    [message] = sandbox.queues()["throttled"]
    assert message["ReceiveCount"] == 1

    assert total(sandbox, "AWS/Lambda", "Invocations", function) == 0
    functions.delete_function_concurrency(**function)
    # An answer that is not read keeps its connection open for ever.
    functions.invoke(**function, Payload=b"{}")["Payload"].read()
    assert total(sandbox, "AWS/Lambda", "Invocations", function) == 1


def test_a_function_sends_as_its_role_and_only_what_the_role_may(sandbox: Sandbox):
    functions = make_function(sandbox, "echo", ECHO)
    queues, roles = sandbox.client("sqs"), sandbox.client("iam")
    url = queues.create_queue(QueueName="echo")["QueueUrl"]
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:echo"
    functions.create_event_source_mapping(FunctionName="echo", EventSourceArn=arn)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        order = json.dumps({"queue": url, "body": str(listener.getsockname()[1])})

        denied = functions.invoke(FunctionName="echo", Payload=order)
        assert "AccessDenied" in json.load(denied["Payload"])["errorMessage"]

        # There is no permission for batches: this one covers them.
        send = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": arn}
        roles.put_role_policy(
            RoleName="echo",
            PolicyName="send",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [send]}),
        )
        answer = functions.invoke(FunctionName="echo", Payload=order)
        assert "FunctionError" not in answer, answer["Payload"].read()
        answer["Payload"].close()
        delivered, _ = listener.accept()
        with delivered, delivered.makefile() as told:
            sender = told.read()
    assert sender == f"{roles.get_role(RoleName='echo')['Role']['RoleId']}:echo"
    # Both times were recorded; root's calls are nobody's permissions.
    assert {call for call in sandbox.calls() if call.caller == "echo"} == {
        Call("echo", "sqs:SendMessage", arn, allowed=False),
        Call("echo", "sqs:SendMessage", arn, allowed=True),
    }


def test_a_function_reads_the_folder_of_parameters_that_its_role_names(sandbox: Sandbox):
    functions = make_function(sandbox, "reading", READING)
    for name in ("/open/one", "/closed/one"):
        sandbox.client("ssm").put_parameter(Name=name, Value="x", Type="String")
    read = {
        "Effect": "Allow",
        "Action": "ssm:GetParametersByPath",
        "Resource": f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/open",
    }
    sandbox.client("iam").put_role_policy(
        RoleName="reading",
        PolicyName="read",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [read]}),
    )
    found = functions.invoke(FunctionName="reading", Payload=json.dumps("/open"))
    assert json.load(found["Payload"]) == ["/open/one"]
    denied = functions.invoke(FunctionName="reading", Payload=json.dumps("/closed"))
    assert "AccessDenied" in json.load(denied["Payload"])["errorMessage"]


def test_a_function_reads_several_parameters_if_its_role_names_each(sandbox: Sandbox):
    functions = make_function(sandbox, "naming", NAMING)
    for name in ("/mine/one", "/mine/two", "/theirs/one"):
        sandbox.client("ssm").put_parameter(Name=name, Value="x", Type="String")
    home = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter"
    read = {
        "Effect": "Allow",
        "Action": "ssm:GetParameters",
        "Resource": [f"{home}/mine/one", f"{home}/mine/two"],
    }
    sandbox.client("iam").put_role_policy(
        RoleName="naming",
        PolicyName="read",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [read]}),
    )
    both = json.dumps(["/mine/one", "/mine/two"])
    found = functions.invoke(FunctionName="naming", Payload=both)
    assert sorted(json.load(found["Payload"])) == ["/mine/one", "/mine/two"]
    denied = functions.invoke(
        FunctionName="naming", Payload=json.dumps(["/mine/one", "/theirs/one"])
    )
    assert "AccessDenied" in json.load(denied["Payload"])["errorMessage"]


def test_a_function_changes_the_mappings_of_the_function_that_its_role_names(sandbox: Sandbox):
    functions = make_function(sandbox, "pausing", PAUSING)
    make_function(sandbox, "other", PAUSING)
    home = f"arn:aws:lambda:{REGION}:{ACCOUNT}"
    named = f"{home}:function:pausing"
    change = {
        "Effect": "Allow",
        "Action": ["lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping"],
        "Resource": f"{home}:event-source-mapping:*",
        "Condition": {"ArnEquals": {"lambda:FunctionArn": named}},
    }
    sandbox.client("iam").put_role_policy(
        RoleName="pausing",
        PolicyName="pause",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [change]}),
    )
    said = {}
    for function in ("pausing", "other"):
        url = sandbox.client("sqs").create_queue(QueueName=f"of-{function}")["QueueUrl"]
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{url.rpartition('/')[2]}"
        made = functions.create_event_source_mapping(FunctionName=function, EventSourceArn=arn)
        answer = functions.invoke(FunctionName="pausing", Payload=json.dumps(made["UUID"]))
        said[function] = json.load(answer["Payload"])
        functions.delete_event_source_mapping(UUID=made["UUID"])
    assert said["pausing"] == "Disabled"
    assert "AccessDenied" in said["other"]["errorMessage"]
    assert {
        (call.action, call.allowed) for call in sandbox.calls() if call.caller == "pausing"
    } == {
        ("lambda:GetEventSourceMapping", True),
        ("lambda:UpdateEventSourceMapping", True),
        ("lambda:GetEventSourceMapping", False),
    }


ALLOWED, OTHER = ({"pk": {"S": f"{pipeline}#ledger"}, "sk": {"S": "1"}} for pipeline in "ab")


def of_rows(key: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every call on the rows of one partition, by the name of the client's method."""
    query = {
        "KeyConditionExpression": "#p = :p",
        "ExpressionAttributeNames": {"#p": "pk"},
        "ExpressionAttributeValues": {":p": key["pk"]},
    }
    lane = {**query, "IndexName": "lanes", "ExpressionAttributeNames": {"#p": "lane"}}
    transacted = [{"Put": {"TableName": "rows", "Item": key}}]
    on_the_table = {
        "get_item": {"Key": key},
        "put_item": {"Item": key},
        "update_item": {
            "Key": key,
            "UpdateExpression": "SET x = :x",
            "ExpressionAttributeValues": {":x": {"N": "1"}},
        },
        "delete_item": {"Key": key},
        "query": query,
        "query an index": lane,
    }
    return {
        **{call: {"TableName": "rows", **request} for call, request in on_the_table.items()},
        "batch_get_item": {"RequestItems": {"rows": {"Keys": [key]}}},
        "batch_write_item": {"RequestItems": {"rows": [{"PutRequest": {"Item": key}}]}},
        "transact_write_items": {"TransactItems": transacted},
    }


def test_a_function_touches_the_rows_that_its_role_names_and_no_others(sandbox: Sandbox):
    functions, tables = make_function(sandbox, "touching", TOUCHING), sandbox.client("dynamodb")
    tables.create_table(
        TableName="rows",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "lane")
        ],
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "lanes",
                "KeySchema": [{"AttributeName": "lane", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    )
    rows = {
        "Effect": "Allow",
        "Action": "dynamodb:*",
        "Resource": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/rows*",
        "Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["a#*"]}},
    }
    sandbox.client("iam").put_role_policy(
        RoleName="touching",
        PolicyName="rows",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [rows]}),
    )

    def answer(call: str, request: dict[str, Any]) -> str:
        event = {"call": call.partition(" ")[0], "request": request}
        said = functions.invoke(FunctionName="touching", Payload=json.dumps(event))
        error = json.load(said["Payload"])
        return "allowed" if error is None else error["errorMessage"]

    allowed = {call: answer(call, request) for call, request in of_rows(ALLOWED).items()}
    assert allowed == dict.fromkeys(allowed, "allowed")
    others = {call: answer(call, request) for call, request in of_rows(OTHER).items()}
    assert {call for call, said in others.items() if "AccessDenied" in said} == others.keys()
    both = {"RequestItems": {"rows": {"Keys": [ALLOWED, OTHER]}}}
    assert "AccessDenied" in answer("batch_get_item", both)
    # It names no partition, so on AWS, too, such a condition lets it through.
    assert answer("scan", {"TableName": "rows"}) == "allowed"


def client_of(sandbox: Sandbox, service: str, role: str, session: str) -> Any:
    """A client in a role that anybody in the account may take on."""
    arn = f"arn:aws:iam::{ACCOUNT}:role/{role}"
    taken = sandbox.client("sts").assume_role(RoleArn=arn, RoleSessionName=session)
    return boto3.client(
        service,
        REGION,
        aws_access_key_id=taken["Credentials"]["AccessKeyId"],
        aws_secret_access_key=taken["Credentials"]["SecretAccessKey"],
        aws_session_token=taken["Credentials"]["SessionToken"],
        endpoint_url=sandbox.endpoint,
        verify=sandbox.environment["AWS_CA_BUNDLE"],
    )


def test_a_queue_under_a_customers_key_is_for_those_who_may_use_the_key_through_sqs(
    sandbox: Sandbox,
):
    queues, keys, iam = (sandbox.client(service) for service in ("sqs", "kms", "iam"))
    root = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}}
    lets_iam_decide = {**root, "Action": "kms:*", "Resource": "*"}
    open_policy = json.dumps({"Version": "2012-10-17", "Statement": [lets_iam_decide]})
    key, other = (keys.create_key(Policy=open_policy)["KeyMetadata"]["Arn"] for _ in range(2))
    shows_at_once = {"VisibilityTimeout": "0"}
    dlq = queues.create_queue(
        QueueName="keyed-dlq", Attributes={"KmsMasterKeyId": other, **shows_at_once}
    )
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:keyed"
    redrive = {"deadLetterTargetArn": f"{arn}-dlq", "maxReceiveCount": 1}
    main = queues.create_queue(
        QueueName="keyed",
        Attributes={
            "KmsMasterKeyId": key.rpartition("/")[2],
            "RedrivePolicy": json.dumps(redrive),
            **shows_at_once,
        },
    )
    trust = {"Version": "2012-10-17", "Statement": [{**root, "Action": "sts:AssumeRole"}]}
    iam.create_role(RoleName="keyed", AssumeRolePolicyDocument=json.dumps(trust))
    caller = client_of(sandbox, "sqs", "keyed", "tries")

    def refused(call: Any, **asked: str) -> bool:
        try:
            call(**asked)
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return (error.response["Error"]["Code"], status) == ("KMS.AccessDeniedException", 400)
        return False

    def allowed(*actions: str, at: str = key, via: str = f"sqs.{REGION}.amazonaws.com") -> str:
        """What a role may do that may use the queues, and such keys so."""
        through = {"StringEquals": {"kms:ViaService": via}}
        use = {"Effect": "Allow", "Action": actions, "Resource": at, "Condition": through}
        said = [{"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}, use]
        document = json.dumps({"Version": "2012-10-17", "Statement": said})
        iam.put_role_policy(RoleName="keyed", PolicyName="own", PolicyDocument=document)
        calls = {
            "send": (caller.send_message, {"QueueUrl": main["QueueUrl"], "MessageBody": "a"}),
            "receive": (caller.receive_message, {"QueueUrl": main["QueueUrl"]}),
            "letter": (caller.receive_message, {"QueueUrl": dlq["QueueUrl"]}),
        }
        return " ".join(name for name, (call, asked) in calls.items() if not refused(call, **asked))

    sends = ("kms:GenerateDataKey", "kms:Decrypt")
    assert allowed("kms:DescribeKey") == ""
    assert allowed("kms:Decrypt", at=other) == "letter"
    assert allowed("kms:GenerateDataKey") == ""
    assert allowed("kms:Decrypt") == "receive"
    assert allowed(*sends, via=f"s3.{REGION}.amazonaws.com") == ""
    assert allowed(*sends) == "send receive"
    # Its one receive is used up: SQS moves the message, which stays under its key.
    queues.receive_message(QueueUrl=main["QueueUrl"])
    assert allowed("kms:Decrypt", at=other) == ""
    assert allowed("kms:Decrypt", at="*") == "receive letter"
    # The policy of the key has a say of its own.
    closed = {**lets_iam_decide, "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/admin"}}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [closed]})
    keys.put_key_policy(KeyId=key, PolicyName="default", Policy=policy)
    assert allowed(*sends, at="*") == ""
    assert queues.receive_message(QueueUrl=dlq["QueueUrl"])["Messages"][0]["Body"] == "a"


def test_a_condition_may_name_the_caller(sandbox: Sandbox):
    tables, iam = sandbox.client("dynamodb"), sandbox.client("iam")
    tables.create_table(
        TableName="signed",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    root = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    trust = {"Effect": "Allow", "Principal": root, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName="signs", AssumeRolePolicyDocument=document)["Role"]
    own = {
        "Effect": "Allow",
        "Action": "dynamodb:PutItem",
        "Resource": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/signed",
        "Condition": {
            "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["by#${aws:userid}"]},
        },
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [own]})
    iam.put_role_policy(RoleName="signs", PolicyName="own", PolicyDocument=policy)

    def put(session: str, partition: str) -> None:
        client = client_of(sandbox, "dynamodb", "signs", session)
        client.put_item(TableName="signed", Item={"pk": {"S": partition}})

    put("ann", f"by#{role['RoleId']}:ann")
    for partition in (f"by#{role['RoleId']}:bob", "by#${aws:userid}", "by#"):
        with pytest.raises(ClientError, match="AccessDenied"):
            put("ann", partition)


TABLE = {
    "Type": "AWS::DynamoDB::Table",
    "Properties": {
        "TableName": "notes",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
        "DeletionProtectionEnabled": True,
    },
}


def test_a_stack_neither_makes_a_table_that_is_there_nor_deletes_a_protected_one(sandbox: Sandbox):
    stacks, tables = sandbox.client("cloudformation"), sandbox.client("dynamodb")

    def ends(name: str, status: str, **resource: str) -> str:
        """Create a stack with the table; why it came to this end."""
        template = json.dumps({"Resources": {"Notes": {**TABLE, **resource}}})
        stacks.create_stack(StackName=name, TemplateBody=template)
        return reason(name, status)

    def reason(name: str, status: str) -> str:
        def ended() -> bool:
            return stacks.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"] == status

        until(ended, f"the stack {name} is {status}")
        events = stacks.describe_stack_events(StackName=name)["StackEvents"]
        return " ".join(str(event.get("ResourceStatusReason")) for event in events)

    ends("first", "CREATE_COMPLETE")
    tables.put_item(TableName="notes", Item={"pk": {"S": "kept"}})
    said = ends("second", "ROLLBACK_COMPLETE", DeletionPolicy="Retain")
    assert "'AWS::DynamoDB::Table' with identifier 'notes' already exists" in said
    stacks.delete_stack(StackName="first")
    assert "protected against deletion" in reason("first", "DELETE_FAILED")
    assert tables.scan(TableName="notes")["Items"] == [{"pk": {"S": "kept"}}]
    tables.update_table(TableName="notes", DeletionProtectionEnabled=False)
    stacks.delete_stack(StackName="first")
    until(lambda: "notes" not in tables.list_tables()["TableNames"], "the table is deleted")


def test_a_change_set_that_reverts_drift_makes_a_deleted_schedule_again(sandbox: Sandbox):
    stacks, schedules = sandbox.client("cloudformation"), sandbox.client("scheduler")
    schedule = {
        "Name": "each-minute",
        "ScheduleExpression": "rate(1 minute)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {
            "Arn": "arn:aws:lambda:us-east-1:000000000000:function:f",
            "RoleArn": "arn:aws:iam::000000000000:role/r",
        },
    }
    resources = {"Schedule": {"Type": "AWS::Scheduler::Schedule", "Properties": schedule}}
    template = json.dumps({"Resources": resources})

    def ended(status: str) -> Callable[[], bool]:
        return lambda: (
            stacks.describe_stacks(StackName="kept")["Stacks"][0]["StackStatus"] == status
        )

    def change_set(name: str, **how: str) -> str:
        """Make one of the same template; its status."""
        stacks.create_change_set(StackName="kept", ChangeSetName=name, TemplateBody=template, **how)
        made = stacks.describe_change_set(StackName="kept", ChangeSetName=name)
        return str(made["Status"])

    stacks.create_stack(StackName="kept", TemplateBody=template)
    until(ended("CREATE_COMPLETE"), "the stack is created")
    assert change_set("nothing-drifted", DeploymentMode="REVERT_DRIFT") == "FAILED"
    schedules.delete_schedule(Name="each-minute")
    assert change_set("template-alone") == "FAILED"
    assert change_set("drift-too", DeploymentMode="REVERT_DRIFT") == "CREATE_COMPLETE"
    stacks.execute_change_set(StackName="kept", ChangeSetName="drift-too")
    until(ended("UPDATE_COMPLETE"), "the stack is updated")
    assert schedules.get_schedule(Name="each-minute")["ScheduleExpression"] == "rate(1 minute)"


def test_an_invocation_larger_than_lambda_takes_is_refused(sandbox: Sandbox):
    functions = sandbox.client("lambda")
    with pytest.raises(functions.exceptions.RequestTooLargeException):
        functions.invoke(FunctionName="any", Payload=b" " * (MAX_INVOCATION_BYTES + 1))


def test_leaving_ends_busy_workers_and_removes_the_state(tmp_path: Path):
    with Sandbox(tmp_path) as sandbox:
        state = Path(sandbox.environment["AWS_CA_BUNDLE"]).parent
        worker = occupy_worker(sandbox)
    with worker:
        wait_for_the_end(worker)
    assert not state.exists()


def test_the_emulator_dies_with_the_process_that_started_it(tmp_path: Path):
    program = (
        "import sys; from pathlib import Path; from sandbox.server import Sandbox\n"
        f"with Sandbox(Path({str(tmp_path)!r}), secure=False) as sandbox:\n"
        "    print(sandbox.endpoint, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        port = int(starter.stdout.readline().rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as emulator:
            starter.kill()
            wait_for_the_end(emulator)


def test_the_time_of_sqs_stands_still_until_it_is_told_to_pass(tmp_path: Path):
    with Sandbox(tmp_path, still=True) as sandbox:
        queues, before = sandbox.client("sqs"), sandbox.advance(0)
        url = queues.create_queue(QueueName="still")["QueueUrl"]
        queues.send_message(QueueUrl=url, MessageBody="{}", DelaySeconds=900)
        assert sandbox.advance(899) == before + 899
        assert "Messages" not in queues.receive_message(QueueUrl=url)
        sandbox.advance(1)
        assert len(queues.receive_message(QueueUrl=url)["Messages"]) == 1


def test_an_emulator_that_cannot_start_is_reported_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sandbox.server.sys.executable", "/bin/ls")
    with pytest.raises(SandboxError, match=r"sandbox\.emulator"), Sandbox(tmp_path):
        pass
