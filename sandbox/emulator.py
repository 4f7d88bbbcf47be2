"""The emulator's own process: MiniStack behind Hypercorn, on a socket it inherits.

`sandbox.server` starts it as ``python -m sandbox.emulator [OPTION...] FD [CERTIFICATE KEY]``.
With ``--still`` the time of SQS stands still until seconds are posted to CLOCK_PATH. With a
`sandbox.fast_clock` in its environment it lives by that, and minutes have sixty seconds. Calls
that match a fault posted to FAULTS_PATH fail (`sandbox.faults`).
It ends, with the worker processes of its Lambda functions, as soon as its
standard input closes: whatever befalls the process that started it, nothing is
left behind.

MiniStack is corrected where it would show a wrong picture of this app: alarms look at their own
dimensions and at missing data, metrics embedded in log lines become metrics, alarms and the watch
have minutes of six seconds, an invocation counts in AWS/Lambda however it came about, so does a
throttle, a mapping receives for a throttled function, a batch to SQS, parameters and one event
source mapping need the permission that IAM knows, a DynamoDB request names its partitions to IAM
and PutMetricData its namespace, a message names its sender, a DLQ its sources, a queue under a
customer's key needs the key, a function sees the client context of its invocation, an invocation
of more than 6 MB is refused, the workers of a package share it, and CloudFormation neither makes
a table that is there already nor deletes a protected one, makes a deleted schedule again where a
change set reverts drift, and takes a saved query. Calls that are made in a role are recorded
(`sandbox.calls`). This reaches into MiniStack's private names, so read this file again before
pinning another version of it.
"""

import asyncio
import contextlib
import inspect
import json
import os
import shutil
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from ministack import app as ministack
from ministack.core import iam_actions, iam_evaluator, lambda_runtime, sigv4
from ministack.services import (
    cloudformation,
    cloudwatch,
    dynamodb,
    iam,
    kms,
    lambda_svc,
    scheduler,
    sqs,
    stepfunctions,
)
from ministack.services.cloudformation import changesets, handlers, helpers, provisioners

from deadletter.contract import NAMESPACE
from sandbox import alarms, calls, emf, fast_clock
from sandbox.faults import FAULTS_PATH, Faults, failing, with_its_status
from sandbox.leading_keys import leading_keys, named_attributes
from sandbox.packages import SharedPackage
from sandbox.queue_keys import QueueKeys, asking_for_keys
from sandbox.still_clock import CLOCK_PATH, StillClock

# Lambda quota "Invocation payload (request and response)", synchronous: 6 MB.
MAX_INVOCATION_BYTES = 6 * 1024 * 1024

STILL = StillClock()

FAULTS = Faults()

# Seconds of the machine between two looks of the mappings, where a minute lasts six.
POLL_SECONDS = 0.1

CLIENT_CONTEXT = "client_context"

# As the Python runtime of Lambda does: an object, whose members are mappings.
_READ_CLIENT_CONTEXT = f"""
            "client_context": (
                lambda text: type("ClientContext", (), {{
                    "custom": {{}}, "env": {{}},
                    **json.loads(__import__("base64").b64decode(text)),
                }})() if text else None
            )(_ms_durable.get("{CLIENT_CONTEXT}")),
"""


def stop_the_time_of_sqs() -> None:
    """Put STILL in the place of the clock that SQS reads and of the sleep of its long polls."""
    sqs.time = SimpleNamespace(time=STILL.time)
    sqs.asyncio = SimpleNamespace(sleep=STILL.sleep, iscoroutine=asyncio.iscoroutine)


def judge_alarms_by_their_own_metric(minute: float) -> None:
    """Put `alarms.judge` in the place of MiniStack's evaluation; `minute` is in seconds."""

    def evaluate(alarm: dict[str, Any]) -> None:
        if not alarm.get("MetricName"):
            return  # metric math or a composite: left to MiniStack

        def statistic(points: Sequence[alarms.Point]) -> float | None:
            if not points:
                return None
            name = alarm.get("ExtendedStatistic") or alarm["Statistic"]
            value: float | None = cloudwatch._stat_value(
                cloudwatch._calc_stats(points), name, points
            )
            return value

        dimensions = {pair["Name"]: pair["Value"] for pair in alarm["Dimensions"]}
        key = (alarm["Namespace"], alarm["MetricName"], cloudwatch._dims_key(dimensions))
        now = time.time()
        old = alarm["StateValue"]
        new = alarms.judge(
            alarm,
            cloudwatch._metrics.get(key) or [],
            statistic=statistic,
            now=now,
            minute=minute,
        )
        if new is None or new == old:
            return
        reason = f"{alarm['ComparisonOperator']} {alarm['Threshold']}"
        alarm |= {"StateValue": new, "StateReason": reason, "StateUpdatedTimestamp": int(now)}
        cloudwatch._record_history(alarm["AlarmName"], old, new, reason)
        cloudwatch._dispatch_alarm_actions(alarm, old, new, reason)
        cloudwatch._evaluate_parent_alarms(alarm)

    cloudwatch._evaluate_alarm = evaluate


def count_every_invocation(minute: float) -> None:
    """Publish AWS/Lambda and embedded metrics wherever MiniStack writes a function's log.

    A throttled invocation writes none: it counts as Throttles, and is no invocation.
    """
    take_slot = lambda_svc._acquire_execution_slot
    write_log, publish = lambda_svc._emit_lambda_logs, lambda_svc._emit_lambda_metrics

    def observe(
        function: dict[str, Any],
        request_id: str,
        log: str,
        error: bool,
        duration_ms: int,
        **source: Any,
    ) -> None:
        write_log(function, request_id, log, error, duration_ms, **source)
        name = (function.get("config") or function)["FunctionName"]
        publish(name, duration_ms, error=error, throttle=False)
        now = time.time()
        for point in emf.datapoints(log):
            dimensions = dict(point.dimensions)
            key = (point.namespace, point.name, cloudwatch._dims_key(dimensions))
            cloudwatch._metric_bucket(key).append(
                {
                    "Timestamp": now
                    if point.at is None
                    else alarms.short(point.at, now=now, minute=minute),
                    "Value": point.value,
                    "Unit": point.unit,
                    "Dimensions": dimensions,
                }
            )

    def take_slot_or_count(function: dict[str, Any], config: dict[str, Any]) -> Any:
        slot, limit = take_slot(function, config)
        if slot is None:
            name = {"FunctionName": config["FunctionName"]}
            cloudwatch.record_metric("AWS/Lambda", "Throttles", 1, "Count", name)
        return slot, limit

    lambda_svc._emit_lambda_logs = observe
    lambda_svc._acquire_execution_slot = take_slot_or_count
    # MiniStack calls this for the Invoke API and for what it throttles; both are counted above.
    lambda_svc._emit_lambda_metrics = lambda *_, **__: None


def put_metrics_in_short_minutes(minute: float) -> None:
    """Put our own figures, given their times, where their short minutes lie.

    The first heartbeat is written ahead of the watch, as lines of embedded metrics may be.
    """
    store = cloudwatch._store_datum

    def store_short(
        namespace: str, name: str, dimensions: dict[str, str], at: float, *value: Any
    ) -> None:
        if namespace == NAMESPACE:
            at = alarms.short(at, now=time.time(), minute=minute)
        store(namespace, name, dimensions, at, *value)

    cloudwatch._store_datum = store_short


def name_the_namespace() -> None:
    """Supply `cloudwatch:namespace` to conditions: where PutMetricData writes.

    MiniStack knows no condition keys of CloudWatch, so a role that is kept to one namespace
    could write nothing.
    """
    context_of = iam_actions.request_tag_context

    def context_with_namespace(
        service: str, action: str, body: bytes, *rest: Any
    ) -> dict[str, Any]:
        context: dict[str, Any] = context_of(service, action, body, *rest)
        if action != "cloudwatch:PutMetricData":
            return context
        # boto3 speaks JSON to CloudWatch. A malformed request is CloudWatch's to refuse.
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            return {**context, "cloudwatch:namespace": json.loads(body)["Namespace"]}
        return context

    iam_actions.request_tag_context = context_with_namespace


def receive_for_throttled_functions() -> None:
    """Let a mapping receive for a function that may not run, as Lambda's pollers do.

    MiniStack leaves the messages in the queue, where their receive counts stand still.
    """
    batches_at_once = lambda_svc._sqs_esm_concurrency
    lambda_svc._sqs_esm_concurrency = lambda *mapping: max(1, batches_at_once(*mapping))


def run_the_watch_each_short_minute() -> None:
    """Start the watch as often as alarms judge: it publishes what they look at, minute by minute.

    All other schedules keep the time of their expressions. MiniStack looks at them every ten
    seconds, which is longer than a short minute. Where a run takes longer than that, on a busy
    machine, the next one waits for it: else they would pile up.
    """
    tick, fired = scheduler._tick_schedules, scheduler._schedule_last_fired

    def tick_sooner() -> None:
        now = time.time()
        _, running = lambda_svc.executions_in_flight()
        for key, schedule in list(scheduler._schedules._data.items()):
            function = str((schedule.get("Target") or {}).get("Arn", "")).rpartition(":")[2]
            watch = function.endswith("-watch")
            if watch and any(name.endswith(f":{function}") for name in running):
                fired[key] = max(now - alarms.SHORT_MINUTE, fired.get(key, 0.0))
                continue
            last = fired.get(key, schedule.get("CreationDate", now))
            if watch and now - last >= alarms.SHORT_MINUTE:
                # MiniStack starts a schedule whose last start lies an interval back.
                fired[key] = now - alarms.MINUTE
        tick()

    scheduler._tick_schedules = tick_sooner
    scheduler._SCHEDULE_TICK_INTERVAL = 1


def wait_for_runs_under_way() -> None:
    """Start no run of a schedule while the one before is under way, or they would pile up.

    On a busy machine a run can take longer than the six seconds that a minute lasts.
    """
    tick, fired = scheduler._tick_schedules, scheduler._schedule_last_fired

    def tick_the_others() -> None:
        now = time.time()
        _, running = lambda_svc.executions_in_flight()
        for key, schedule in list(scheduler._schedules._data.items()):
            arn = str((schedule.get("Target") or {}).get("Arn", ""))
            if any(name.endswith(f":{arn.rpartition(':')[2]}") for name in running):
                # Due soon after it has ended, where it would have been due by then.
                fired[key] = max(now - alarms.MINUTE + 1, fired.get(key, 0.0))
        tick()

    scheduler._tick_schedules = tick_the_others
    scheduler._SCHEDULE_TICK_INTERVAL = 1


def permit_batches_as_iam_does() -> None:
    """Let sqs:SendMessage permit SendMessageBatch, and so on: IAM knows no batch actions."""
    named = iam_actions.extract_iam_action

    def rename(*request: Any) -> str | None:
        action: str | None = named(*request)
        return action.removesuffix("Batch") if action and action.startswith("sqs:") else action

    iam_actions.extract_iam_action = rename


def permit_parameters_as_iam_does() -> None:
    """Ask ssm:GetParametersByPath for its folder and ssm:GetParameters for each of its names.

    MiniStack asks both for everything, which a policy that names parameters never allows.
    """
    resource_of, enforce = iam_actions.extract_resource_arn, iam_evaluator.enforce

    def of_the_parameters(
        service: str, method: str, path: str, headers: Any, body: bytes, *rest: Any
    ) -> str:
        request = json.loads(body or b"{}") if service == "ssm" else {}
        _query, region, account = rest
        home = f"arn:aws:ssm:{region}:{account}:parameter"
        match request:
            case {"Path": str(folder)}:
                return f"{home}{folder}"
            case {"Names": [str(), *_] as names}:
                # No name of a parameter has a space.
                return " ".join(f"{home}/{str(name).removeprefix('/')}" for name in names)
        return str(resource_of(service, method, path, headers, body, *rest))

    def enforce_each(access_key: str, action: str, service: str, *call: Any, **more: Any) -> Any:
        resources = str(more.get("resource_arn", "*"))
        each = resources.split(" ") if service == "ssm" else [resources]
        for resource in each:
            more["resource_arn"] = resource
            if refused := enforce(access_key, action, service, *call, **more):
                return refused
        return None

    iam_actions.extract_resource_arn = of_the_parameters
    iam_evaluator.enforce = enforce_each


def permit_one_mapping_as_iam_does() -> None:
    """Ask for leave to see, change or delete an event source mapping, whose function is told.

    MiniStack takes a look at one for a list of all, and lets anybody change it.
    """
    named, enforce = iam_actions.extract_iam_action, iam_evaluator.enforce
    verbs = {"GET": "Get", "PUT": "Update", "DELETE": "Delete"}

    def name(service: str, method: str, path: str, *rest: Any) -> str | None:
        _, _, mapping_id = path.partition("/event-source-mappings/")
        if service == "lambda" and mapping_id and method in verbs:
            return f"lambda:{verbs[method]}EventSourceMapping"
        action: str | None = named(service, method, path, *rest)
        return action

    def enforce_with_function(*call: Any, **more: Any) -> Any:
        kind, _, mapping_id = str(more.get("resource_arn", "")).rpartition(":")
        is_mapping = kind.endswith(":event-source-mapping")
        mapping = lambda_svc._esms.get(mapping_id) if is_mapping else None
        if mapping:
            keys = {"lambda:FunctionArn": mapping["FunctionArn"]}
            more["service_context"] = {**(more.get("service_context") or {}), **keys}
        return enforce(*call, **more)

    iam_actions.extract_iam_action = name
    iam_evaluator.enforce = enforce_with_function


def permit_answers_as_iam_does() -> None:
    """Ask for leave to answer a waiting task of the machine that has it.

    MiniStack asks for everything, which a policy that names machines never allows.
    """
    execute, wait = stepfunctions._execute_task, stepfunctions._invoke_with_callback
    resource_of = iam_actions.extract_resource_arn
    executing: ContextVar[str] = ContextVar("executing", default="*")
    machines: dict[str, str] = {}

    def execute_of_machine(state: Any, data: Any, execution: Any, context: Any) -> Any:
        executing.set(context["StateMachine"]["Id"])
        return execute(state, data, execution, context)

    def wait_with_machine(resource: str, data: Any, token: str, *rest: Any) -> Any:
        machines[token] = executing.get()
        return wait(resource, data, token, *rest)

    def of_the_task(
        service: str, method: str, path: str, headers: Any, body: bytes, *rest: Any
    ) -> str:
        request = json.loads(body or b"{}") if service == "states" else {}
        if machine := machines.get(request.get("taskToken", "")):
            return machine
        return str(resource_of(service, method, path, headers, body, *rest))

    stepfunctions._execute_task = execute_of_machine
    stepfunctions._invoke_with_callback = wait_with_machine
    iam_actions.extract_resource_arn = of_the_task


def name_the_partitions() -> None:
    """Supply `dynamodb:LeadingKeys` and `dynamodb:Attributes` to conditions, as a request has them.

    MiniStack asks for each table and each action of a transaction by itself, and so each is
    given its own partitions.
    """
    context_of, enforce = iam_actions.dynamodb_service_context, iam_evaluator.enforce
    request_body = "sandbox:RequestBody"

    def context_with_body(body: bytes) -> dict[str, Any]:
        return {**context_of(body), request_body: body}

    def partition_key(table: str, index: str | None) -> str | None:
        described = dynamodb._tables.get(table.rpartition("/")[2]) or {}
        indexes = [
            *described.get("GlobalSecondaryIndexes", []),
            *described.get("LocalSecondaryIndexes", []),
        ]
        schemas = {None: described, **{known["IndexName"]: known for known in indexes}}
        return next(
            (
                str(key["AttributeName"])
                for key in schemas.get(index, {}).get("KeySchema", [])
                if key["KeyType"] == "HASH"
            ),
            None,
        )

    def of(touched: Mapping[tuple[str, str], list[str]], action: str, resource: str) -> list[str]:
        named = resource.partition(":table/")[2].partition("/")[0]
        for (asked, table), names in touched.items():
            if asked == action and table.rpartition("/")[2] == named:
                return names
        return []

    def touched_by(action: str, resource: str, body: bytes) -> dict[str, Any]:
        # A malformed request is DynamoDB's to refuse.
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            request = json.loads(body)
            keys = of(leading_keys(action, request, partition_key), action, resource)
            names = of(named_attributes(action, request), action, resource)
            reads = action in ("dynamodb:GetItem", "dynamodb:BatchGetItem")
            return {
                **({"dynamodb:LeadingKeys": keys} if keys else {}),
                **({"dynamodb:Attributes": names} if names else {}),
                **({"dynamodb:Select": "SPECIFIC_ATTRIBUTES"} if names and reads else {}),
            }
        return {}

    def enforce_with_partitions(access_key: str, action: str, *call: Any, **more: Any) -> Any:
        context = dict(more.get("service_context") or {})
        if (body := context.pop(request_body, None)) is not None:
            touched = touched_by(action, more.get("resource_arn", ""), body)
            more["service_context"] = {**context, **touched}
        return enforce(access_key, action, *call, **more)

    iam_actions.dynamodb_service_context = context_with_body
    iam_evaluator.enforce = enforce_with_partitions


def fill_in_the_caller() -> None:
    """Put the caller's unique id in the place of `${aws:userid}` in a condition, as IAM does."""
    met, variable = iam_evaluator._conditions_met, "${aws:userid}"

    def filled(expected: Any, user_id: str) -> Any:
        if isinstance(expected, list):
            return [filled(text, user_id) for text in expected]
        return expected.replace(variable, user_id) if isinstance(expected, str) else expected

    def met_by_the_caller(conditions: dict[str, Any], context: Any) -> Any:
        if variable in json.dumps(conditions):
            user_id = str(iam_evaluator._resolve_condition_key("aws:userid", context))
            conditions = {
                operator: {key: filled(expected, user_id) for key, expected in keys.items()}
                for operator, keys in conditions.items()
            }
        return met(conditions, context)

    iam_evaluator._conditions_met = met_by_the_caller


def name_the_sender() -> None:
    """Put into SenderId who sent: for a function its role's unique id and the session.

    MiniStack puts the account there, and again when a mapping delivers.
    """
    compose, deliver = sqs._build_send_sys_attrs, lambda_svc._dispatch_esm_batch

    def compose_with_sender(now: float, given: Any) -> dict[str, Any]:
        attributes: dict[str, Any] = compose(now, given)
        caller = iam_evaluator.caller_arn().split(":")[5].split("/")
        if caller[0] == "assumed-role":
            _, role, session = caller
            attributes["SenderId"] = f"{iam._roles[role]['RoleId']}:{session}"
        return attributes

    def deliver_with_sender(
        mapping: str, run: Any, record: Any, function: Any, event: Any, batch: Any, *queue: Any
    ) -> None:
        senders = {message["id"]: message["sys"]["SenderId"] for message in batch}
        for delivered in event["Records"]:
            delivered["attributes"]["SenderId"] = senders[delivered["messageId"]]
        deliver(mapping, run, record, function, event, batch, *queue)

    sqs._build_send_sys_attrs = compose_with_sender
    lambda_svc._dispatch_esm_batch = deliver_with_sender


def pass_the_client_context() -> None:
    """Give a Python function the client context of its invocation; MiniStack drops it.

    A probe says by it that an invocation is a canary.
    """
    given: ContextVar[str] = ContextVar("client_context", default="")
    invoke, run = lambda_svc._invoke, lambda_runtime.Worker.invoke

    async def invoke_with_context(name: str, event: Any, headers: Any, *more: Any) -> Any:
        lower = {key.lower(): value for key, value in headers.items()}
        given.set(lower.get("x-amz-client-context", ""))
        return await invoke(name, event, headers, *more)

    def run_with_context(worker: Any, *call: Any, durable: Any = None, **more: Any) -> Any:
        # The one part of the worker's envelope that a caller may add to.
        return run(worker, *call, durable={**(durable or {}), CLIENT_CONTEXT: given.get()}, **more)

    script = lambda_runtime._PYTHON_WORKER_SCRIPT
    nothing = '"client_context": None,'
    assert script.count(nothing) == 1
    lambda_runtime._PYTHON_WORKER_SCRIPT = script.replace(nothing, _READ_CLIENT_CONTEXT)
    lambda_svc._invoke = invoke_with_context
    lambda_runtime.Worker.invoke = run_with_context


def start_functions_as_lambda_does() -> None:
    """Tell Python functions how they were started; by that ours know that they run in Lambda.

    MiniStack also turns off host prefixes, which no call of ours has. On AWS nothing does, and
    with such a variable botocore finds the way for our functions.
    """
    started = (
        "import os\n"
        "os.environ['AWS_LAMBDA_INITIALIZATION_TYPE'] = 'on-demand'\n"
        f"os.environ.pop({lambda_runtime.HOST_PREFIX_ENV!r}, None)\n"
    )
    lambda_runtime._PYTHON_WORKER_SCRIPT = f"{started}{lambda_runtime._PYTHON_WORKER_SCRIPT}"


def record_calls() -> None:
    """Write down who calls what, where `sandbox.calls` reads it."""
    recorder = calls.Recorder(Path(os.environ["TMPDIR"]) / calls.FILE)
    iam_evaluator.enforce = calls.recording(
        iam_evaluator.enforce, iam_evaluator.caller_arn, recorder
    )


def ask_for_keys_as_sqs_does() -> None:
    """Let nobody use a queue under a customer's key who may not use the key through SQS."""

    def key(queue: Mapping[str, Any]) -> str | None:
        named = str(queue["attributes"].get("KmsMasterKeyId", ""))
        # The key policies of AWS's own keys let all of the account in.
        if not named or named.startswith("alias/aws/"):
            return None
        known = kms._resolve_key(named)
        return str(known["Arn"]) if known else named

    def keys_of(arn: str) -> QueueKeys:
        queue = sqs._queue_by_arn(arn)
        if queue is None:
            return QueueKeys()
        sources = {message["sys"].get("DeadLetterQueueSourceArn") for message in queue["messages"]}
        moved = [
            key(source)
            for name in sorted(filter(None, sources))
            if (source := sqs._queue_by_arn(name))
        ]
        return QueueKeys(own=key(queue), moved=[found for found in moved if found])

    iam_evaluator.enforce = asking_for_keys(iam_evaluator.enforce, keys_of, iam_evaluator.AuthError)


def name_the_sources_of_a_dlq() -> None:
    """Answer ListDeadLetterSourceQueues, which MiniStack has not."""

    def sources(asked: Mapping[str, Any], _: str) -> Mapping[str, Any]:
        arn = sqs._get_q(asked["QueueUrl"])["attributes"]["QueueArn"]
        policies = {
            url: json.loads(queue["attributes"].get("RedrivePolicy") or "{}")
            for url, queue in sqs._queues.items()
        }
        named = [url for url, said in policies.items() if said.get("deadLetterTargetArn") == arn]
        return {"queueUrls": sqs._externalize_result({"QueueUrls": named})["QueueUrls"]}

    sqs._HANDLERS["ListDeadLetterSourceQueues"] = sources


def fail_as_told() -> None:
    """Let calls fail that a fault hits; IAM has allowed them, and the record says so."""
    iam_evaluator.enforce = failing(
        iam_evaluator.enforce,
        iam_evaluator.caller_arn,
        FAULTS,
        iam_evaluator.AuthError,
        cloudwatch.record_metric,
    )
    iam_actions.access_denied_response = with_its_status(iam_actions.access_denied_response, FAULTS)


def live_by_the_fast_clock() -> None:
    """Give this process and all functions the fast clock, and look for work oftener.

    What MiniStack reads of its functions' processes is paced by the machine's clock.
    """
    machine = SimpleNamespace(
        time=fast_clock._machine_time, sleep=fast_clock._machine_sleep, monotonic=time.monotonic
    )
    fast_clock.install()
    lambda_runtime.time = machine
    # Clients sign with the machine's time, and are told it: one that hears of another clock takes
    # each refusal for a matter of the clock, and tries again for half a minute.
    sigv4.request_time_failure = lambda *_, **__: None
    ministack.formatdate = lambda **how: formatdate(fast_clock._machine_time(), **how)
    clock = inspect.getsource(fast_clock) + "install()"
    script = lambda_runtime._PYTHON_WORKER_SCRIPT
    lambda_runtime._PYTHON_WORKER_SCRIPT = f"exec({clock!r}, {{}})\n{script}"
    # No clock moves this wait, by which mappings look at their queues.
    wait = lambda_svc._esm_wake.wait
    lambda_svc._esm_wake.wait = lambda seconds: wait(min(seconds, POLL_SECONDS))
    wait_for_runs_under_way()


async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Serve MiniStack, but refuse what Lambda refuses for its size."""
    if scope["type"] == "http" and scope["path"].endswith("/invocations"):
        size = int(dict(scope["headers"]).get(b"content-length", 0))
        if size > MAX_INVOCATION_BYTES:
            await _refuse_for_size(receive, send)
            return
    if scope["type"] == "http" and scope["path"] == CLOCK_PATH:
        STILL.now += float(await _body(receive) or 0)
        await _answer(send, 200, STILL.now)
        return
    if scope["type"] == "http" and scope["path"] == FAULTS_PATH:
        await _answer(send, 200, FAULTS.replace(await _body(receive)))
        return
    await ministack.app(scope, receive, send)


async def _refuse_for_size(receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    # A client that is still sending would see a broken connection instead of an answer.
    while (event := await receive())["type"] == "http.request" and event["more_body"]:
        pass
    limit = f"Request must be smaller than {MAX_INVOCATION_BYTES} bytes"
    error = (b"x-amzn-errortype", b"RequestTooLargeException")
    await _answer(send, 413, {"Type": "User", "message": limit}, error)


async def _body(receive: ASGIReceiveCallable) -> bytes:
    body = b""
    while (event := await receive())["type"] == "http.request":
        body += event["body"]
        if not event["more_body"]:
            break
    return body


async def _answer(
    send: ASGISendCallable, status: int, answer: Any, *headers: tuple[bytes, bytes]
) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", b"application/json"), *headers],
            "trailers": False,
        }
    )
    await send(
        {
            "type": "http.response.body",
            "body": json.dumps(answer).encode(),
            "more_body": False,
        }
    )


def keep_tables_as_cloudformation_does() -> None:
    """Refuse to make a table whose name is taken, and to delete one that is protected.

    MiniStack puts an empty table in the place of the old one, and asks for no protection.
    """
    of_tables = provisioners._RESOURCE_HANDLERS["AWS::DynamoDB::Table"]
    create, delete = of_tables["create"], of_tables["delete"]

    def create_new(logical_id: str, properties: Mapping[str, Any], stack: str) -> Any:
        name = properties.get("TableName")
        if name in dynamodb._tables:
            raise ValueError(
                f"Resource of type 'AWS::DynamoDB::Table' with identifier '{name}' already exists."
            )
        return create(logical_id, properties, stack)

    def delete_unprotected(name: str, properties: Mapping[str, Any]) -> Any:
        if dynamodb._tables.get(name, {}).get("DeletionProtectionEnabled"):
            raise ValueError(
                "Resource cannot be deleted as it is currently protected against deletion. "
                "Disable deletion protection first."
            )
        return delete(name, properties)

    of_tables |= {"create": create_new, "delete": delete_unprotected}


def accept_saved_queries() -> None:
    """Let a stack have saved queries of Logs Insights, which MiniStack has not."""

    def named(_: str, properties: Mapping[str, Any], __: str) -> Any:
        return properties["Name"], {}

    provisioners._RESOURCE_HANDLERS["AWS::Logs::QueryDefinition"] = {
        "create": named,
        "delete": lambda *_: None,
    }


def make_again_what_was_deleted() -> None:
    """Let a change set that reverts drift add each schedule of its stack that is there no more.

    MiniStack compares templates alone, as CloudFormation does by default: what a person deleted
    is no change.
    """
    create = changesets._create_change_set

    def create_change_set(params: Mapping[str, Sequence[str]]) -> Any:
        stack = cloudformation._stacks.get(_said(params, "StackName"))
        if stack and _said(params, "DeploymentMode") == "REVERT_DRIFT":
            for logical_id, record in [*stack["_resources"].items()]:
                is_schedule = record["ResourceType"] == "AWS::Scheduler::Schedule"
                if is_schedule and not _is_there(record):
                    del stack["_resources"][logical_id]
                    del stack["_template"]["Resources"][logical_id]
        return create(params)

    def _said(params: Mapping[str, Sequence[str]], name: str) -> str:
        said: str = helpers._p(params, name)
        return said

    def _is_there(record: Mapping[str, Any]) -> bool:
        group = record["Properties"].get("GroupName", "default")
        return f"{group}/{record['PhysicalResourceId']}" in scheduler._schedules

    handlers._ACTION_HANDLERS["CreateChangeSet"] = create_change_set


def unpack_packages_once() -> None:
    """Put SharedPackage in the place of the zip files that MiniStack's workers unpack."""
    lambda_runtime.zipfile = SimpleNamespace(**{**vars(zipfile), "ZipFile": SharedPackage})


def end_with_parent() -> None:
    """Wait until standard input closes, then end this whole process group."""
    sys.stdin.buffer.read()
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def main(*arguments: str) -> None:
    options = {argument for argument in arguments if argument.startswith("--")}
    socket, *certificate_and_key = arguments[len(options) :]
    fast = fast_clock.VARIABLE in os.environ
    minute = alarms.MINUTE if fast else alarms.SHORT_MINUTE
    threading.Thread(target=end_with_parent, daemon=True).start()
    if fast:
        live_by_the_fast_clock()
    judge_alarms_by_their_own_metric(minute)
    count_every_invocation(minute)
    if minute < alarms.MINUTE:
        run_the_watch_each_short_minute()
        put_metrics_in_short_minutes(minute)
    receive_for_throttled_functions()
    permit_batches_as_iam_does()
    permit_parameters_as_iam_does()
    permit_one_mapping_as_iam_does()
    permit_answers_as_iam_does()
    name_the_partitions()
    name_the_namespace()
    fill_in_the_caller()
    name_the_sender()
    pass_the_client_context()
    start_functions_as_lambda_does()
    unpack_packages_once()
    keep_tables_as_cloudformation_does()
    accept_saved_queries()
    make_again_what_was_deleted()
    record_calls()
    ask_for_keys_as_sqs_does()
    name_the_sources_of_a_dlq()
    fail_as_told()
    if "--still" in options:
        stop_the_time_of_sqs()
    config = Config()
    config.bind = [f"fd://{socket}"]
    # Longer than botocore keeps a connection idle, so the client is first to close it.
    config.keep_alive_timeout = 75
    if certificate_and_key:
        config.certfile, config.keyfile = certificate_and_key
    asyncio.run(serve(app, config))


if __name__ == "__main__":
    main(*sys.argv[1:])
