"""`dlq doctor`: what is around a queue and its DLQ, deployed by us or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from deadletter.contract import BOTO3_VARIABLE, pipeline_prefix

from . import account, pager, removal
from .app import App, DeployedPipeline
from .aws import Aws, rows
from .deadline import Asking, Deadline, side_by_side
from .doctor_checks import (
    Examined,
    QueueAlarm,
    QueueConsumer,
    QueueFault,
    QueueMapping,
    backlog,
    findings,
)
from .errors import Cause, Problem
from .figures import alarms, oldest_ages
from .key_policy import key_uses, read_key, read_topic_key
from .pager import PagerTest
from .places import QUEUE
from .queue import DeployedQueue, bare_queue, deployed_queue
from .removal import Removal
from .session import Answer, Session
from .verbs import Asked, Verb
from .watched import Memories, read_memories

# What the tests run with; Lambda's own moves on.
TESTED_BOTOCORE = "1.43.106"

# Seconds for all questions: twenty services and queues answer in two.
_PATIENCE = 30.0

# Queues that share one DLQ and are examined one by one.
_MOST_MAINS = 20

# Functions, subscriptions and rules that are asked for their DLQ: each takes a call.
_MOST_USES = 200


@dataclass(frozen=True, kw_only=True)
class DoctorRequest:
    """Check what synth can't see around a queue and its DLQ.

    Retention order, maxReceiveCount, partial batch responses, visibility against the function's
    time-out, provisioned mode, tenant isolation, encryption and key policies, TLS, alarms on a
    metric that never rings, and shared DLQs. Each finding comes with the command that repairs
    it; read it before you paste it. It reads settings only: no message is received, nothing is
    changed. The exit status is 1 for an ERROR, and if something could not be read.

    Of queue:NAME nothing of deadletter has to be deployed. Then it also says whether Lambda
    functions, SNS subscriptions or EventBridge targets use the same DLQ. That reads all of the
    account: no policy of the app allows it, so use a profile of yours.

    With --send-page it only publishes a page to the topic of the app's alarms, which says in its
    first words that it is a test. SNS does not say whether it arrived: look where pages arrive.
    That page comes from you, and alarms come from CloudWatch, so the policy of the topic's key is
    read, too. Where no one has subscribed, nothing is published; then, and if alarms reach no one,
    the exit status is 1.

    With --removal it only lists what is left of a pipeline: messages in its queues and those that
    wait, runs, circuits that are not closed and a consumer that is still paused, each with what
    empties or ends it. Once nothing is left, it prints the commands that remove the pipeline, and
    the names of what stays; until then the exit status is 1. Depths are SQS's own estimates: ask
    again a minute after the last message.

    With --account it only looks at the account, with nothing deployed: the CDK's bootstrap, what
    its role may do, quotas, how many functions may run at once, and your key and subnets, for what
    the cdk.json of the current folder names; for one pipeline, if there is no such file.
    """

    name: Annotated[
        str | None,
        Asked(
            "The pipeline, as --pipeline; or queue:NAME, any main queue or DLQ by name, URL or "
            "ARN, with nothing deployed.",
            metavar="PIPELINE|queue:NAME",
        ),
    ] = None
    send_page: Annotated[
        bool, Asked("Only publish a test page: do alarms reach a person?", ("--send-page",))
    ] = False
    removal: Annotated[
        bool,
        Asked(
            "Only say what is left of the pipeline before it is removed, and how to remove it.",
            ("--removal",),
        ),
    ] = False
    account: Annotated[
        bool, Asked("Only say what a first deployment lacks in the account.", ("--account",))
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination(Answer):
    """What `dlq doctor` answers."""

    findings: Annotated[
        Sequence[QueueFault] | None,
        "what is wrong, the worst first; null with --send-page and --removal",
    ] = None
    dlq: Annotated[str | None, "name of the DLQ; null if there is none"] = None
    mains: Annotated[Sequence[str], "names of the queues whose messages die into it"] = ()
    asked_account: Annotated[
        bool, "whether functions, subscriptions and rules were asked for their DLQ"
    ] = False
    pipelines: Annotated[int | None, "with --account: how many are to be deployed"] = None
    botocore: Annotated[str, "version that the functions run with; empty if unknown"] = ""
    unchecked: Annotated[Sequence[str], "what could not be read, and why"] = ()
    page: Annotated[PagerTest | None, "with --send-page: where the test page went"] = None
    removal: Annotated[Removal | None, "with --removal: what is left, and the way"] = None


def read(session: Session, request: DoctorRequest) -> Examination:
    """Examines the queues of a pipeline, or a queue; or sends a page, or reads what is left."""
    kind, colon, queue = (request.name or "").partition(":")
    is_queue = bool(colon) and kind == QUEUE.word
    if request.send_page + request.removal + request.account + is_queue > 1:
        raise Problem("Give one of --send-page, --removal, --account and a queue.", Cause.INPUT)
    if request.send_page:
        return Examination(**session.place, page=pager.publish(session))
    if request.removal:
        return Examination(**session.place, removal=removal.read(session, request.name))
    session.say("Examining")
    if request.account:
        return _of_account(session)
    if is_queue:
        return _examine(session, bare_queue(session, queue).url)
    app = session.app()
    pipeline = app.pipeline(request.name)
    return _examine(session, pipeline.main_url, app, pipeline)


def _of_account(session: Session) -> Examination:
    context = account.planned(Path("cdk.json"))
    with side_by_side(Deadline(_PATIENCE)) as start:
        ask = Asking(start)
        found = account.examined(session.aws, ask, context)
    number = len(context["pipelines"])
    return Examination(**session.place, findings=found, pipelines=number, unchecked=_lost(ask))


def _lost(ask: Asking) -> Sequence[str]:
    # A key or a queue that two things need is asked for twice.
    return [*dict.fromkeys(f"{what}: {why.says}" for what, why in ask.lost)]


def _examine(
    session: Session, url: str, app: App | None = None, pipeline: DeployedPipeline | None = None
) -> Examination:
    """Examines a queue and what is around it; one of no pipeline in all of the account.

    Of a pipeline only what the app's policies allow is read.
    """
    aws = session.aws
    # Made before there are threads.
    _ = aws.dynamodb, aws.sqs, aws.functions, aws.cloudwatch, aws.kms, aws.sns, aws.events, aws.sts
    with side_by_side(Deadline(_PATIENCE)) as start:
        ask = Asking(start)
        given = start(partial(deployed_queue, aws.sqs, url)).answer("The queue's attributes (SQS)")
        mains, dlq = _family(aws, ask, given, is_main=pipeline is not None)
        queues = [*mains, *([dlq] if dlq else [])]
        reads = {
            queue.arn: ask("event source mappings", _mappings, aws, queue.arn) for queue in queues
        }
        keys = {
            key: ask(f"key {key}", read_key, aws.kms, key)
            for key in {queue.key for queue in queues if queue.key}
            if not key.startswith("alias/aws/")
        }
        ringing = ask("alarms", _alarms, aws, {queue.name for queue in queues})
        ages = None
        if dlq is not None and backlog(dlq.messages, None):
            ages = ask("the age of messages", oldest_ages, aws.cloudwatch, [dlq.name], session.now)
        uses = () if pipeline is not None or dlq is None else _other_uses(aws, ask, dlq.arn)
        of_app: Mapping[str, Any] = {}
        paused: set[str] = set()
        botocore = ""
        if app is not None and pipeline is not None:
            from .circuits import own_and_troubled

            circuits = ask("circuits", own_and_troubled, session, app, pipeline)
            kept = aws.dynamodb, app.messages_table, pipeline.name
            row = (ask("the monitor's row", read_memories, *kept)() or Memories()).row
            botocore = row.botocore if row else ""
            of_app = _of_app(aws, ask, app, pipeline)
            paused = {each.paused.mapping for each in circuits() or () if each.paused is not None}
        mappings = {
            arn: [replace(each, is_paused=each.uuid in paused or each.is_paused) for each in found]
            for arn, read in reads.items()
            for found in [read() or ()]
        }
        names = {mapping.function for found in mappings.values() for mapping in found}
        if app is not None and pipeline is not None:
            # The app's own: synth has checked its time-out against the queue.
            prefix = pipeline_prefix(app.name, pipeline.name)
            names.discard(f"{prefix}consumer")
            names |= {pipeline.consumer_function.rpartition(":function:")[2]} - {""}
            # These make their most needed calls without boto3, unless a variable says otherwise.
            names |= {f"{prefix}{role}" for role in ("redrive", "route", "replay", "probe")}
        functions = {name: ask(f"function {name}", _consumer, aws, name) for name in names}
        facts = Examined(
            mains=mains,
            dlq=dlq,
            region=aws.region,
            mappings=mappings,
            consumers={name: found for name, read in functions.items() if (found := read())},
            alarms=ringing() or (),
            keys={key: known for key, read in keys.items() if (known := read()) is not None},
            uses=[use for read in uses for use in read() or ()],
            oldest=None if ages is None or dlq is None else (ages() or {}).get(dlq.name),
            **of_app,
        )
    return Examination(
        **session.place,
        dlq=None if dlq is None else dlq.name,
        mains=[main.name for main in mains],
        findings=findings(facts),
        asked_account=pipeline is None,
        botocore=botocore,
        unchecked=_lost(ask),
    )


def _of_app(aws: Aws, ask: Asking, app: App, pipeline: DeployedPipeline) -> Mapping[str, Any]:
    """What is known of a queue of a pipeline, and of no other."""
    topic, keys = app.alarm_topic, pipeline.keys
    topic_key = ask("the topic's key", read_topic_key, aws.sns, aws.kms, topic) if topic else None
    app_key = ask("the app's key", read_key, aws.kms, keys[0]) if keys else None
    at = {"partition": aws.caller.split(":")[1], "region": aws.region, "account": aws.account}
    return {
        "topic": topic,
        "drained": pipeline.dlq_url.rpartition("/")[2],
        "granted": keys,
        "mode": pipeline.mode,
        "key_uses": key_uses(app.name, **at),
        "topic_key": topic_key and topic_key(),
        "app_key": app_key and app_key(),
    }


def _family(
    aws: Aws, ask: Asking, given: DeployedQueue, *, is_main: bool
) -> tuple[Sequence[DeployedQueue], DeployedQueue | None]:
    """The queues that share a DLQ with the given one, or that have it as theirs, and the DLQ.

    `is_main` says that the given queue is known to be a main queue.
    """
    if given.dlq_arn is None:
        if is_main:
            return [given], None
        mains = _sources(aws, ask, given.url)
        # Without a source it is a DLQ only if it says so.
        says_so = any(word in given.name.lower() for word in ("dlq", "dead", "failed", "error"))
        alone = not mains and given.allowed_sources is None and not says_so
        return ([given], None) if alone else (mains, given)
    dlq = ask("the DLQ", _named, aws, given.dlq_arn, given)()
    mains = () if dlq is None else _sources(aws, ask, dlq.url)
    return [given, *(main for main in mains if main.arn != given.arn)], dlq


def _sources(aws: Aws, ask: Asking, url: str) -> Sequence[DeployedQueue]:
    urls = ask("the DLQ's sources", _source_urls, aws, url)() or ()
    reads = [ask("a source of the DLQ", deployed_queue, aws.sqs, source) for source in urls]
    return [queue for read in reads if (queue := read()) is not None]


def _source_urls(aws: Aws, url: str) -> Sequence[str]:
    urls = rows(aws.sqs, "list_dead_letter_source_queues", "queueUrls", QueueUrl=url)
    return [*islice(urls, _MOST_MAINS)]


def _named(aws: Aws, arn: str, beside: DeployedQueue) -> DeployedQueue:
    """The queue of this ARN. One of the same account has the same URL but for the name."""
    owner, _, name = arn.rpartition(":")
    if owner == beside.arn.rpartition(":")[0]:
        return deployed_queue(aws.sqs, f"{beside.url.rpartition('/')[0]}/{name}")
    account = owner.rpartition(":")[2]
    url = aws.sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)["QueueUrl"]
    return deployed_queue(aws.sqs, url)


def _mappings(aws: Aws, arn: str) -> Sequence[QueueMapping]:
    found = rows(
        aws.functions, "list_event_source_mappings", "EventSourceMappings", EventSourceArn=arn
    )
    return [_mapping(aws, row) for row in found]


def _has_pause_tag(aws: Aws, row: Mapping[str, Any]) -> bool | None:
    """Whether our tag says that we paused a mapping; None if its tags could not be read."""
    from botocore.exceptions import BotoCoreError, ClientError

    from deadletter.outage.mapping import PAUSE_TAG

    arn = row.get("EventSourceMappingArn")
    if not arn:
        return None
    try:
        return PAUSE_TAG in aws.functions.list_tags(Resource=arn).get("Tags", {})
    except (BotoCoreError, ClientError):
        # Another answer than a refusal leaves the same doubt.
        return None


def _mapping(aws: Aws, row: Mapping[str, Any]) -> QueueMapping:
    enabled = row.get("State") not in ("Disabled", "Disabling")
    pollers = (row.get("ProvisionedPollerConfig") or {}).get("MinimumPollers")
    return QueueMapping(
        uuid=row["UUID"],
        function=row.get("FunctionArn", "").rpartition(":function:")[2] or row["UUID"],
        batch_size=row.get("BatchSize", 10),
        reports_failures="ReportBatchItemFailures" in (row.get("FunctionResponseTypes") or ()),
        enabled=enabled,
        pollers=pollers,
        concurrency=(row.get("ScalingConfig") or {}).get("MaximumConcurrency"),
        is_paused=False if enabled else _has_pause_tag(aws, row),
    )


def _consumer(aws: Aws, name: str) -> QueueConsumer:
    configuration: Mapping[str, Any] = aws.functions.get_function_configuration(FunctionName=name)
    isolated = (configuration.get("TenancyConfig") or {}).get("TenantIsolationMode") == "PER_TENANT"
    variables = configuration.get("Environment", {}).get("Variables", {})
    by_boto3 = variables.get(BOTO3_VARIABLE, "0") not in ("", "0")
    return QueueConsumer(name, configuration.get("Timeout", 3), isolated, by_boto3)


def _alarms(aws: Aws, queues: Collection[str]) -> Sequence[QueueAlarm]:
    """The alarms on metrics of these queues."""
    return [
        QueueAlarm(
            alarm["AlarmName"],
            metric,
            queue,
            tuple(alarm.get("AlarmActions", ())),
            alarm.get("ActionsEnabled", True),
        )
        for alarm in alarms(aws.cloudwatch)
        for metric, queue in _watched(alarm)
        if queue in queues
    ]


def _watched(alarm: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Each metric of SQS that an alarm looks at, and its queue."""
    inner = [
        part["MetricStat"]["Metric"] for part in alarm.get("Metrics", ()) if "MetricStat" in part
    ]
    for metric in [alarm, *inner]:
        for dimension in metric.get("Dimensions", ()):
            if dimension["Name"] == "QueueName" and metric.get("Namespace") == "AWS/SQS":
                yield metric["MetricName"], dimension["Value"]


def _other_uses(aws: Aws, ask: Asking, arn: str) -> Sequence[Callable[[], Sequence[str] | None]]:
    """Other services that send what they could not deliver to a DLQ: it was in no main queue."""
    first = f"the first {_MOST_USES}"
    return [
        ask(f"{first} Lambda functions", _function_uses, aws, arn),
        ask(f"{first} SNS subscriptions", _subscription_uses, aws, arn),
        ask(f"{first} EventBridge rules", _rule_uses, aws, arn),
    ]


def _function_uses(aws: Aws, arn: str) -> Sequence[str]:
    """The functions that send failed asynchronous invocations to the queue, in words."""
    found = []
    for row in islice(rows(aws.functions, "list_functions", "Functions"), _MOST_USES):
        name = row["FunctionName"]
        if row.get("DeadLetterConfig", {}).get("TargetArn") == arn:
            found.append(f"the DLQ of asynchronous invocations of Lambda function {name}")
        answer = aws.functions.list_function_event_invoke_configs(FunctionName=name)
        found += [
            f"the on-failure destination of Lambda function {name}"
            for config in answer.get("FunctionEventInvokeConfigs", ())
            if config.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination") == arn
        ]
    return found


def _subscription_uses(aws: Aws, arn: str) -> Sequence[str]:
    """The SNS subscriptions whose undelivered notifications go to the queue, in words."""
    found = []
    for row in islice(rows(aws.sns, "list_subscriptions", "Subscriptions"), _MOST_USES):
        subscription = row.get("SubscriptionArn", "")
        if not subscription.startswith("arn:"):
            # It waits for its confirmation.
            continue
        answer = aws.sns.get_subscription_attributes(SubscriptionArn=subscription)
        policy = json.loads(answer["Attributes"].get("RedrivePolicy") or "{}")
        if policy.get("deadLetterTargetArn") == arn:
            topic = row["TopicArn"].rpartition(":")[2]
            found.append(f"the DLQ of a subscription of SNS topic {topic}")
    return found


def _rule_uses(aws: Aws, arn: str) -> Sequence[str]:
    """The targets of EventBridge rules whose undelivered events go to the queue, in words."""
    return [
        f"the DLQ of target {target['Id']} of EventBridge rule {rule['Name']}"
        for rule in islice(rows(aws.events, "list_rules", "Rules"), _MOST_USES)
        for target in aws.events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
        if target.get("DeadLetterConfig", {}).get("Arn") == arn
    ]


VERB = Verb(
    name="doctor",
    request=DoctorRequest,
    examples=[
        "dlq doctor orders",
        "dlq doctor queue:https://sqs.eu-west-1.amazonaws.com/111122223333/orders-dlq",
        "dlq doctor queue:orders-dlq --query \"findings[?level=='ERROR']\"",
        "dlq doctor --send-page",
        "dlq doctor orders --removal",
        "dlq doctor --account",
        "dlq doctor orders --removal --query 'removal.left[].command'",
    ],
    read=read,
)
