"""What is wrong with a queue and its DLQ, and the command that repairs it.

Pure: `doctor` reads the facts from AWS, and these functions judge them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from shlex import quote
from typing import Annotated, Any

from deadletter.contract import BOTO3_VARIABLE, DAY, Mode
from deadletter.signals.troubles import worded

from .key_policy import EncryptionKey, KeyUse, listed, statements, troubles
from .queue import NONE, DeployedQueue
from .words import duration

ERROR, WARNING, NOTE = "ERROR", "WARNING", "NOTE"


@dataclass(frozen=True, slots=True)
class QueueFault:
    """Something wrong with a queue, its consumer or its alarms."""

    level: Annotated[
        str, "ERROR (messages get lost or fail needlessly), WARNING, or NOTE (good to know)"
    ]
    check: Annotated[str, "name of the fault, such as `no-dlq`"]
    subject: Annotated[str, "the queue, function or alarm"]
    says: Annotated[str, "what is wrong, and what follows from it"]
    fix: Annotated[str | None, "a command that repairs it; null if a person has to choose"]
    before: Annotated[
        str | None, "what the fix deletes or leaves behind: read it first; null if nothing"
    ] = None


_FOREVER = ": a message that always fails is received again and again until it expires after {kept}"
_DISABLED = "the event source mapping that reads {queue} is disabled: no message is consumed; "


def _fault(level: str, says: str, costs: str = "") -> tuple[str, str, str]:
    return level, says, costs


_error, _warning, _note = (partial(_fault, level) for level in (ERROR, WARNING, NOTE))


class DoctorFault(Enum):
    """A fault: its level, what it says with facts in braces, and what its fix costs."""

    NO_DLQ = _error(f"it has no DLQ{_FOREVER}")
    NONE_NAMED = _error(f"it names no DLQ, and the pipeline drains {{drained}}{_FOREVER}")
    DLQ_MISSING = _error(
        "its DLQ {dlq} is missing, or belongs to another account: a message that fails stays in the"
        " queue until it expires after {kept}"
    )
    NOT_ALLOWED = _error("its redrive allow policy does not name {main}: SQS moves nothing there")
    ANOTHER_DLQ = _error(
        "its messages die into {dlq}, and the pipeline drains {drained}: none is re-driven; name"
        " the right one in the settings and deploy, or repair the queue",
        "the messages in {dlq} stay there, and SQS deletes them when they expire",
    )
    FEW_RECEIVES = _warning(
        "maxReceiveCount is {receives}: a throttled or restarted consumer is enough to dead-letter"
        " a good message; allowed are 1 to 1,000, {best} is usual"
    )
    SHORT_RETENTION = _error(
        "it keeps a message for {kept}, {main} for {main_kept}, and both count from the first send:"
        " a message that dies late is deleted as it arrives",
        "SQS at once deletes the messages of {main} that are older than {shorter}; it holds about"
        " {messages:message}, and its metric ApproximateAgeOfOldestMessage says how old they are",
    )
    WHOLE_BATCHES = _error(
        "one failed message fails its whole batch of up to {batch}: good messages are processed"
        " again and dead-lettered with it; the function must then return batchItemFailures, which"
        " the consumer library does"
    )
    PROVISIONED = _note(
        "the mapping of {queue} is in provisioned mode: at least {pollers} pollers are paid for"
        " each hour, and maximum concurrency can't be set; a circuit that closes ramps the pollers"
        " instead"
    )
    NO_CONCURRENCY = _note(
        "the mapping of {queue} has none: while a dependency comes back or throttles, messages that"
        " have to wait are given back, as functions that wait could take all that the account may"
        " run at once. With one they wait there, and come sooner"
    )
    PAUSED = _warning(
        f"{_DISABLED}a circuit of deadletter has paused it and enables it again when it closes, so"
        " leave it: live messages would reach a dependency that is down; the list of"
        " circuits says which"
    )
    PERHAPS_PAUSED = _warning(
        f"{_DISABLED}whether a circuit of deadletter has paused it could not be read:"
        " see the list of circuits, and enable it only if none has"
    )
    DISABLED = _warning(f"{_DISABLED}no circuit of deadletter has paused it")
    ISOLATED = _error(
        "it is in tenant isolation mode, in which Lambda takes no event source mapping: no queue"
        " reaches it, and the mode can't be left; use a function without it"
    )
    SHORT_VISIBILITY = _warning(
        "it hides a message for {hidden}, and {function} may run for {timeout}: AWS asks for"
        " {asked} times the time-out, or a message is processed twice and dies early"
    )
    DLQ_OF_DLQ = _error(
        "it has a DLQ of its own, {dlq}: each look counts as a receive, so {looks:look} move a"
        " message out of it"
    )
    SHARED_DLQ = _warning(
        "{queues} queues share it: {names}. A message does not say which consumer failed, and an"
        " alarm not which team; give each queue its own, and move what is in it",
        "the messages in {dlq} stay there, and a pipeline of {others} re-drives none from a new DLQ"
        " until its settings name that one and are deployed",
    )
    CONSUMED = _warning(
        "function {function} consumes it: messages disappear before a person or the automatic"
        " retry sees them"
    )
    OTHER_KIND = _warning(
        "it is also {use}: such a message was never in {mains} and has another shape, so it can't"
        " be re-driven; give that a queue of its own"
    )
    NO_SOURCE = _note(
        "no queue of this account and region names it as its DLQ: nothing can be re-driven out of"
        " it[, unless {unless}]"
    )
    UNENCRYPTED = _warning("its messages are not encrypted at rest")
    NO_TLS = _warning("its policy does not refuse calls without TLS (aws:SecureTransport)")
    MANAGED_KEY = _warning(
        "it is encrypted with {key}, whose policy can't be changed: SNS, EventBridge and other"
        " accounts can't send to it; SSE-SQS has no such limit and costs nothing"
    )
    KEY_DISABLED = _error("its key {key} is disabled: no message can be sent or received")
    KEY_UNKNOWN = _error(
        "the pipeline does not know its key {key}: no function of the pipeline may use it, and what"
        " was sent to the queue stays under it in the DLQ too; {remedy}"
    )
    KEY_CLOSED = _warning(
        "the policy of its key {key} does not let IAM policies decide: each role that sends"
        " (kms:GenerateDataKey, kms:Decrypt) or receives (kms:Decrypt), the automatic retry too,"
        " has to stand in the key's own policy"
    )
    PAGER_KEY = _error("alarms [{may} ]reach no one, and no error is shown: {why}")
    LOGS_KEY = _error(
        "a deployment that makes a log group fails, and logs may not be written[ ({maybe})]: {why}"
    )
    TOPIC_KEY = _note(
        "a queue under this key that subscribes to the topic gets no pages[ ({maybe})]: {why}"
    )
    BLIND_ALARM = _error(
        "it watches {metric}, which does not count messages that SQS moves into a DLQ: it never"
        " rings"
    )
    ACTIONS_OFF = _warning("its actions are disabled: it rings and calls no person")
    NO_ACTION = _warning(
        "it has no action: it rings and calls no person; put it again with --alarm-actions and the"
        " ARN of a topic"
    )
    NO_ALARM = _warning("no alarm looks at its depth or age: messages expire unseen after {kept}")
    BY_BOTO3 = _note("{variable} is set: boto3 makes all its calls, for several times the CPU")
    DEEP_DLQ = _note(
        "it holds about {messages:message}[, the oldest {age} old]. In mode observe they stay. In"
        " mode enforce all that may succeed go back to the main queue: {steps} of them in the first"
        " runs, then as many as the consumer takes. Look first at what they are"
    )
    # Of an account, before a deployment.
    BOOTSTRAP = _error(
        "the bootstrap of the CDK has version {version} here (0: there is none), and a deployment"
        " needs {least}"
    )
    DEPLOYER = _error(
        "it may not do {actions}, by its policies, its boundary or the organization's policies: a"
        " deployment fails[, unless {unless}]"
    )
    FEW_EXECUTIONS = _warning(
        "of its {limit:function} that may run at once, {free} are not reserved; one pipeline takes"
        " up to {needed}, and what is over is throttled: a minute without its monitor pages"
    )
    NO_WAY_OUT = _error(
        "it is missing here, or it has no way out and its VPC no endpoint of {services}: functions"
        " in it reach none of these"
    )
    QUOTA = _warning(
        "it has {has} {kind}, and a deployment makes {made} more; {most} are allowed[, unless"
        " {unless}]"
    )
    RESERVES = _note(
        "{free:execution} are not reserved: `reserve_watch` may be true, and a busy account then"
        " stops no monitor"
    )
    RESERVES_NONE = _note(
        "{free:execution} are not reserved, and Lambda keeps {least} so: leave `reserve_watch`"
        " false, or the deployment fails"
    )

    def __init__(self, level: str, words: str, costs: str) -> None:
        self.level, self.words, self.costs = level, words, costs

    @property
    def check(self) -> str:
        """Its name, as `--json` has it."""
        return self.name.lower().replace("_", "-")

    def says(self, **facts: str | float) -> str:
        """What is wrong."""
        return worded(self.words, facts)

    def of(
        self,
        subject: str,
        fix: str | None,
        *,
        level: str | None = None,
        costs: bool = True,
        **facts: str | float,
    ) -> QueueFault:
        """The fault of one queue, function or alarm; without `costs` its fix is harmless."""
        before = worded(self.costs, facts) if costs and self.costs else None
        says = self.says(**facts)
        return QueueFault(level or self.level, self.check, subject, says, fix, before)


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
    """A Lambda function that consumes a queue, or one of a pipeline. `timeout` is in seconds."""

    name: str
    timeout: int
    isolated: bool = False
    by_boto3: bool = False


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
    return worst_first(_Checks(facts).all())


def worst_first(found: Iterable[QueueFault]) -> Sequence[QueueFault]:
    """Findings by their levels."""
    return sorted(found, key=lambda finding: (ERROR, WARNING, NOTE).index(finding.level))


def backlog(messages: int, oldest: int | None) -> str | None:
    """What a DLQ of so many messages holds, and what a pipeline would do with them.

    None if they are few. `oldest` is the age of the oldest in seconds; None if it is unknown.
    """
    from deadletter.redrive.source_memory import FIRST_STEPS, MANY

    if messages <= MANY:
        return None
    age, steps = "" if oldest is None else duration(oldest), ", ".join(map(str, FIRST_STEPS))
    return DoctorFault.DEEP_DLQ.says(messages=messages, age=age, steps=steps)


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
                yield DoctorFault.ISOLATED.of(consumer.name, None)
            if consumer.by_boto3:
                yield DoctorFault.BY_BOTO3.of(consumer.name, None, variable=BOTO3_VARIABLE)
        if (dlq := facts.dlq) is not None:
            yield from self._dead_letters(dlq)
            yield from self._safety(dlq)
            yield from self._alarms(dlq)
            # In enforce it has happened.
            if (says := backlog(dlq.messages, facts.oldest)) and facts.mode != Mode.ENFORCE:
                groups = f"dlq groups --look --in queue:{quote(dlq.name)} {self._region}"
                deep = DoctorFault.DEEP_DLQ
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
                yield DoctorFault.NONE_NAMED.of(main.name, mended, drained=drained, kept=kept)
            else:
                yield DoctorFault.NO_DLQ.of(main.name, self._new_dlq(main), kept=kept)
            return
        if dlq is None:
            fix = mended if named != own else None
            yield DoctorFault.DLQ_MISSING.of(main.name, fix, dlq=named, kept=kept)
        elif dlq.allowed_sources is not None and main.arn not in dlq.allowed_sources:
            allowed = [*dlq.allowed_sources, main.arn]
            policy = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": allowed})
            fix = self._set(dlq, RedriveAllowPolicy=policy)
            yield DoctorFault.NOT_ALLOWED.of(dlq.name, fix, main=main.name)
        if drained and dlq is not None and dlq.name != drained:
            yield DoctorFault.ANOTHER_DLQ.of(main.name, mended, dlq=dlq.name, drained=drained)
        receives = main.max_receive_count
        if receives is not None and receives < FEWEST_RECEIVES:
            # Typed after the fix of ANOTHER_DLQ, it must not undo it.
            fix = mended or self._redrive(main, named)
            level = ERROR if receives == 1 else WARNING
            yield DoctorFault.FEW_RECEIVES.of(
                main.name, fix, level=level, receives=receives, best=BEST_RECEIVES
            )

    def _retention(self, main: DeployedQueue) -> Iterator[QueueFault]:
        dlq = self._facts.dlq
        # In a FIFO DLQ the time in the queue starts anew.
        if dlq is None or dlq.fifo or dlq.retention > main.retention:
            return
        shortens = main.retention >= LONGEST_RETENTION
        queue, seconds = (main, SHORTER_RETENTION) if shortens else (dlq, LONGEST_RETENTION)
        yield DoctorFault.SHORT_RETENTION.of(
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
                yield DoctorFault.WHOLE_BATCHES.of(function, fix, batch=mapping.batch_size)
            if not mapping.enabled:
                # Only one that we have not paused is enabled by hand.
                paused = {
                    None: DoctorFault.PERHAPS_PAUSED,
                    True: DoctorFault.PAUSED,
                    False: DoctorFault.DISABLED,
                }
                fault = paused[mapping.is_paused]
                enable = self._map(mapping, "--enabled") if fault is DoctorFault.DISABLED else None
                yield fault.of(function, enable, queue=main.name)
            if mapping.pollers is not None:
                yield DoctorFault.PROVISIONED.of(
                    function, None, queue=main.name, pollers=mapping.pollers
                )
            elif mapping.concurrency is None:
                fix = self._map(mapping, "--scaling-config MaximumConcurrency=10")
                yield DoctorFault.NO_CONCURRENCY.of(function, fix, queue=main.name)
            if (consumer := self._facts.consumers.get(function)) is not None:
                yield from self._visibility(main, consumer)

    def _visibility(self, main: DeployedQueue, consumer: QueueConsumer) -> Iterator[QueueFault]:
        least = min(VISIBILITY_PER_TIMEOUT * consumer.timeout, LONGEST_VISIBILITY)
        if main.visibility < least:
            yield DoctorFault.SHORT_VISIBILITY.of(
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
            yield DoctorFault.DLQ_OF_DLQ.of(dlq.name, fix, dlq=below, looks=looks)
        if len(mains) > 1:
            own = next((main for main in mains if _dlq_name(main) == dlq.name), mains[0])
            others = [main for main in mains if main is not own]
            yield DoctorFault.SHARED_DLQ.of(
                dlq.name,
                " && ".join(map(self._new_dlq, others)),
                queues=len(mains),
                names=", ".join(main.name for main in mains),
                dlq=dlq.name,
                others=_names(others),
            )
        for mapping in facts.mappings.get(dlq.arn, ()):
            fix = self._map(mapping, "--no-enabled")
            yield DoctorFault.CONSUMED.of(dlq.name, fix, function=mapping.function)
        for use in facts.uses:
            yield DoctorFault.OTHER_KIND.of(dlq.name, None, use=use, mains=_names(mains))
        if not mains:
            unless = "" if facts.uses else "its source is in another account"
            yield DoctorFault.NO_SOURCE.of(dlq.name, None, unless=unless)

    def _safety(self, queue: DeployedQueue) -> Iterator[QueueFault]:
        """Encryption, keys and TLS."""
        if queue.encryption == NONE:
            yield DoctorFault.UNENCRYPTED.of(
                queue.name, self._set(queue, SqsManagedSseEnabled="true")
            )
        found = statements(queue.policy)
        if not any(map(_demands_tls, found)):
            demand = {**_ONLY_WITH_TLS, "Resource": queue.arn}
            policy = {"Version": "2012-10-17", **queue.policy, "Statement": [*found, demand]}
            yield DoctorFault.NO_TLS.of(queue.name, self._set(queue, Policy=json.dumps(policy)))
        if queue.encryption == _MANAGED_KEY:
            fix = self._set(queue, KmsMasterKeyId="", SqsManagedSseEnabled="true")
            yield DoctorFault.MANAGED_KEY.of(queue.name, fix, key=_MANAGED_KEY)
        elif (key := self._facts.keys.get(queue.key or "")) is not None:
            yield from self._key(queue, key)

    def _key(self, queue: DeployedQueue, key: EncryptionKey) -> Iterator[QueueFault]:
        facts, named = self._facts, f"--key-id {quote(key.id)}"
        if not key.enabled:
            fix = f"aws kms enable-key {named} {self._region}"
            yield DoctorFault.KEY_DISABLED.of(queue.name, fix, key=key.id)
        if facts.granted is not None and key.arn and key.arn not in facts.granted:
            setting = "dlq" if queue is facts.dlq else "main_queue"
            is_ours = queue in (facts.dlq, *facts.mains[:1])
            remedy = f"name it in the settings ({setting}.kms_key_arn) and deploy"
            remedy = remedy if is_ours else "give this queue a DLQ of its own"
            yield DoctorFault.KEY_UNKNOWN.of(queue.name, None, key=key.id, remedy=remedy)
        if key.policy is not None and not any(map(_lets_iam_decide, statements(key.policy))):
            shows = f"--policy-name default {self._region} --output text"
            yield DoctorFault.KEY_CLOSED.of(
                queue.name, f"aws kms get-key-policy {named} {shows}", key=key.id
            )

    def _key_uses(self) -> Iterator[QueueFault]:
        """Whether CloudWatch can publish to the app's topic, and others can use the app's key."""
        facts, app, topic = self._facts, self._facts.app_key, self._facts.topic_key
        name, id_ = facts.topic.rpartition(":")[2], "" if app is None else app.id
        for use, key, subject, fault, unsure in (
            ("cloudwatch", topic, name, DoctorFault.PAGER_KEY, WARNING),
            ("logs", app, id_, DoctorFault.LOGS_KEY, NOTE),
            ("sns", topic and app, id_, DoctorFault.TOPIC_KEY, NOTE),
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
                yield DoctorFault.BLIND_ALARM.of(alarm.name, fix, metric=alarm.metric)
            elif not alarm.enabled:
                named = f"--alarm-names {quote(alarm.name)} {self._region}"
                fix = f"aws cloudwatch enable-alarm-actions {named}"
                yield DoctorFault.ACTIONS_OFF.of(alarm.name, fix)
            elif not alarm.actions:
                yield DoctorFault.NO_ACTION.of(alarm.name, None)
        if not any(alarm.metric in _SEES for alarm in own):
            called = [facts.topic] if facts.topic else ()
            fix = self._put_alarm(f"{dlq.name}-not-empty", dlq, called)
            yield DoctorFault.NO_ALARM.of(dlq.name, fix, kept=duration(dlq.retention))

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
        for value in listed(given)
    ]
    return statement.get("Effect") == "Deny" and "false" in values


def _lets_iam_decide(statement: Mapping[str, Any]) -> bool:
    """Whether a statement of a key gives the account's root all actions, so that IAM decides."""
    principal = statement.get("Principal")
    names = listed(principal.get("AWS", []) if isinstance(principal, dict) else principal)
    is_root = any(str(name).endswith(":root") or name == "*" for name in names)
    allowed = listed(statement.get("Action", []))
    return statement.get("Effect") == "Allow" and is_root and "kms:*" in allowed
