"""Where the backends of the contract suite are known to differ from AWS.

A test that carries `@pytest.mark.difference(id)` says what AWS does. On a backend that has
something else in its column the test has to fail: a difference that is gone fails the suite.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """What AWS does, and what a backend does instead; "" is: the same as AWS."""

    aws: str
    memory: str = ""
    moto: str = ""


DIFFERENCES: dict[str, Difference] = {
    "sqs-body": Difference(
        aws="refuses an empty body and characters outside the XML set",
        moto="accepts both",
    ),
    "sqs-negative-delay": Difference(aws="refuses a DelaySeconds of -1", moto="accepts it"),
    "sqs-deduplication-id-on-standard": Difference(
        aws="refuses a MessageDeduplicationId on a standard queue", moto="accepts it"
    ),
    "sqs-group-id": Difference(
        aws="takes up to 128 printable characters as a MessageGroupId", moto="takes anything"
    ),
    "sqs-trace-header": Difference(
        aws="checks AWSTraceHeader and answers with its MD5", moto="does neither"
    ),
    "sqs-ten-attributes": Difference(aws="allows ten message attributes", moto="allows any number"),
    "sqs-attribute-value": Difference(
        aws="refuses an attribute value that is empty, or not of its type", moto="accepts it"
    ),
    "sqs-attribute-name": Difference(
        aws="has rules for periods, length and reserved prefixes", moto="knows only the alphabet"
    ),
    "sqs-size-with-attributes": Difference(
        aws="counts attributes into the size of a message and a batch", moto="counts bodies only"
    ),
    "sqs-size-in-bytes": Difference(aws="measures bytes of UTF-8", moto="measures characters"),
    "sqs-entry-too-long": Difference(
        aws="fails the entry that is longer than the queue allows", moto="fails the whole batch"
    ),
    "sqs-unknown-system-attribute": Difference(
        aws="refuses a receive that asks for an unknown system attribute", moto="ignores the name"
    ),
    "sqs-retention": Difference(
        aws="forgets a message when its retention is over; on FIFO the DLQ starts it anew",
        moto="still counts it; on FIFO it runs on from the first send",
    ),
    "sqs-stale-handle": Difference(
        aws="may ignore a handle from an earlier receive", moto="always honours it"
    ),
    "sqs-handle-expiry": Difference(
        aws="lets handles expire: after 12 h, on FIFO with the visibility timeout",
        moto="honours them for ever",
    ),
    "sqs-delete-batch": Difference(
        aws="checks the number and the ids of a batch of deletes", moto="checks neither"
    ),
    "sqs-twelve-hours": Difference(
        aws="counts 12 h of visibility from the receive", moto="counts them from the send"
    ),
    "sqs-negative-timeout": Difference(aws="refuses a VisibilityTimeout of -1", moto="accepts it"),
    "sqs-visibility-of-deleted": Difference(
        aws="answers InvalidParameterValue for a message that is gone",
        moto="answers ReceiptHandleIsInvalid",
    ),
    "sqs-dead-letter-source": Difference(
        aws="shows DeadLetterQueueSourceArn", moto="never shows it"
    ),
    "sqs-redrive-policy": Difference(
        aws="checks the target's existence and type, and 1 to 1000 receives",
        moto="checks that both members are there",
    ),
    "sqs-sequence-numbers": Difference(
        aws="numbers the messages of a FIFO queue upwards", moto="draws random numbers"
    ),
    "sqs-deduplication-answer": Difference(
        aws="answers a repeated send with the first message's ids", moto="answers with new ones"
    ),
    "sqs-deduplication-memory": Difference(
        aws="remembers a deduplication id for five minutes, also after the message is deleted",
        moto="forgets it with the message",
    ),
    "sqs-fifo-batch": Difference(
        aws="answers InvalidParameterValue for a batch whose entry has no group",
        moto="answers MissingParameter",
    ),
    "sqs-fifo-name": Difference(
        aws="keeps .fifo to FIFO queues", moto="lets a standard queue end in it"
    ),
    "sqs-queue-attributes": Difference(
        aws="has limits for queue attributes, and keeps some to FIFO",
        moto="accepts any value in SetQueueAttributes",
    ),
    "dynamodb-number-spelling": Difference(
        aws="trims zeros and writes exponents out", moto="gives a number back as it came"
    ),
    "dynamodb-number": Difference(
        aws="has 38 digits and a largest number, and compares numbers by value in a set",
        moto="takes any digits, and compares them as text",
    ),
    "dynamodb-digits": Difference(
        aws="refuses a sum of more than 38 digits", moto="rounds or keeps it"
    ),
    "dynamodb-set-members": Difference(
        aws="refuses a set that names a member twice", moto="drops the second"
    ),
    "dynamodb-one-type": Difference(
        aws="wants exactly one type in a value", moto="fails in itself, or takes the first"
    ),
    "dynamodb-nesting": Difference(aws="nests 32 levels deep", moto="nests without a limit"),
    "dynamodb-item-size": Difference(
        aws="takes items of 400 KB, a KB being 1,024 bytes", moto="takes 405,000 bytes"
    ),
    "dynamodb-key-type": Difference(
        aws="refuses a key of a wrong type in reads and deletes", moto="finds nothing"
    ),
    "dynamodb-index-key": Difference(
        aws="checks the type of an index's key attribute in a put", moto="checks updates only"
    ),
    "dynamodb-condition-syntax": Difference(
        aws="refuses a condition that it can't read, and placeholders not given or not used",
        moto="fails in itself, or ignores them",
    ),
    "dynamodb-operands": Difference(
        aws="checks the operands of comparisons; what is not there equals nothing",
        moto="compares anything; two absent attributes are equal",
    ),
    "dynamodb-document-path": Difference(
        aws="refuses to set a member of a text", moto="accepts it"
    ),
    "dynamodb-updated-old": Difference(
        aws="shows the updated members of a map in UPDATED_OLD", moto="shows the whole map"
    ),
    "dynamodb-last-page": Difference(
        aws="gives a LastEvaluatedKey with every full page", moto="knows that nothing follows"
    ),
    "dynamodb-key-condition": Difference(
        aws="refuses <>, OR and reversed bounds in a key condition, and unused values",
        moto="fails in itself, or accepts them",
    ),
    "dynamodb-query": Difference(
        aws="refuses an unknown index, a filter on a key and a start key that doesn't fit",
        moto="has another code for the first and accepts the others",
    ),
    "dynamodb-batch": Difference(
        aws="writes 25 items a batch, each once",
        moto="takes more, and an item both put and deleted",
    ),
    "dynamodb-transaction-update": Difference(
        aws="cancels a transaction whose update doesn't fit its item, with a reason",
        moto="answers ValidationException",
    ),
    "dynamodb-token": Difference(
        aws="remembers a ClientRequestToken for ten minutes", moto="ignores it"
    ),
    "s3-delete-objects": Difference(
        aws="deletes at most 1,000 objects at once", moto="deletes any number"
    ),
    "s3-quiet-delete": Difference(
        aws="names no deleted objects in a quiet answer", moto="names them"
    ),
    "s3-key-length": Difference(
        aws="measures a key in bytes, at most 1,024", moto="measures characters"
    ),
}
