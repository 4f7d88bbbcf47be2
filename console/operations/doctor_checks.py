"""What is wrong with a queue and its DLQ, and the command that repairs it.

Pure: `doctor` reads the facts from AWS, and these functions judge them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Annotated, Any

from deadletter.contract import DAY, Mode
from deadletter.redrive.first_steps import FIRST_STEPS, MANY

from .deployed_queue import NONE, DeployedQueue
from .key_policy import EncryptionKey, KeyUse, troubles
from .words import count, duration

ERROR, WARNING, NOTE = "ERROR", "WARNING", "NOTE"

LONGEST_RETENTION = 14 * DAY
SHORTER_RETENTION = 4 * DAY
FEWEST_RECEIVES = 3
BEST_RECEIVES = 5
VISIBILITY_PER_TIMEOUT = 6
LONGEST_VISIBILITY = DAY // 2

# What the alarms of a DLQ have to look at. Messages that SQS moves there are not "sent".
_BLIND = {"NumberOfMessagesSent", "NumberOfMessagesReceived", "NumberOfMessagesDeleted"}
_SEES = {"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"}

# An AWS-managed key has a policy that no customer can change.
_MANAGED_KEY = "alias/aws/sqs"


@dataclass(frozen=True, slots=True)
class QueueFault:
    """Something wrong with a queue, its consumer or its alarms."""

    level: Annotated[
        str, "ERROR (messages get lost or fail needlessly), WARNING, or NOTE (good to know)"
    ]
    check: Annotated[str, "name of the check"]
    subject: Annotated[str, "the queue, function or alarm"]
    says: Annotated[str, "what is wrong, and what follows from it"]
    fix: Annotated[str | None, "a command that repairs it; null if a person has to choose"]
    before: Annotated[
        str | None, "what the fix deletes or leaves behind: read it first; null if nothing"
    ] = None


@dataclass(frozen=True, slots=True)
class QueueMapping:
    """A Lambda event source mapping of a queue."""

    uuid: str
    function: str
    batch_size: int
    reports_failures: bool
    enabled: bool
    pollers: int | None = None
    concurrency: int | None = None
    is_paused: bool | None = False
    """Whether a circuit of ours has disabled it; None if that is not known."""


@dataclass(frozen=True, slots=True)
class QueueConsumer:
    """A Lambda function that consumes a queue. `timeout` is in seconds."""

    name: str
    timeout: int
    isolated: bool = False


@dataclass(frozen=True, slots=True)
class QueueAlarm:
    """A CloudWatch alarm on a metric of a queue; `actions` are the ARNs that it calls."""

    name: str
    metric: str
    queue: str
    actions: Sequence[str] = ()
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Examined:
    """A DLQ and the queues whose messages die into it.

    `dlq` is None if the queues name one that is missing, or none. `mappings` are by queue ARN,
    `consumers` by function name, `keys` by the id that a queue names. `uses` are other services
    that send what they could not deliver to this DLQ. `topic` is the app's topic for alarms, and
    `drained` the name of the queue that its redriver drains; empty without an app.
    With an app, the first of `mains` is that of the pipeline, and `granted` are the ARNs of the
    keys that its functions may use; None if that is unknown. `key_uses` are the services that use
    the key of its topic, `topic_key`, and that of all that it makes, `app_key`; None without one.
    `mode` is the pipeline's, and `oldest` the age in seconds of the DLQ's oldest message by
    CloudWatch; None if it is unknown.
    """

    mains: Sequence[DeployedQueue]
    dlq: DeployedQueue | None
    region: str
    mappings: Mapping[str, Sequence[QueueMapping]]
    consumers: Mapping[str, QueueConsumer]
    alarms: Sequence[QueueAlarm]
    keys: Mapping[str, EncryptionKey]
    uses: Sequence[str] = ()
    topic: str = ""
    drained: str = ""
    granted: Sequence[str] | None = None
    key_uses: Mapping[str, KeyUse] = field(default_factory=dict)
    topic_key: EncryptionKey | None = None
    app_key: EncryptionKey | None = None
    mode: str = ""
    oldest: int | None = None


def findings(facts: Examined) -> Sequence[QueueFault]:
    """All that is wrong, the worst first."""
    found = list(_all(facts))
    return sorted(found, key=lambda finding: (ERROR, WARNING, NOTE).index(finding.level))


def _all(facts: Examined) -> Iterator[QueueFault]:
    for main in facts.mains:
        yield from _redrive_policy(main, facts)
        yield from _retention(main, facts)
        yield from _consumer(main, facts)
        yield from _safety(main, facts)
    yield from _isolation(facts)
    if (dlq := facts.dlq) is not None:
        yield from _dead_letters(dlq, facts)
        yield from _safety(dlq, facts)
        yield from _alarms(dlq, facts)
        yield from _depth(dlq, facts)
    yield from _pager(facts)
    yield from _app_key(facts)


def backlog(messages: int, oldest: int | None) -> str | None:
    """What a DLQ of so many messages holds, and what a pipeline would do with them.

    None if they are few. `oldest` is the age of the oldest in seconds; None if it is unknown.
    """
    if messages <= MANY:
        return None
    age = "" if oldest is None else f", the oldest {duration(oldest)} old"
    steps = ", ".join(map(str, FIRST_STEPS))
    return (
        f"it holds about {count(messages, 'message')}{age}. In mode observe they stay. In mode "
        f"enforce all that may succeed go back to the main queue: {steps} of them in the first "
        "runs, then as many as the consumer takes. Look first at what they are"
    )


def _depth(dlq: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    says = backlog(dlq.messages, facts.oldest)
    # In enforce it has happened.
    if says is not None and facts.mode != Mode.ENFORCE:
        groups = f"dlq groups --queue {quote(dlq.name)} --region {facts.region}"
        yield QueueFault(NOTE, "deep DLQ", dlq.name, says, groups)


def _redrive_policy(main: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    # The other queues that share its DLQ can be those of other pipelines.
    drained = facts.drained if main is facts.mains[0] else ""
    if main.dlq_arn is None and drained:
        yield QueueFault(
            ERROR, "no DLQ", main.name,
            f"it names no DLQ, and the pipeline drains {drained}: a message that always "
            f"fails is received again and again until it expires after {duration(main.retention)}",
            _set_drained(main, facts),
        )  # fmt: skip
        return
    if main.dlq_arn is None:
        yield QueueFault(
            ERROR, "no DLQ", main.name,
            "it has no DLQ: a message that always fails is received again and again until it "
            f"expires after {duration(main.retention)}",
            f"aws sqs create-queue --queue-name {_dlq_name(main)} --region {facts.region} "
            f"--attributes {_json(_dlq_attributes(main))} && "
            + _set(main, facts, RedrivePolicy=_redrive(_dlq_arn(main), BEST_RECEIVES)),
        )  # fmt: skip
        return
    if facts.dlq is None:
        yield QueueFault(
            ERROR, "DLQ missing", main.name,
            f"its DLQ {main.dlq_arn} is missing, or belongs to another account: a message that "
            f"fails stays in the queue until it expires after {duration(main.retention)}",
            _set_drained(main, facts)
            if drained and main.dlq_arn != _sibling_arn(main, drained)
            else None,
        )  # fmt: skip
    elif facts.dlq.allowed_sources is not None and main.arn not in facts.dlq.allowed_sources:
        yield QueueFault(
            ERROR, "redrive allow policy", facts.dlq.name,
            f"its redrive allow policy does not name {main.name}: SQS moves nothing there",
            _set(facts.dlq, facts, RedriveAllowPolicy=json.dumps(
                {"redrivePermission": "byQueue",
                 "sourceQueueArns": [*facts.dlq.allowed_sources, main.arn]})),
        )  # fmt: skip
    if drained and facts.dlq is not None and facts.dlq.name != drained:
        yield QueueFault(
            ERROR, "another DLQ", main.name,
            f"its messages die into {facts.dlq.name}, and the pipeline drains {drained}: "
            "no letter is re-driven; name the right one in the settings and deploy, or repair "
            "the queue",
            _set_drained(main, facts),
            f"the letters in {facts.dlq.name} stay there, and SQS deletes them when they expire",
        )  # fmt: skip
    receives = main.max_receive_count
    if receives is not None and receives < FEWEST_RECEIVES:
        yield QueueFault(
            ERROR if receives == 1 else WARNING, "maxReceiveCount", main.name,
            f"maxReceiveCount is {receives}: a throttled or restarted consumer is enough to "
            f"dead-letter a good message; allowed are 1 to 1,000, {BEST_RECEIVES} is usual",
            # Typed after the fix of "another DLQ", it must not undo it.
            _set_drained(main, facts)
            if drained
            else _set(main, facts, RedrivePolicy=_redrive(main.dlq_arn, BEST_RECEIVES)),
        )  # fmt: skip


def _retention(main: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    dlq = facts.dlq
    # In a FIFO DLQ the time in the queue starts anew.
    if dlq is None or dlq.fifo or dlq.retention > main.retention:
        return
    shortens = main.retention >= LONGEST_RETENTION
    yield QueueFault(
        ERROR, "retention order", dlq.name,
        f"it keeps a message for {duration(dlq.retention)}, {main.name} for "
        f"{duration(main.retention)}, and both count from the first send: a message that dies "
        "late is deleted as it arrives",
        _set(main, facts, MessageRetentionPeriod=str(SHORTER_RETENTION))
        if shortens
        else _set(dlq, facts, MessageRetentionPeriod=str(LONGEST_RETENTION)),
        f"SQS at once deletes the messages of {main.name} that are older than "
        f"{duration(SHORTER_RETENTION)}; it holds about {count(main.messages, 'message')}, and its "
        "metric ApproximateAgeOfOldestMessage says how old they are"
        if shortens
        else None,
    )  # fmt: skip


def _consumer(main: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    for mapping in facts.mappings.get(main.arn, ()):
        if mapping.batch_size > 1 and not mapping.reports_failures:
            yield QueueFault(
                ERROR, "ReportBatchItemFailures", mapping.function,
                f"one failed message fails its whole batch of up to {mapping.batch_size}: good "
                "messages are processed again and dead-lettered with it; the function must then "
                "return batchItemFailures, which the consumer library does",
                f"aws lambda update-event-source-mapping --uuid {mapping.uuid} --region "
                f"{facts.region} --function-response-types ReportBatchItemFailures",
            )  # fmt: skip
        if not mapping.enabled:
            yield _disabled(main, mapping, facts)
        if mapping.pollers is not None:
            yield QueueFault(
                NOTE, "provisioned mode", mapping.function,
                f"the mapping of {main.name} is in provisioned mode: at least {mapping.pollers} "
                "pollers are paid for each hour, and maximum concurrency can't be set; a circuit "
                "that closes ramps the pollers instead",
                None,
            )  # fmt: skip
        elif mapping.concurrency is None:
            yield QueueFault(
                NOTE, "MaximumConcurrency", mapping.function,
                f"the mapping of {main.name} has none: while a dependency comes back or throttles, "
                "messages that have to wait are given back, as functions that wait could take all "
                "that the account may run at once. With one they wait there, and come sooner",
                f"aws lambda update-event-source-mapping --uuid {mapping.uuid} --region "
                f"{facts.region} --scaling-config MaximumConcurrency=10",
            )  # fmt: skip
        if (consumer := facts.consumers.get(mapping.function)) is not None:
            yield from _visibility(main, consumer, facts)


def _disabled(main: DeployedQueue, mapping: QueueMapping, facts: Examined) -> QueueFault:
    """A mapping that reads nothing; only one that we have not paused is enabled by hand."""
    reads = f"the event source mapping that reads {main.name} is disabled: no message is consumed"
    if mapping.is_paused:
        return QueueFault(
            WARNING, "mapping paused", mapping.function,
            f"{reads}; a circuit of deadletter has paused it and enables it again when it closes, "
            "so leave it: live messages would reach a dependency that is down; dlq circuit list "
            "says which",
            None,
        )  # fmt: skip
    if mapping.is_paused is None:
        return QueueFault(
            WARNING, "mapping disabled", mapping.function,
            f"{reads}; whether a circuit of deadletter has paused it could not be read: see "
            "dlq circuit list, and enable it only if none has",
            None,
        )  # fmt: skip
    return QueueFault(
        WARNING, "mapping disabled", mapping.function,
        f"{reads}; no circuit of deadletter has paused it",
        f"aws lambda update-event-source-mapping --uuid {mapping.uuid} --region "
        f"{facts.region} --enabled",
    )  # fmt: skip


def _isolation(facts: Examined) -> Iterator[QueueFault]:
    for consumer in facts.consumers.values():
        if consumer.isolated:
            yield QueueFault(
                ERROR, "tenant isolation", consumer.name,
                "it is in tenant isolation mode, in which Lambda takes no event source mapping: "
                "no queue reaches it, and the mode can't be left; use a function without it",
                None,
            )  # fmt: skip


def _visibility(
    main: DeployedQueue, consumer: QueueConsumer, facts: Examined
) -> Iterator[QueueFault]:
    least = min(VISIBILITY_PER_TIMEOUT * consumer.timeout, LONGEST_VISIBILITY)
    if main.visibility >= least:
        return
    level = ERROR if main.visibility < consumer.timeout else WARNING
    yield QueueFault(
        level, "visibility", main.name,
        f"it hides a message for {duration(main.visibility)}, and {consumer.name} may run for "
        f"{duration(consumer.timeout)}: AWS asks for {VISIBILITY_PER_TIMEOUT} times the time-out, "
        "or a message is processed twice and dies early",
        _set(main, facts, VisibilityTimeout=str(least)),
    )  # fmt: skip


def _dead_letters(dlq: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    if dlq.dlq_arn is not None:
        yield QueueFault(
            ERROR, "DLQ of a DLQ", dlq.name,
            f"it has a DLQ of its own, {dlq.dlq_arn.rpartition(':')[2]}: each look counts as a "
            f"receive, so {count(dlq.max_receive_count or 1, 'look')} move a letter out of it",
            _set(dlq, facts, RedrivePolicy=""),
        )  # fmt: skip
    if len(facts.mains) > 1:
        names = ", ".join(main.name for main in facts.mains)
        own = next((main for main in facts.mains if _dlq_name(main) == dlq.name), facts.mains[0])
        others = [main for main in facts.mains if main is not own]
        yield QueueFault(
            WARNING, "shared DLQ", dlq.name,
            f"{len(facts.mains)} queues share it: {names}. A letter does not say which consumer "
            "failed, and an alarm not which team; give each queue its own, and move what is in it",
            " && ".join(
                f"aws sqs create-queue --queue-name {_dlq_name(main)} --region {facts.region} "
                f"--attributes {_json(_dlq_attributes(main))} && "
                + _set(main, facts, RedrivePolicy=_redrive(
                    _dlq_arn(main), _receives(main)))
                for main in others
            ),
            f"the letters in {dlq.name} stay there, and a pipeline of "
            f"{' or '.join(main.name for main in others)} re-drives none from a new DLQ until its "
            "settings name that one and are deployed",
        )  # fmt: skip
    for mapping in facts.mappings.get(dlq.arn, ()):
        yield QueueFault(
            WARNING, "DLQ consumed", dlq.name,
            f"function {mapping.function} consumes it: letters disappear before a person or the "
            "redriver sees them",
            f"aws lambda update-event-source-mapping --uuid {mapping.uuid} --region "
            f"{facts.region} --no-enabled",
        )  # fmt: skip
    for use in facts.uses:
        yield QueueFault(
            WARNING, "other DLQ kind", dlq.name,
            f"it is also {use}: such a message was never in {_names(facts.mains)} and has another "
            "shape, so it can't be re-driven; give that a queue of its own",
            None,
        )  # fmt: skip
    if not facts.mains:
        yield QueueFault(
            NOTE, "no source", dlq.name,
            "no queue of this account and region names it as its DLQ: nothing can be re-driven "
            "out of it" + ("" if facts.uses else ", unless its source is in another account"),
            None,
        )  # fmt: skip


def _safety(queue: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    """Encryption, keys and TLS."""
    if queue.encryption == NONE:
        yield QueueFault(
            WARNING, "encryption", queue.name, "its messages are not encrypted at rest",
            _set(queue, facts, SqsManagedSseEnabled="true"),
        )  # fmt: skip
    if not _demands_tls(queue.policy):
        policy = {
            "Version": "2012-10-17",
            **queue.policy,
            "Statement": [*_statements(queue.policy), _tls_statement(queue)],
        }
        yield QueueFault(
            WARNING, "TLS policy", queue.name,
            "its policy does not refuse calls without TLS (aws:SecureTransport)",
            _set(queue, facts, Policy=json.dumps(policy)),
        )  # fmt: skip
    if queue.encryption == _MANAGED_KEY:
        yield QueueFault(
            WARNING, "key grants", queue.name,
            f"it is encrypted with {_MANAGED_KEY}, whose policy can't be changed: SNS, EventBridge "
            "and other accounts can't send to it; SSE-SQS has no such limit and costs nothing",
            _set(queue, facts, KmsMasterKeyId="", SqsManagedSseEnabled="true"),
        )  # fmt: skip
    elif (key := facts.keys.get(queue.key or "")) is not None:
        yield from _key(queue, key, facts)


def _key(queue: DeployedQueue, key: EncryptionKey, facts: Examined) -> Iterator[QueueFault]:
    if not key.enabled:
        yield QueueFault(
            ERROR, "key grants", queue.name,
            f"its key {key.id} is disabled: no message can be sent or received",
            f"aws kms enable-key --key-id {quote(key.id)} --region {facts.region}",
        )  # fmt: skip
    if facts.granted is not None and key.arn and key.arn not in facts.granted:
        setting = "dlq" if queue is facts.dlq else "main_queue"
        remedy = (
            f"name it in the settings ({setting}.kms_key_arn) and deploy"
            if queue in (facts.dlq, *facts.mains[:1])
            else "give this queue a DLQ of its own"
        )
        yield QueueFault(
            ERROR, "key grants", queue.name,
            f"the pipeline does not know its key {key.id}: no function of the pipeline may use "
            f"it, and what was sent to the queue stays under it in the DLQ too; {remedy}",
            None,
        )  # fmt: skip
    if key.policy is not None and not _lets_iam_decide(key.policy):
        yield QueueFault(
            WARNING, "key grants", queue.name,
            f"the policy of its key {key.id} does not let IAM policies decide: each role that "
            "sends (kms:GenerateDataKey, kms:Decrypt) or receives (kms:Decrypt), the redriver "
            "too, has to stand in the key's own policy",
            f"aws kms get-key-policy --key-id {quote(key.id)} --policy-name default --region "
            f"{facts.region} --output text",
        )  # fmt: skip


def _pager(facts: Examined) -> Iterator[QueueFault]:
    """Whether CloudWatch can publish to the topic of the app's alarms."""
    if facts.topic_key is None or not facts.key_uses:
        return
    name = facts.topic.rpartition(":")[2]
    for trouble in troubles(facts.topic_key, facts.key_uses["cloudwatch"], facts.region):
        yield QueueFault(
            ERROR if trouble.sure else WARNING, "pager key", name,
            f"alarms {'' if trouble.sure else 'may '}reach no one, and no error is shown: "
            f"{trouble.says}",
            trouble.fix,
        )  # fmt: skip


def _app_key(facts: Examined) -> Iterator[QueueFault]:
    """Whether the services that write and deliver for the app can use its key."""
    if facts.app_key is None or not facts.key_uses:
        return
    follows = {
        "logs": (ERROR, "a deployment that makes a log group fails, and logs may not be written"),
        "sns": (NOTE, "a queue under this key that subscribes to the topic gets no pages"),
    }
    uses = [use for use in follows if use != "sns" or facts.topic_key is not None]
    for use in uses:
        level, what = follows[use]
        for trouble in troubles(facts.app_key, facts.key_uses[use], facts.region):
            yield QueueFault(
                level if trouble.sure else NOTE, "app key", facts.app_key.id,
                f"{what}{'' if trouble.sure else ' (maybe)'}: {trouble.says}",
                trouble.fix,
            )  # fmt: skip


def _alarms(dlq: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    own = [alarm for alarm in facts.alarms if alarm.queue == dlq.name]
    for alarm in own:
        if alarm.metric in _BLIND:
            yield QueueFault(
                ERROR, "alarm on the wrong metric", alarm.name,
                f"it watches {alarm.metric}, which does not count messages that SQS moves into "
                "a DLQ: it never rings",
                _put_alarm(alarm.name, dlq, facts, alarm.actions),
            )  # fmt: skip
        elif not alarm.enabled:
            yield QueueFault(
                WARNING, "silent alarm", alarm.name,
                "its actions are disabled: it rings and calls no person",
                f"aws cloudwatch enable-alarm-actions --alarm-names {quote(alarm.name)} --region "
                f"{facts.region}",
            )  # fmt: skip
        elif not alarm.actions:
            yield QueueFault(
                WARNING, "silent alarm", alarm.name,
                "it has no action: it rings and calls no person; put it again with "
                "--alarm-actions and the ARN of a topic",
                None,
            )  # fmt: skip
    if not any(alarm.metric in _SEES for alarm in own):
        yield QueueFault(
            WARNING, "no alarm", dlq.name,
            "no alarm looks at its depth or age: letters expire unseen after "
            f"{duration(dlq.retention)}",
            _put_alarm(f"{dlq.name}-not-empty", dlq, facts, [facts.topic] if facts.topic else ()),
        )  # fmt: skip


def _put_alarm(name: str, dlq: DeployedQueue, facts: Examined, actions: Sequence[str]) -> str:
    called = f" --alarm-actions {' '.join(map(quote, actions))}" if actions else ""
    return (
        f"aws cloudwatch put-metric-alarm --alarm-name {quote(name)} --region {facts.region} "
        "--namespace AWS/SQS --metric-name ApproximateNumberOfMessagesVisible "
        f"--dimensions Name=QueueName,Value={dlq.name} --statistic Maximum --period 60 "
        "--evaluation-periods 1 --threshold 0 --comparison-operator GreaterThanThreshold "
        f"--treat-missing-data notBreaching{called}"
    )


def _set(queue: DeployedQueue, facts: Examined, **attributes: str) -> str:
    return (
        f"aws sqs set-queue-attributes --queue-url {queue.url} --region {facts.region} "
        f"--attributes {_json(attributes)}"
    )


def _json(data: Mapping[str, object]) -> str:
    return quote(json.dumps(data))


def _redrive(dlq_arn: str, receives: int) -> str:
    return json.dumps({"deadLetterTargetArn": dlq_arn, "maxReceiveCount": receives})


def _dlq_name(main: DeployedQueue) -> str:
    stem = main.name.removesuffix(".fifo")
    return f"{stem}-dlq{'.fifo' if main.fifo else ''}"


def _dlq_arn(main: DeployedQueue) -> str:
    return _sibling_arn(main, _dlq_name(main))


def _sibling_arn(main: DeployedQueue, name: str) -> str:
    return f"{main.arn.rpartition(':')[0]}:{name}"


def _set_drained(main: DeployedQueue, facts: Examined) -> str:
    """The command that makes the DLQ of the pipeline that of its main queue."""
    arn = _sibling_arn(main, facts.drained)
    return _set(main, facts, RedrivePolicy=_redrive(arn, _receives(main)))


def _receives(main: DeployedQueue) -> int:
    """The receives that a fix sets: those of the queue, unless they are too few."""
    given = main.max_receive_count or 0
    return given if given >= FEWEST_RECEIVES else BEST_RECEIVES


def _dlq_attributes(main: DeployedQueue) -> Mapping[str, str]:
    fifo = {"FifoQueue": "true"} if main.fifo else {}
    return {"MessageRetentionPeriod": str(LONGEST_RETENTION), **fifo}


def _names(mains: Sequence[DeployedQueue]) -> str:
    return " or ".join(main.name for main in mains) or "a main queue"


def _statements(policy: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    statements = policy.get("Statement", [])
    listed = statements if isinstance(statements, list) else [statements]
    return [statement for statement in listed if isinstance(statement, dict)]


def _demands_tls(policy: Mapping[str, Any]) -> bool:
    return any(
        statement.get("Effect") == "Deny" and _is_without_tls(statement.get("Condition"))
        for statement in _statements(policy)
    )


def _is_without_tls(condition: object) -> bool:
    """Whether a condition holds for calls without TLS.

    IAM takes a value or a list of values, and the name of a key in any case.
    """
    operators = condition if isinstance(condition, dict) else {}
    for operator in ("Bool", "BoolIfExists"):
        keys = operators.get(operator)
        for key, given in keys.items() if isinstance(keys, dict) else ():
            values = given if isinstance(given, list) else [given]
            if key.lower() == "aws:securetransport" and "false" in [str(v).lower() for v in values]:
                return True
    return False


def _tls_statement(queue: DeployedQueue) -> Mapping[str, Any]:
    return {
        "Sid": "OnlyWithTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": queue.arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def _lets_iam_decide(policy: Mapping[str, Any]) -> bool:
    """Whether a key's policy gives the account's root all actions, so that IAM decides."""
    for statement in _statements(policy):
        principal = statement.get("Principal")
        trusted = principal.get("AWS", []) if isinstance(principal, dict) else [principal]
        names = trusted if isinstance(trusted, list) else [trusted]
        actions = statement.get("Action", [])
        allowed = actions if isinstance(actions, list) else [actions]
        is_root = any(str(name).endswith(":root") or name == "*" for name in names)
        if statement.get("Effect") == "Allow" and is_root and "kms:*" in allowed:
            return True
    return False
