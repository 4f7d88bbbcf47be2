"""What is wrong with a queue and its DLQ, and the command that repairs it.

Pure: `doctor` reads the facts from AWS, and these functions judge them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from deadletter.contract import DAY, Mode
from deadletter.redrive.first_steps import FIRST_STEPS, MANY

from .faults import ERROR, NOTE, WARNING, DoctorFault, QueueFault
from .key_policy import EncryptionKey, KeyUse, troubles
from .queue import NONE, DeployedQueue
from .words import duration

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
    age = "" if oldest is None else duration(oldest)
    return DoctorFault.DEEP_DLQ.says(
        messages=messages, age=age, steps=", ".join(map(str, FIRST_STEPS))
    )


def _depth(dlq: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    says = backlog(dlq.messages, facts.oldest)
    # In enforce it has happened.
    if says is not None and facts.mode != Mode.ENFORCE:
        groups = f"dlq groups --look --in queue:{quote(dlq.name)} --region {facts.region}"
        deep = DoctorFault.DEEP_DLQ
        yield QueueFault(deep.level, deep.check, dlq.name, says, groups)


def _redrive_policy(main: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    # The other queues that share its DLQ can be those of other pipelines.
    drained = facts.drained if main is facts.mains[0] else ""
    kept = duration(main.retention)
    if main.dlq_arn is None and drained:
        fix = _set_drained(main, facts)
        yield DoctorFault.NONE_NAMED.of(main.name, fix, drained=drained, kept=kept)
        return
    if main.dlq_arn is None:
        fix = f"{_create_dlq(main, facts)} && " + _set(
            main, facts, RedrivePolicy=_redrive(_dlq_arn(main), BEST_RECEIVES)
        )
        yield DoctorFault.NO_DLQ.of(main.name, fix, kept=kept)
        return
    if facts.dlq is None:
        is_other = drained and main.dlq_arn != _sibling_arn(main, drained)
        repaired = _set_drained(main, facts) if is_other else None
        yield DoctorFault.DLQ_MISSING.of(main.name, repaired, dlq=main.dlq_arn, kept=kept)
    elif facts.dlq.allowed_sources is not None and main.arn not in facts.dlq.allowed_sources:
        allowed = [*facts.dlq.allowed_sources, main.arn]
        policy = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": allowed})
        fix = _set(facts.dlq, facts, RedriveAllowPolicy=policy)
        yield DoctorFault.NOT_ALLOWED.of(facts.dlq.name, fix, main=main.name)
    if drained and facts.dlq is not None and facts.dlq.name != drained:
        fix = _set_drained(main, facts)
        yield DoctorFault.ANOTHER_DLQ.of(main.name, fix, dlq=facts.dlq.name, drained=drained)
    receives = main.max_receive_count
    if receives is not None and receives < FEWEST_RECEIVES:
        # Typed after the fix of ANOTHER_DLQ, it must not undo it.
        fix = (
            _set_drained(main, facts)
            if drained
            else _set(main, facts, RedrivePolicy=_redrive(main.dlq_arn, BEST_RECEIVES))
        )
        level = ERROR if receives == 1 else WARNING
        yield DoctorFault.FEW_RECEIVES.of(
            main.name, fix, level=level, receives=receives, best=BEST_RECEIVES
        )


def _retention(main: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    dlq = facts.dlq
    # In a FIFO DLQ the time in the queue starts anew.
    if dlq is None or dlq.fifo or dlq.retention > main.retention:
        return
    shortens = main.retention >= LONGEST_RETENTION
    queue, seconds = (main, SHORTER_RETENTION) if shortens else (dlq, LONGEST_RETENTION)
    yield DoctorFault.SHORT_RETENTION.of(
        dlq.name,
        _set(queue, facts, MessageRetentionPeriod=str(seconds)),
        costs=shortens,
        kept=duration(dlq.retention),
        main=main.name,
        main_kept=duration(main.retention),
        shorter=duration(SHORTER_RETENTION),
        messages=main.messages,
    )


def _consumer(main: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    for mapping in facts.mappings.get(main.arn, ()):
        if mapping.batch_size > 1 and not mapping.reports_failures:
            fix = _map(mapping, facts, "--function-response-types ReportBatchItemFailures")
            yield DoctorFault.WHOLE_BATCHES.of(mapping.function, fix, batch=mapping.batch_size)
        if not mapping.enabled:
            yield _disabled(main, mapping, facts)
        if mapping.pollers is not None:
            pollers = mapping.pollers
            yield DoctorFault.PROVISIONED.of(
                mapping.function, None, queue=main.name, pollers=pollers
            )
        elif mapping.concurrency is None:
            fix = _map(mapping, facts, "--scaling-config MaximumConcurrency=10")
            yield DoctorFault.NO_CONCURRENCY.of(mapping.function, fix, queue=main.name)
        if (consumer := facts.consumers.get(mapping.function)) is not None:
            yield from _visibility(main, consumer, facts)


def _disabled(main: DeployedQueue, mapping: QueueMapping, facts: Examined) -> QueueFault:
    """A mapping that reads nothing; only one that we have not paused is enabled by hand."""
    if mapping.is_paused is None:
        return DoctorFault.PERHAPS_PAUSED.of(mapping.function, None, queue=main.name)
    if mapping.is_paused:
        return DoctorFault.PAUSED.of(mapping.function, None, queue=main.name)
    return DoctorFault.DISABLED.of(
        mapping.function, _map(mapping, facts, "--enabled"), queue=main.name
    )


def _isolation(facts: Examined) -> Iterator[QueueFault]:
    for consumer in facts.consumers.values():
        if consumer.isolated:
            yield DoctorFault.ISOLATED.of(consumer.name, None)


def _visibility(
    main: DeployedQueue, consumer: QueueConsumer, facts: Examined
) -> Iterator[QueueFault]:
    least = min(VISIBILITY_PER_TIMEOUT * consumer.timeout, LONGEST_VISIBILITY)
    if main.visibility >= least:
        return
    yield DoctorFault.SHORT_VISIBILITY.of(
        main.name,
        _set(main, facts, VisibilityTimeout=str(least)),
        level=ERROR if main.visibility < consumer.timeout else WARNING,
        hidden=duration(main.visibility),
        function=consumer.name,
        timeout=duration(consumer.timeout),
        asked=VISIBILITY_PER_TIMEOUT,
    )


def _dead_letters(dlq: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    if dlq.dlq_arn is not None:
        below, looks = dlq.dlq_arn.rpartition(":")[2], dlq.max_receive_count or 1
        fix = _set(dlq, facts, RedrivePolicy="")
        yield DoctorFault.DLQ_OF_DLQ.of(dlq.name, fix, dlq=below, looks=looks)
    if len(facts.mains) > 1:
        own = next((main for main in facts.mains if _dlq_name(main) == dlq.name), facts.mains[0])
        others = [main for main in facts.mains if main is not own]
        fixes = [
            f"{_create_dlq(main, facts)} && "
            + _set(main, facts, RedrivePolicy=_redrive(_dlq_arn(main), _receives(main)))
            for main in others
        ]
        yield DoctorFault.SHARED_DLQ.of(
            dlq.name,
            " && ".join(fixes),
            queues=len(facts.mains),
            names=", ".join(main.name for main in facts.mains),
            dlq=dlq.name,
            others=_names(others),
        )
    for mapping in facts.mappings.get(dlq.arn, ()):
        fix = _map(mapping, facts, "--no-enabled")
        yield DoctorFault.CONSUMED.of(dlq.name, fix, function=mapping.function)
    for use in facts.uses:
        yield DoctorFault.OTHER_KIND.of(dlq.name, None, use=use, mains=_names(facts.mains))
    if not facts.mains:
        unless = "" if facts.uses else "its source is in another account"
        yield DoctorFault.NO_SOURCE.of(dlq.name, None, unless=unless)


def _safety(queue: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    """Encryption, keys and TLS."""
    if queue.encryption == NONE:
        yield DoctorFault.UNENCRYPTED.of(
            queue.name, _set(queue, facts, SqsManagedSseEnabled="true")
        )
    if not _demands_tls(queue.policy):
        policy = {
            "Version": "2012-10-17",
            **queue.policy,
            "Statement": [*_statements(queue.policy), _tls_statement(queue)],
        }
        yield DoctorFault.NO_TLS.of(queue.name, _set(queue, facts, Policy=json.dumps(policy)))
    if queue.encryption == _MANAGED_KEY:
        fix = _set(queue, facts, KmsMasterKeyId="", SqsManagedSseEnabled="true")
        yield DoctorFault.MANAGED_KEY.of(queue.name, fix, key=_MANAGED_KEY)
    elif (key := facts.keys.get(queue.key or "")) is not None:
        yield from _key(queue, key, facts)


def _key(queue: DeployedQueue, key: EncryptionKey, facts: Examined) -> Iterator[QueueFault]:
    named = f"--key-id {quote(key.id)}"
    if not key.enabled:
        fix = f"aws kms enable-key {named} --region {facts.region}"
        yield DoctorFault.KEY_DISABLED.of(queue.name, fix, key=key.id)
    if facts.granted is not None and key.arn and key.arn not in facts.granted:
        setting = "dlq" if queue is facts.dlq else "main_queue"
        remedy = (
            f"name it in the settings ({setting}.kms_key_arn) and deploy"
            if queue in (facts.dlq, *facts.mains[:1])
            else "give this queue a DLQ of its own"
        )
        yield DoctorFault.KEY_UNKNOWN.of(queue.name, None, key=key.id, remedy=remedy)
    if key.policy is not None and not _lets_iam_decide(key.policy):
        shows = f"--policy-name default --region {facts.region} --output text"
        fix = f"aws kms get-key-policy {named} {shows}"
        yield DoctorFault.KEY_CLOSED.of(queue.name, fix, key=key.id)


def _pager(facts: Examined) -> Iterator[QueueFault]:
    """Whether CloudWatch can publish to the topic of the app's alarms."""
    if facts.topic_key is None or not facts.key_uses:
        return
    name = facts.topic.rpartition(":")[2]
    for trouble in troubles(facts.topic_key, facts.key_uses["cloudwatch"], facts.region):
        level, may = (ERROR, "") if trouble.sure else (WARNING, "may")
        yield DoctorFault.PAGER_KEY.of(name, trouble.fix, level=level, may=may, why=trouble.says)


def _app_key(facts: Examined) -> Iterator[QueueFault]:
    """Whether the services that write and deliver for the app can use its key."""
    if facts.app_key is None or not facts.key_uses:
        return
    uses = {"logs": DoctorFault.LOGS_KEY}
    if facts.topic_key is not None:
        uses["sns"] = DoctorFault.TOPIC_KEY
    for use, fault in uses.items():
        for trouble in troubles(facts.app_key, facts.key_uses[use], facts.region):
            level, maybe = (None, "") if trouble.sure else (NOTE, "maybe")
            id_, why = facts.app_key.id, trouble.says
            yield fault.of(id_, trouble.fix, level=level, maybe=maybe, why=why)


def _alarms(dlq: DeployedQueue, facts: Examined) -> Iterator[QueueFault]:
    own = [alarm for alarm in facts.alarms if alarm.queue == dlq.name]
    for alarm in own:
        if alarm.metric in _BLIND:
            fix = _put_alarm(alarm.name, dlq, facts, alarm.actions)
            yield DoctorFault.BLIND_ALARM.of(alarm.name, fix, metric=alarm.metric)
        elif not alarm.enabled:
            named = f"--alarm-names {quote(alarm.name)} --region {facts.region}"
            fix = f"aws cloudwatch enable-alarm-actions {named}"
            yield DoctorFault.ACTIONS_OFF.of(alarm.name, fix)
        elif not alarm.actions:
            yield DoctorFault.NO_ACTION.of(alarm.name, None)
    if not any(alarm.metric in _SEES for alarm in own):
        called = [facts.topic] if facts.topic else ()
        fix = _put_alarm(f"{dlq.name}-not-empty", dlq, facts, called)
        yield DoctorFault.NO_ALARM.of(dlq.name, fix, kept=duration(dlq.retention))


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


def _map(mapping: QueueMapping, facts: Examined, change: str) -> str:
    named = f"--uuid {mapping.uuid} --region {facts.region}"
    return f"aws lambda update-event-source-mapping {named} {change}"


def _create_dlq(main: DeployedQueue, facts: Examined) -> str:
    fifo = {"FifoQueue": "true"} if main.fifo else {}
    attributes = _json({"MessageRetentionPeriod": str(LONGEST_RETENTION), **fifo})
    named = f"--queue-name {_dlq_name(main)} --region {facts.region}"
    return f"aws sqs create-queue {named} --attributes {attributes}"


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
