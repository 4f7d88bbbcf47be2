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

from .faults import ERROR, NOTE, WARNING, QueueFault
from .faults import DoctorFault as Fault
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
    found = _Checks(facts).all()
    return sorted(found, key=lambda finding: (ERROR, WARNING, NOTE).index(finding.level))


def backlog(messages: int, oldest: int | None) -> str | None:
    """What a DLQ of so many messages holds, and what a pipeline would do with them.

    None if they are few. `oldest` is the age of the oldest in seconds; None if it is unknown.
    """
    if messages <= MANY:
        return None
    age, steps = "" if oldest is None else duration(oldest), ", ".join(map(str, FIRST_STEPS))
    return Fault.DEEP_DLQ.says(messages=messages, age=age, steps=steps)


class _Checks:
    """The checks of what was examined; each yields its faults with their fixes."""

    def __init__(self, facts: Examined) -> None:
        self._facts, self._region = facts, f"--region {facts.region}"

    def all(self) -> Iterator[QueueFault]:
        facts = self._facts
        for main in facts.mains:
            yield from self._redrive_policy(main)
            yield from self._retention(main)
            yield from self._consumer(main)
            yield from self._safety(main)
        for consumer in facts.consumers.values():
            if consumer.isolated:
                yield Fault.ISOLATED.of(consumer.name, None)
        if (dlq := facts.dlq) is not None:
            yield from self._dead_letters(dlq)
            yield from self._safety(dlq)
            yield from self._alarms(dlq)
            # In enforce it has happened.
            if (says := backlog(dlq.messages, facts.oldest)) and facts.mode != Mode.ENFORCE:
                groups = f"dlq groups --look --in queue:{quote(dlq.name)} {self._region}"
                deep = Fault.DEEP_DLQ
                yield QueueFault(deep.level, deep.check, dlq.name, says, groups)
        yield from self._key_uses()

    def _redrive_policy(self, main: DeployedQueue) -> Iterator[QueueFault]:
        facts, dlq, named = self._facts, self._facts.dlq, main.dlq_arn
        # The other queues that share its DLQ can be those of other pipelines.
        drained = facts.drained if main is facts.mains[0] else ""
        own, kept = _sibling_arn(main, drained), duration(main.retention)
        mended = self._redrive(main, own) if drained else None
        if named is None:
            if drained:
                yield Fault.NONE_NAMED.of(main.name, mended, drained=drained, kept=kept)
            else:
                yield Fault.NO_DLQ.of(main.name, self._new_dlq(main), kept=kept)
            return
        if dlq is None:
            fix = mended if named != own else None
            yield Fault.DLQ_MISSING.of(main.name, fix, dlq=named, kept=kept)
        elif dlq.allowed_sources is not None and main.arn not in dlq.allowed_sources:
            allowed = [*dlq.allowed_sources, main.arn]
            policy = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": allowed})
            fix = self._set(dlq, RedriveAllowPolicy=policy)
            yield Fault.NOT_ALLOWED.of(dlq.name, fix, main=main.name)
        if drained and dlq is not None and dlq.name != drained:
            yield Fault.ANOTHER_DLQ.of(main.name, mended, dlq=dlq.name, drained=drained)
        receives = main.max_receive_count
        if receives is not None and receives < FEWEST_RECEIVES:
            # Typed after the fix of ANOTHER_DLQ, it must not undo it.
            fix = mended or self._redrive(main, named)
            level = ERROR if receives == 1 else WARNING
            yield Fault.FEW_RECEIVES.of(
                main.name, fix, level=level, receives=receives, best=BEST_RECEIVES
            )

    def _retention(self, main: DeployedQueue) -> Iterator[QueueFault]:
        dlq = self._facts.dlq
        # In a FIFO DLQ the time in the queue starts anew.
        if dlq is None or dlq.fifo or dlq.retention > main.retention:
            return
        shortens = main.retention >= LONGEST_RETENTION
        queue, seconds = (main, SHORTER_RETENTION) if shortens else (dlq, LONGEST_RETENTION)
        yield Fault.SHORT_RETENTION.of(
            dlq.name,
            self._set(queue, MessageRetentionPeriod=str(seconds)),
            costs=shortens,
            kept=duration(dlq.retention),
            main=main.name,
            main_kept=duration(main.retention),
            shorter=duration(SHORTER_RETENTION),
            messages=main.messages,
        )

    def _consumer(self, main: DeployedQueue) -> Iterator[QueueFault]:
        for mapping in self._facts.mappings.get(main.arn, ()):
            function = mapping.function
            if mapping.batch_size > 1 and not mapping.reports_failures:
                fix = self._map(mapping, "--function-response-types ReportBatchItemFailures")
                yield Fault.WHOLE_BATCHES.of(function, fix, batch=mapping.batch_size)
            if not mapping.enabled:
                # Only one that we have not paused is enabled by hand.
                paused = {None: Fault.PERHAPS_PAUSED, True: Fault.PAUSED, False: Fault.DISABLED}
                fault = paused[mapping.is_paused]
                enable = self._map(mapping, "--enabled") if fault is Fault.DISABLED else None
                yield fault.of(function, enable, queue=main.name)
            if mapping.pollers is not None:
                yield Fault.PROVISIONED.of(function, None, queue=main.name, pollers=mapping.pollers)
            elif mapping.concurrency is None:
                fix = self._map(mapping, "--scaling-config MaximumConcurrency=10")
                yield Fault.NO_CONCURRENCY.of(function, fix, queue=main.name)
            if (consumer := self._facts.consumers.get(function)) is not None:
                yield from self._visibility(main, consumer)

    def _visibility(self, main: DeployedQueue, consumer: QueueConsumer) -> Iterator[QueueFault]:
        least = min(VISIBILITY_PER_TIMEOUT * consumer.timeout, LONGEST_VISIBILITY)
        if main.visibility < least:
            yield Fault.SHORT_VISIBILITY.of(
                main.name,
                self._set(main, VisibilityTimeout=str(least)),
                level=ERROR if main.visibility < consumer.timeout else WARNING,
                hidden=duration(main.visibility),
                function=consumer.name,
                timeout=duration(consumer.timeout),
                asked=VISIBILITY_PER_TIMEOUT,
            )

    def _dead_letters(self, dlq: DeployedQueue) -> Iterator[QueueFault]:
        facts, mains = self._facts, self._facts.mains
        if dlq.dlq_arn is not None:
            below, looks = dlq.dlq_arn.rpartition(":")[2], dlq.max_receive_count or 1
            fix = self._set(dlq, RedrivePolicy="")
            yield Fault.DLQ_OF_DLQ.of(dlq.name, fix, dlq=below, looks=looks)
        if len(mains) > 1:
            own = next((main for main in mains if _dlq_name(main) == dlq.name), mains[0])
            others = [main for main in mains if main is not own]
            yield Fault.SHARED_DLQ.of(
                dlq.name,
                " && ".join(map(self._new_dlq, others)),
                queues=len(mains),
                names=", ".join(main.name for main in mains),
                dlq=dlq.name,
                others=_names(others),
            )
        for mapping in facts.mappings.get(dlq.arn, ()):
            fix = self._map(mapping, "--no-enabled")
            yield Fault.CONSUMED.of(dlq.name, fix, function=mapping.function)
        for use in facts.uses:
            yield Fault.OTHER_KIND.of(dlq.name, None, use=use, mains=_names(mains))
        if not mains:
            unless = "" if facts.uses else "its source is in another account"
            yield Fault.NO_SOURCE.of(dlq.name, None, unless=unless)

    def _safety(self, queue: DeployedQueue) -> Iterator[QueueFault]:
        """Encryption, keys and TLS."""
        if queue.encryption == NONE:
            yield Fault.UNENCRYPTED.of(queue.name, self._set(queue, SqsManagedSseEnabled="true"))
        statements = _statements(queue.policy)
        if not any(map(_demands_tls, statements)):
            demand = {**_ONLY_WITH_TLS, "Resource": queue.arn}
            policy = {"Version": "2012-10-17", **queue.policy, "Statement": [*statements, demand]}
            yield Fault.NO_TLS.of(queue.name, self._set(queue, Policy=json.dumps(policy)))
        if queue.encryption == _MANAGED_KEY:
            fix = self._set(queue, KmsMasterKeyId="", SqsManagedSseEnabled="true")
            yield Fault.MANAGED_KEY.of(queue.name, fix, key=_MANAGED_KEY)
        elif (key := self._facts.keys.get(queue.key or "")) is not None:
            yield from self._key(queue, key)

    def _key(self, queue: DeployedQueue, key: EncryptionKey) -> Iterator[QueueFault]:
        facts, named = self._facts, f"--key-id {quote(key.id)}"
        if not key.enabled:
            fix = f"aws kms enable-key {named} {self._region}"
            yield Fault.KEY_DISABLED.of(queue.name, fix, key=key.id)
        if facts.granted is not None and key.arn and key.arn not in facts.granted:
            setting = "dlq" if queue is facts.dlq else "main_queue"
            is_ours = queue in (facts.dlq, *facts.mains[:1])
            remedy = f"name it in the settings ({setting}.kms_key_arn) and deploy"
            remedy = remedy if is_ours else "give this queue a DLQ of its own"
            yield Fault.KEY_UNKNOWN.of(queue.name, None, key=key.id, remedy=remedy)
        if key.policy is not None and not any(map(_lets_iam_decide, _statements(key.policy))):
            shows = f"--policy-name default {self._region} --output text"
            yield Fault.KEY_CLOSED.of(
                queue.name, f"aws kms get-key-policy {named} {shows}", key=key.id
            )

    def _key_uses(self) -> Iterator[QueueFault]:
        """Whether CloudWatch can publish to the app's topic, and others can use the app's key."""
        facts, app, topic = self._facts, self._facts.app_key, self._facts.topic_key
        name, id_ = facts.topic.rpartition(":")[2], "" if app is None else app.id
        for use, key, subject, fault, unsure in (
            ("cloudwatch", topic, name, Fault.PAGER_KEY, WARNING),
            ("logs", app, id_, Fault.LOGS_KEY, NOTE),
            ("sns", topic and app, id_, Fault.TOPIC_KEY, NOTE),
        ):
            if key is None or use not in facts.key_uses:
                continue
            for trouble in troubles(key, facts.key_uses[use], facts.region):
                level, may = (None, "") if trouble.sure else (unsure, "may")
                maybe = may and "maybe"
                yield fault.of(
                    subject, trouble.fix, level=level, may=may, maybe=maybe, why=trouble.says
                )

    def _alarms(self, dlq: DeployedQueue) -> Iterator[QueueFault]:
        facts = self._facts
        own = [alarm for alarm in facts.alarms if alarm.queue == dlq.name]
        for alarm in own:
            if alarm.metric in _BLIND:
                fix = self._put_alarm(alarm.name, dlq, alarm.actions)
                yield Fault.BLIND_ALARM.of(alarm.name, fix, metric=alarm.metric)
            elif not alarm.enabled:
                named = f"--alarm-names {quote(alarm.name)} {self._region}"
                fix = f"aws cloudwatch enable-alarm-actions {named}"
                yield Fault.ACTIONS_OFF.of(alarm.name, fix)
            elif not alarm.actions:
                yield Fault.NO_ACTION.of(alarm.name, None)
        if not any(alarm.metric in _SEES for alarm in own):
            called = [facts.topic] if facts.topic else ()
            fix = self._put_alarm(f"{dlq.name}-not-empty", dlq, called)
            yield Fault.NO_ALARM.of(dlq.name, fix, kept=duration(dlq.retention))

    # Command lines.

    def _put_alarm(self, name: str, dlq: DeployedQueue, actions: Sequence[str]) -> str:
        called = f" --alarm-actions {' '.join(map(quote, actions))}" if actions else ""
        return (
            f"aws cloudwatch put-metric-alarm --alarm-name {quote(name)} {self._region} "
            "--namespace AWS/SQS --metric-name ApproximateNumberOfMessagesVisible "
            f"--dimensions Name=QueueName,Value={dlq.name} --statistic Maximum --period 60 "
            "--evaluation-periods 1 --threshold 0 --comparison-operator GreaterThanThreshold "
            f"--treat-missing-data notBreaching{called}"
        )

    def _set(self, queue: DeployedQueue, **attributes: str) -> str:
        named = f"--queue-url {queue.url} {self._region}"
        return f"aws sqs set-queue-attributes {named} --attributes {quote(json.dumps(attributes))}"

    def _map(self, mapping: QueueMapping, change: str) -> str:
        named = f"--uuid {mapping.uuid} {self._region}"
        return f"aws lambda update-event-source-mapping {named} {change}"

    def _new_dlq(self, main: DeployedQueue) -> str:
        """Makes a DLQ for a main queue alone."""
        fifo = {"FifoQueue": "true"} if main.fifo else {}
        attributes = quote(json.dumps({"MessageRetentionPeriod": str(LONGEST_RETENTION), **fifo}))
        named = f"--queue-name {_dlq_name(main)} {self._region}"
        redrive = self._redrive(main, _sibling_arn(main, _dlq_name(main)))
        return f"aws sqs create-queue {named} --attributes {attributes} && {redrive}"

    def _redrive(self, main: DeployedQueue, dlq_arn: str) -> str:
        """Names a DLQ; the receives stay those of the queue, unless they are too few."""
        given = main.max_receive_count or 0
        receives = given if given >= FEWEST_RECEIVES else BEST_RECEIVES
        policy = {"deadLetterTargetArn": dlq_arn, "maxReceiveCount": receives}
        return self._set(main, RedrivePolicy=json.dumps(policy))


def _dlq_name(main: DeployedQueue) -> str:
    return f"{main.name.removesuffix('.fifo')}-dlq{'.fifo' if main.fifo else ''}"


def _sibling_arn(main: DeployedQueue, name: str) -> str:
    return f"{main.arn.rpartition(':')[0]}:{name}"


def _names(mains: Sequence[DeployedQueue]) -> str:
    return " or ".join(main.name for main in mains) or "a main queue"


# Policies. IAM takes a value or a list of values, and the name of a key in any case.


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _statements(policy: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in _listed(policy.get("Statement", [])) if isinstance(each, dict)]


_ONLY_WITH_TLS = {
    "Sid": "OnlyWithTls",
    "Effect": "Deny",
    "Principal": "*",
    "Action": "sqs:*",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def _demands_tls(statement: Mapping[str, Any]) -> bool:
    """Whether a statement denies calls without TLS."""
    condition = statement.get("Condition")
    operators = condition if isinstance(condition, dict) else {}
    asked = [operators.get(operator) for operator in ("Bool", "BoolIfExists")]
    values = [
        str(value).lower()
        for keys in asked
        if isinstance(keys, dict)
        for key, given in keys.items()
        if key.lower() == "aws:securetransport"
        for value in _listed(given)
    ]
    return statement.get("Effect") == "Deny" and "false" in values


def _lets_iam_decide(statement: Mapping[str, Any]) -> bool:
    """Whether a statement of a key gives the account's root all actions, so that IAM decides."""
    principal = statement.get("Principal")
    names = _listed(principal.get("AWS", []) if isinstance(principal, dict) else principal)
    is_root = any(str(name).endswith(":root") or name == "*" for name in names)
    allowed = _listed(statement.get("Action", []))
    return statement.get("Effect") == "Allow" and is_root and "kms:*" in allowed
