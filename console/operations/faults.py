"""What may be wrong with a queue, its consumer, its keys or its alarms: the words of each fault.

`doctor_checks` says which fault it has found, with its facts and its repair.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from deadletter.signals.troubles import worded

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


def _error(says: str, costs: str = "") -> tuple[str, str, str]:
    return ERROR, says, costs


def _warning(says: str, costs: str = "") -> tuple[str, str, str]:
    return WARNING, says, costs


def _note(says: str, costs: str = "") -> tuple[str, str, str]:
    return NOTE, says, costs


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
    DEEP_DLQ = _note(
        "it holds about {messages:message}[, the oldest {age} old]. In mode observe they stay. In"
        " mode enforce all that may succeed go back to the main queue: {steps} of them in the first"
        " runs, then as many as the consumer takes. Look first at what they are"
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
