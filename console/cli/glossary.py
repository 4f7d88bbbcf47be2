"""The words of Deadletter, for `dlq help words` and docs/words.md."""

from __future__ import annotations

from collections.abc import Mapping

TERMS: Mapping[str, str] = {
    "message": "One SQS message with its history. Its message ID is its first one, for ever; SQS "
    "gives each retry a new one, its current ID.",
    "business ID": "Your own number for a message, such as an order's: what idempotency_key finds.",
    "pipeline": "A main queue with its DLQs, parking queues, consumer and settings.",
    "DLQ": "The queue that SQS moves a message to after its last receive. A dedicated DLQ is one "
    "that a rule sets apart, such as a tenant's.",
    "attempt": "One way of a message from the main queue until it is processed or dead. It has one "
    "or more receives.",
    "retry": "A message is sent back to the main queue: automatically, or by a person's run.",
    "run": "A person's retry, discard or restore: planned, paced, stoppable, and each message "
    "accounted for. Also a turn of the automatic retry, which dlq run list leaves out.",
    "waiting": "Held outside SQS until a time, a circuit, a rule, a cause or a run lets it go.",
    "parked": "Automation has given it up: it is a person's turn. SQS does not delete it in mode "
    "enforce.",
    "discard": "A person throws a message away, and a copy is kept; restore brings it back.",
    "cause": "Failures of one kind, and their ID, whose first 8 digits dlq shows.",
    "failure record": "Why and when each receive of a message failed.",
    "rule": "What a person says of messages: QUARANTINE, HOLD, DELAYED_REDRIVE, THROTTLE, "
    "DEDICATED_DLQ or DEFAULT.",
    "shadow": "A rule that only counts what it would have done.",
    "mode": "observe decides and reports, and moves nothing; enforce moves.",
    "circuit": "Whether a dependency is called: closed (yes), open (no), half-open (a few calls "
    "try it).",
    "canary": "The first few messages of a run, or the call that tries an open circuit.",
    "monitor": "The function that looks at a pipeline each minute, and rings its alarms.",
    "expiry": "When SQS would delete a message. Mode enforce has it wait outside SQS before, if it "
    "is in a DLQ or parked.",
}
"""Each term that a person needs, and what it means; a sentence each, or two."""
