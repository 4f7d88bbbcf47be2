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
    sandbox: str = ""


DIFFERENCES: dict[str, Difference] = {
    "sqs-body": Difference(
        aws="refuses an empty body and characters outside the XML set", moto="accepts both"
    ),
    "sqs-negative-delay": Difference(
        aws="refuses a DelaySeconds of -1", moto="accepts it", sandbox="accepts it"
    ),
    "sqs-long-delay": Difference(aws="refuses a DelaySeconds of 901", sandbox="accepts it"),
    "sqs-deduplication-id-on-standard": Difference(
        aws="refuses a MessageDeduplicationId on a standard queue",
        moto="accepts it",
        sandbox="accepts it",
    ),
    "sqs-group-id": Difference(
        aws="takes up to 128 printable characters as a MessageGroupId",
        moto="takes anything",
        sandbox="takes anything",
    ),
    "sqs-trace-header": Difference(
        aws="checks AWSTraceHeader and answers with its MD5",
        moto="does neither",
        sandbox="does neither",
    ),
    "sqs-trace-header-in-a-batch": Difference(
        aws="takes an AWSTraceHeader with each entry of a batch",
        moto="drops it",
        sandbox="drops it",
    ),
    "sqs-ten-attributes": Difference(
        aws="allows ten message attributes", moto="allows any number", sandbox="allows any number"
    ),
    "sqs-attribute-value": Difference(
        aws="refuses an attribute value that is empty, or not of its type",
        moto="accepts it",
        sandbox="accepts it",
    ),
    "sqs-attribute-type": Difference(
        aws="knows String, Number and Binary, with suffixes", sandbox="takes any data type"
    ),
    "sqs-attribute-name": Difference(
        aws="has rules for periods, length and reserved prefixes",
        moto="knows only the alphabet",
        sandbox="takes any name",
    ),
    "sqs-attribute-alphabet": Difference(
        aws="has an alphabet for attribute names", sandbox="takes any name"
    ),
    "sqs-size-with-attributes": Difference(
        aws="counts attributes into the size of a message and a batch",
        moto="counts bodies only",
        sandbox="counts bodies only",
    ),
    "sqs-size-in-bytes": Difference(aws="measures bytes of UTF-8", moto="measures characters"),
    "sqs-entry-too-long": Difference(
        aws="fails the entry that is longer than the queue allows", moto="fails the whole batch"
    ),
    "sqs-longest-times": Difference(
        aws="waits for 20 s and hides for 12 h at most", sandbox="has no limit"
    ),
    "sqs-retention": Difference(
        aws="forgets a message when its retention is over; on FIFO the DLQ starts it anew",
        moto="still counts it; on FIFO it runs on from the first send",
    ),
    "sqs-stale-handle": Difference(
        aws="may ignore a handle from an earlier receive",
        moto="always honours it",
        sandbox="answers ReceiptHandleIsInvalid",
    ),
    "sqs-handle-expiry": Difference(
        aws="lets handles expire: after 12 h, on FIFO with the visibility timeout",
        moto="honours them for ever",
        sandbox="honours them until the next receive",
    ),
    "sqs-repeated-delete": Difference(
        aws="lets a deleted message be deleted again", sandbox="answers ReceiptHandleIsInvalid"
    ),
    "sqs-delete-batch": Difference(
        aws="checks the number and the ids of a batch of deletes", moto="checks neither"
    ),
    "sqs-twelve-hours": Difference(
        aws="counts 12 h of visibility from the receive", moto="counts them from the send"
    ),
    "sqs-twelve-hours-in-total": Difference(
        aws="hides a message for 12 h in total at most", sandbox="adds them up for ever"
    ),
    "sqs-long-timeout-in-a-batch": Difference(
        aws="refuses a VisibilityTimeout of 50,000 in a batch", sandbox="accepts it"
    ),
    "sqs-negative-timeout": Difference(
        aws="refuses a VisibilityTimeout of -1", moto="accepts it", sandbox="accepts it"
    ),
    "sqs-visibility-of-deleted": Difference(
        aws="answers InvalidParameterValue for a message that is gone",
        moto="answers ReceiptHandleIsInvalid",
        sandbox="answers ReceiptHandleIsInvalid",
    ),
    "sqs-dead-letter-source": Difference(
        aws="shows DeadLetterQueueSourceArn", moto="never shows it"
    ),
    "sqs-redrive-policy": Difference(
        aws="checks the target's existence, and 1 to 1000 receives",
        moto="checks that both members are there",
    ),
    "sqs-redrive-policy-code": Difference(
        aws="answers InvalidParameterValue for a redrive policy",
        sandbox="answers InvalidAttributeValue",
    ),
    "sqs-redrive-type": Difference(
        aws="wants a dead-letter queue of its source's type",
        moto="accepts any",
        sandbox="accepts any",
    ),
    "sqs-sequence-numbers": Difference(
        aws="numbers the messages of a FIFO queue upwards", moto="draws random numbers"
    ),
    "sqs-deduplication-answer": Difference(
        aws="answers a repeated send with the first message's ids", moto="answers with new ones"
    ),
    "sqs-moved-deduplication-id": Difference(
        aws="gives what it moves into a FIFO DLQ its own id as its deduplication id",
        moto="keeps the sender's",
        sandbox="keeps the sender's",
    ),
    "sqs-deduplication-memory": Difference(
        aws="remembers a deduplication id for five minutes, also after the message is deleted",
        moto="forgets it with the message",
    ),
    "sqs-fifo-batch": Difference(
        aws="answers InvalidParameterValue for a batch whose entry has no group",
        moto="answers MissingParameter",
        sandbox="fails the entry only, with MissingParameter",
    ),
    "sqs-fifo-name": Difference(
        aws="keeps .fifo to FIFO queues",
        moto="lets a standard queue end in it",
        sandbox="lets a standard queue end in it",
    ),
    "sqs-queue-attributes": Difference(
        aws="has limits for queue attributes", moto="accepts any value in SetQueueAttributes"
    ),
    "sqs-fifo-attributes": Difference(
        aws="keeps ContentBasedDeduplication to FIFO queues",
        moto="accepts it",
        sandbox="accepts it",
    ),
    "sqs-queue-attribute-names": Difference(
        aws="shows the queue attributes that are asked for, and refuses unknown names",
        sandbox="shows all if none is asked for, and ignores unknown names",
    ),
    "dynamodb-number-spelling": Difference(
        aws="trims zeros and writes exponents out", moto="gives a number back as it came"
    ),
    "dynamodb-number": Difference(
        aws="has 38 digits and a largest number, and compares numbers by value in a set",
        moto="takes any digits, and compares them as text",
    ),
    "dynamodb-digits": Difference(
        aws="refuses a sum of more than 38 digits", moto="rounds or keeps it", sandbox="keeps it"
    ),
    "dynamodb-set-members": Difference(
        aws="refuses a set that names a member twice", moto="drops the second"
    ),
    "dynamodb-one-type": Difference(
        aws="wants exactly one type in a value", moto="fails in itself, or takes the first"
    ),
    "dynamodb-nesting": Difference(
        aws="nests 32 levels deep, the innermost value being one",
        moto="nests without a limit",
    ),
    "dynamodb-item-size": Difference(
        aws="takes items of 400 KB, a KB being 1,024 bytes", moto="takes 405,000 bytes"
    ),
    "dynamodb-key-type": Difference(
        aws="refuses a key of a wrong type in reads and deletes", moto="finds nothing"
    ),
    "dynamodb-index-key": Difference(
        aws="checks the type of an index's key attribute", moto="checks none"
    ),
    "dynamodb-update-twice": Difference(
        aws="refuses an update that changes an attribute twice", sandbox="accepts it"
    ),
    "dynamodb-last-page": Difference(
        aws="gives a LastEvaluatedKey with every full page", moto="knows that nothing follows"
    ),
    "dynamodb-key-condition": Difference(
        aws="refuses reversed bounds in a key condition, and unused values", moto="accepts them"
    ),
    "dynamodb-key-operators": Difference(
        aws="refuses <> and OR in a key condition",
        moto="fails in itself, or accepts them",
        sandbox="accepts them",
    ),
    "dynamodb-query": Difference(
        aws="refuses an unknown index, and a start key that doesn't fit",
        moto="has another code for the first and accepts the second",
    ),
    "dynamodb-filter-on-key": Difference(
        aws="refuses a filter on a key", moto="accepts it", sandbox="accepts it"
    ),
    "dynamodb-batch": Difference(
        aws="writes 25 items a batch, each once",
        moto="takes more, and an item both put and deleted",
    ),
    "dynamodb-batch-read-size": Difference(
        aws="reads 16 MB a batch, and names the rest", sandbox="reads everything"
    ),
    "dynamodb-transaction-update": Difference(
        aws="cancels a transaction whose update doesn't fit its item, with a reason",
        moto="answers ValidationException",
    ),
    "s3-key-length": Difference(
        aws="measures a key in bytes, at most 1,024",
        moto="measures characters",
        sandbox="takes any length",
    ),
}
