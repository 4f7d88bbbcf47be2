"""SQS: what it refuses, what it keeps, and what it hides."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from tools.verify_aws.account import AskedAccount, allow, code_of, expect, quietly, refused, taken
from tools.verify_aws.check import check

TEXT = {"DataType": "String", "StringValue": "x"}
MIB = 1024 * 1024
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def receive(account: AskedAccount, url: str, seconds: float = 30, **more: Any) -> dict[str, Any]:
    """One message with everything that it carries; hidden for a minute unless told otherwise."""
    sqs = account.client("sqs")
    asked = {
        "MessageAttributeNames": ["All"],
        "MessageSystemAttributeNames": ["All"],
        "VisibilityTimeout": 60,
        "WaitTimeSeconds": account.poll_seconds,
        **more,
    }
    found = account.until(
        lambda: sqs.receive_message(QueueUrl=url, **asked).get("Messages"), seconds, "a message"
    )
    return dict(found[0])


def comes(account: AskedAccount, url: str) -> bool:
    """True if a message can be received within five long polls."""
    sqs = account.client("sqs")
    return any(
        sqs.receive_message(QueueUrl=url, WaitTimeSeconds=account.poll_seconds).get("Messages")
        for _ in range(5)
    )


@check("sqs-ten-attributes", creates="a queue")
def ten_attributes(account: AskedAccount) -> str:
    """Is a message with ten attributes taken, and one with eleven refused?"""
    sqs, url = account.client("sqs"), account.queue()
    names = {f"a{number}": TEXT for number in range(11)}
    ten = dict(list(names.items())[:10])
    taken(sqs.send_message, QueueUrl=url, MessageBody="x", MessageAttributes=ten)
    code = refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageAttributes=names)
    return f"ten taken, eleven refused with {code}"


@check("sqs-message-size", "sqs-size-with-attributes", creates="a queue")
def message_size(account: AskedAccount) -> str:
    """Is a mebibyte taken, and one byte more refused, attributes counted?"""
    sqs, url = account.client("sqs"), account.queue()
    # Name, type and value of the attribute count: 1 + 6 + 1 bytes.
    fits = "x" * (MIB - 8)
    taken(sqs.send_message, QueueUrl=url, MessageBody=fits, MessageAttributes={"a": TEXT})
    code = refused(
        sqs.send_message, QueueUrl=url, MessageBody=fits + "x", MessageAttributes={"a": TEXT}
    )
    refused(sqs.send_message, QueueUrl=url, MessageBody="x" * (MIB + 1))
    return f"1,048,576 bytes taken, one more refused with {code}"


@check("sqs-batch-size", creates="a queue")
def batch_size(account: AskedAccount) -> str:
    """Is a batch of more than a mebibyte refused as a whole?"""
    sqs, url = account.client("sqs"), account.queue()
    half = "x" * (MIB // 2)
    entries = [{"Id": str(number), "MessageBody": half} for number in range(2)]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    expect(len(answer.get("Successful", [])) == 2, f"two halves: {answer.get('Failed')}")
    entries[1]["MessageBody"] += "x"
    code = refused(
        sqs.send_message_batch,
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "BatchRequestTooLong",
        QueueUrl=url,
        Entries=entries,
    )
    return f"a mebibyte taken, one byte more refused with {code}"


@check("sqs-batch-ids", creates="a queue")
def batch_ids(account: AskedAccount) -> str:
    """Are an empty batch, eleven entries, and an id twice refused as a whole?"""
    sqs, url = account.client("sqs"), account.queue()
    entries = [{"Id": str(number), "MessageBody": "x"} for number in range(11)]
    codes = [
        refused(sqs.send_message_batch, QueueUrl=url, Entries=batch)
        for batch in (entries, [entries[0], entries[0]])
    ]
    return f"refused with {' and '.join(codes)}"


@check("sqs-batch-per-entry", creates="a queue")
def batch_per_entry(account: AskedAccount) -> str:
    """Does a batch succeed for its good entry when the other has a delay of 901 s?"""
    sqs, url = account.client("sqs"), account.queue()
    answer = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "MessageBody": "x"},
            {"Id": "bad", "MessageBody": "x", "DelaySeconds": 901},
        ],
    )
    good = [entry["Id"] for entry in answer.get("Successful", [])]
    bad = {entry["Id"]: entry["Code"] for entry in answer.get("Failed", [])}
    expect(good == ["good"] and list(bad) == ["bad"], f"taken {good}, failed {bad}")
    return f"the good entry is taken, the bad one fails with {bad['bad']}"


@check("sqs-body", creates="a queue")
def body(account: AskedAccount) -> str:
    """Does a body keep every character that XML allows, and is one without any refused?"""
    sqs, url = account.client("sqs"), account.queue()
    allowed = "\t\n\r \ud7ff\ue000\ufffd\U00010000\U0010ffff"
    sqs.send_message(QueueUrl=url, MessageBody=allowed)
    expect(receive(account, url)["Body"] == allowed, "allowed characters were changed")
    code = refused(sqs.send_message, QueueUrl=url, MessageBody="\u000b")
    # AWS's pages differ: one says refused, another that U+FFFD takes its place. What we send
    # came out of a queue, so it holds neither.
    try:
        sqs.send_message(QueueUrl=url, MessageBody="x\u000b")
    except ClientError as error:
        return f"refused with {code}; beside an allowed one refused with {code_of(error)}"
    return f"refused with {code}; beside an allowed one stored as {receive(account, url)['Body']!r}"


@check("sqs-delete-per-entry", creates="a queue")
def delete_per_entry(account: AskedAccount) -> str:
    """Does a batch of deletes fail for the wrong handle only?"""
    sqs, url = account.client("sqs"), account.queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    message = receive(account, url)
    answer = sqs.delete_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "ReceiptHandle": message["ReceiptHandle"]},
            {"Id": "bad", "ReceiptHandle": "no handle"},
        ],
    )
    good = [entry["Id"] for entry in answer.get("Successful", [])]
    bad = {entry["Id"]: entry["Code"] for entry in answer.get("Failed", [])}
    expect(good == ["good"] and list(bad) == ["bad"], f"deleted {good}, failed {bad}")
    return f"the right handle deletes, the wrong one fails with {bad['bad']}"


@check("sqs-delay", "sqs-long-delay", "sqs-negative-delay", creates="a queue")
def delay(account: AskedAccount) -> str:
    """Is a delay of 900 s taken, and are 901 and -1 refused?"""
    sqs, url = account.client("sqs"), account.queue()
    taken(sqs.send_message, QueueUrl=url, MessageBody="x", DelaySeconds=900)
    codes = [
        refused(sqs.send_message, QueueUrl=url, MessageBody="x", DelaySeconds=seconds)
        for seconds in (901, -1)
    ]
    return f"refused with {' and '.join(codes)}"


@check("sqs-fifo-delay", creates="a FIFO queue")
def fifo_delay(account: AskedAccount) -> str:
    """Is a delay of one message refused on a FIFO queue?"""
    sqs, url = account.client("sqs"), account.queue(FifoQueue="true")
    code = refused(
        sqs.send_message,
        QueueUrl=url,
        MessageBody="x",
        MessageGroupId="g",
        MessageDeduplicationId="d",
        DelaySeconds=5,
    )
    return f"refused with {code}"


@check("sqs-deduplication-memory", "sqs-deduplication-answer", creates="a FIFO queue", seconds=40)
def deduplication_memory(account: AskedAccount) -> str:
    """Is a deduplication id remembered after its message was deleted?"""
    sqs, url = account.client("sqs"), account.queue(FifoQueue="true")
    same = {"QueueUrl": url, "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    first = sqs.send_message(MessageBody="first", **same)
    message = receive(account, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    second = sqs.send_message(MessageBody="second", **same)
    expect(not comes(account, url), "the second message was delivered")
    equal = "the first" if second["MessageId"] == first["MessageId"] else "another"
    expect(equal == "the first", "taken and not delivered, with a new message id")
    return f"taken and not delivered, with {equal} message's id"


@check("sqs-fifo-group-lock", creates="a FIFO queue", seconds=40)
def fifo_group_lock(account: AskedAccount) -> str:
    """Is the rest of a group hidden while one of its messages is in flight?"""
    sqs, url = account.client("sqs"), account.queue(FifoQueue="true")
    for number in "01":
        sqs.send_message(
            QueueUrl=url, MessageBody=number, MessageGroupId="g", MessageDeduplicationId=number
        )
    first = receive(account, url)
    expect(first["Body"] == "0", "the second message came first")
    expect(not comes(account, url), "the second message came while the first was in flight")
    return "the second message stays hidden"


@check("sqs-longest-times", "sqs-twelve-hours-in-total", creates="a queue")
def twelve_hours(account: AskedAccount) -> str:
    """Is a visibility refused that adds up to more than twelve hours since the receive?"""
    sqs, url = account.client("sqs"), account.queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    message = receive(account, url)
    handle = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
    single = refused(sqs.change_message_visibility, VisibilityTimeout=43_201, **handle)
    account.pause(3)
    total = refused(sqs.change_message_visibility, VisibilityTimeout=43_200, **handle)
    sqs.change_message_visibility(VisibilityTimeout=43_000, **handle)
    return f"43,201 s refused with {single}, 43,200 s after 3 s with {total}"


@check("sqs-release-at-once", creates="a queue")
def release_at_once(account: AskedAccount) -> str:
    """Is a message that is given back, by a visibility of 0, seen again at once?"""
    sqs, url = account.client("sqs"), account.queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    message = receive(account, url)
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
    )
    again = receive(account, url, 10)
    count = again["Attributes"]["ApproximateReceiveCount"]
    expect(again["MessageId"] == message["MessageId"], "another message came")
    return f"seen again, with a receive count of {count}"


@check("sqs-visibility-per-receive", creates="a queue whose default visibility is 0", seconds=30)
def visibility_per_receive(account: AskedAccount) -> str:
    """Does the visibility of a receive win over the queue's own?"""
    sqs, url = account.client("sqs"), account.queue(VisibilityTimeout="0")
    sqs.send_message(QueueUrl=url, MessageBody="x")
    receive(account, url)
    expect(not comes(account, url), "the message came again although it was hidden for a minute")
    return "hidden for the time that the receive asked for"


@check("sqs-stale-handle", creates="a queue", seconds=30)
def stale_handle(account: AskedAccount) -> str:
    """Does an old handle, after the next receive, leave the message to its new holder?"""
    sqs, url = account.client("sqs"), account.queue()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    old = receive(account, url, VisibilityTimeout=0)
    new = receive(account, url)
    try:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=old["ReceiptHandle"])
        said = "taken"
    except ClientError as error:
        said = f"refused with {code_of(error)}"
    # Visible again at once, unless it is gone.
    quietly(
        sqs.change_message_visibility,
        QueueUrl=url,
        ReceiptHandle=new["ReceiptHandle"],
        VisibilityTimeout=0,
    )
    left = comes(account, url)
    # AWS promises neither: nothing of ours may depend on it, so both answers hold.
    return f"the delete was {said}, and the message {'stays' if left else 'is gone'}"


def dead_lettered(account: AskedAccount, *, fifo: bool = False) -> tuple[str, str, str]:
    """A main queue and a DLQ into which SQS has moved one message; the message's first id."""
    sqs, kind = account.client("sqs"), {"FifoQueue": "true"} if fifo else {}
    dead = account.queue("dead", **kind)
    policy = {"deadLetterTargetArn": account.queue_arn(dead), "maxReceiveCount": 1}
    main = account.queue("main", RedrivePolicy=json.dumps(policy), **kind)
    of_fifo = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if fifo else {}
    sent = sqs.send_message(
        **of_fifo,
        QueueUrl=main,
        MessageBody="x",
        MessageAttributes={"a": TEXT},
        MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}},
    )
    receive(account, main, VisibilityTimeout=0)

    def moved() -> bool:
        sqs.receive_message(QueueUrl=main, VisibilityTimeout=0)
        count = sqs.get_queue_attributes(
            QueueUrl=dead, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(count["Attributes"]["ApproximateNumberOfMessages"]) > 0

    account.until(moved, 60, "SQS moved the message into the DLQ")
    return main, dead, str(sent["MessageId"])


@check("sqs-move-keeps", "sqs-dead-letter-source", creates="a queue and a DLQ", seconds=90)
def move_keeps(account: AskedAccount) -> str:
    """Does the automatic move keep id, attributes and trace header, and name its source?"""
    main, dead, first = dead_lettered(account)
    letter = receive(account, dead)
    system = letter["Attributes"]
    expect(letter["MessageId"] == first, "the move gave the message another id")
    expect(letter.get("MessageAttributes", {}).keys() == {"a"}, "the attribute is gone")
    expect(system.get("AWSTraceHeader") == TRACE, f"trace header {system.get('AWSTraceHeader')}")
    source = system.get("DeadLetterQueueSourceArn")
    expect(source == account.queue_arn(main), f"DeadLetterQueueSourceArn is {source}")
    return f"kept; its receive count in the DLQ is {system['ApproximateReceiveCount']}"


@check("sqs-sender-after-move", creates="a queue and a DLQ", seconds=90)
def sender_after_move(account: AskedAccount) -> str:
    """Does a message that SQS moved into a DLQ still say who sent it?"""
    me = account.client("sts").get_caller_identity()["UserId"]
    _, dead, _ = dead_lettered(account)
    seen = receive(account, dead)["Attributes"].get("SenderId")
    expect(seen == me, f"SenderId in the DLQ is {seen}, the sender was {me}")
    return "SenderId in the DLQ is the first sender's"


@check("sqs-deduplication-after-move", creates="two FIFO queues", seconds=90)
def deduplication_after_move(account: AskedAccount) -> str:
    """Does the move into a FIFO DLQ replace the deduplication id by the message's id?"""
    _, dead, first = dead_lettered(account, fifo=True)
    seen = receive(account, dead)["Attributes"].get("MessageDeduplicationId")
    expect(seen == first, f"the deduplication id in the DLQ is {seen}, the message's id {first}")
    return "replaced by the message's id"


@check("sqs-move-task", creates="a queue, a DLQ and a move task", seconds=150)
def move_task(account: AskedAccount) -> str:
    """Does StartMessageMoveTask give new ids, and refuse a source that is no DLQ?"""
    sqs = account.client("sqs")
    main, dead, first = dead_lettered(account)
    lot = account.queue("parking")
    code = refused(sqs.start_message_move_task, SourceArn=account.queue_arn(lot))
    task = sqs.start_message_move_task(SourceArn=account.queue_arn(dead))
    twice = refused(sqs.start_message_move_task, SourceArn=account.queue_arn(dead))
    account.remove(
        "move task",
        lambda: quietly(sqs.cancel_message_move_task, TaskHandle=task["TaskHandle"]),
    )
    letter = receive(account, main, 120)
    expect(letter["MessageId"] != first, "the task kept the message's id")
    return f"a new id; a parking lot is refused with {code}, a second task with {twice}"


@check("sqs-redrive-type", creates="a FIFO queue")
def redrive_type(account: AskedAccount) -> str:
    """Is a DLQ of another type than its source's refused?"""
    return f"refused with {_refused_dlq(account, account.queue(FifoQueue='true'))}"


@check("sqs-redrive-allow", creates="two queues")
def redrive_allow(account: AskedAccount) -> str:
    """Does a redrive allow policy keep other queues from naming a DLQ as theirs?"""
    closed = account.queue(RedriveAllowPolicy=json.dumps({"redrivePermission": "denyAll"}))
    return f"refused with {_refused_dlq(account, closed)}"


def _refused_dlq(account: AskedAccount, dead: str) -> str:
    """The code with which a new queue is refused that names this one as its DLQ."""
    policy = {"deadLetterTargetArn": account.queue_arn(dead), "maxReceiveCount": 1}
    return refused(
        account.client("sqs").set_queue_attributes,
        QueueUrl=account.queue(),
        Attributes={"RedrivePolicy": json.dumps(policy)},
    )


@check("sqs-queue-attributes", creates="a queue")
def queue_limits(account: AskedAccount) -> str:
    """Are 14 days of retention taken, and one second more refused?"""
    sqs, url = account.client("sqs"), account.queue(MessageRetentionPeriod="1209600")
    code = refused(
        sqs.set_queue_attributes,
        QueueUrl=url,
        Attributes={"MessageRetentionPeriod": "1209601"},
    )
    return f"1,209,601 s refused with {code}"


@check("sqs-sender", creates="a queue", seconds=30)
def sender(account: AskedAccount) -> str:
    """Is the SenderId of a message the id of whose credentials sent it?"""
    sqs, url = account.client("sqs"), account.queue()
    me = account.client("sts").get_caller_identity()["UserId"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    seen = receive(account, url)["Attributes"].get("SenderId")
    # A role's SenderId is `AROA…:session`, like its UserId.
    expect(seen == me, f"SenderId is {seen}, the caller is {me}")
    return "SenderId equals the caller's UserId"


@check("sqs-group-on-standard", creates="a queue")
def group_on_standard(account: AskedAccount) -> str:
    """Does a standard queue take a MessageGroupId and give it back?"""
    sqs, url = account.client("sqs"), account.queue()
    taken(sqs.send_message, QueueUrl=url, MessageBody="x", MessageGroupId="tenant-1")
    seen = receive(account, url)["Attributes"].get("MessageGroupId")
    expect(seen == "tenant-1", f"MessageGroupId is {seen}")
    return "taken and given back"


@check("sqs-deduplication-id-on-standard", creates="a queue")
def deduplication_id_on_standard(account: AskedAccount) -> str:
    """Is a MessageDeduplicationId refused on a standard queue?"""
    sqs, url = account.client("sqs"), account.queue()
    code = refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageDeduplicationId="d")
    return f"refused with {code}"


@check("sqs-trace-header-in-a-batch", creates="a queue", seconds=30)
def trace_header_in_a_batch(account: AskedAccount) -> str:
    """Does an entry of a batch carry its own trace header?"""
    sqs, url = account.client("sqs"), account.queue()
    header = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
    sqs.send_message_batch(
        QueueUrl=url,
        Entries=[{"Id": "1", "MessageBody": "x", "MessageSystemAttributes": header}],
    )
    seen = receive(account, url)["Attributes"].get("AWSTraceHeader")
    expect(seen == TRACE, f"AWSTraceHeader is {seen}")
    return "given back as it was sent"


@check("sqs-attribute-types", creates="a queue")
def attribute_types(account: AskedAccount) -> str:
    """Do custom attribute types come back with their suffix, and bytes as bytes?"""
    sqs, url = account.client("sqs"), account.queue()
    sent = {
        "text": {"DataType": "String.json", "StringValue": "{}"},
        "number": {"DataType": "Number.cents", "StringValue": "1.50"},
        "bytes": {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"},
    }
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=sent)
    seen = receive(account, url).get("MessageAttributes", {})
    expect(seen == sent, f"given back as {seen}")
    return "type, suffix and value came back as they were sent"


@check("sqs-empty-poll", creates="a queue", seconds=30)
def empty_poll(account: AskedAccount) -> str:
    """Does a poll of one second at an empty queue end within two?"""
    sqs, url = account.client("sqs"), account.queue()
    sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)
    began = account.clock()
    sqs.receive_message(QueueUrl=url, WaitTimeSeconds=account.poll_seconds)
    took = account.clock() - began
    expect(took < 2.5, f"it took {took:.1f} s")
    return f"it took {took:.1f} s"


@check("sqs-depth", creates="a queue with 20 messages", seconds=90)
def depth(account: AskedAccount) -> str:
    """Does the depth attribute come to the true number within a minute?"""
    sqs, url = account.client("sqs"), account.queue()
    for start in (0, 10):
        sqs.send_message_batch(
            QueueUrl=url,
            Entries=[{"Id": str(start + n), "MessageBody": "x"} for n in range(10)],
        )
    began = account.clock()

    def seen() -> bool:
        answer = sqs.get_queue_attributes(
            QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"]) == 20

    account.until(seen, 75, "a depth of 20")
    return f"20 after {account.clock() - began:.0f} s"


@check(
    "kms-customer-queue", creates="a KMS key, a queue under it, a role", dollars=0.02, seconds=120
)
def customer_key(account: AskedAccount) -> str:
    """Is a send to a queue under a customer key refused without rights on the key?"""
    kms, sqs = account.client("kms"), account.client("sqs")
    key = kms.create_key(Description="dlq-verify: removed by itself within a week")["KeyMetadata"]
    account.remove(
        f"key {key['KeyId']}",
        lambda: kms.schedule_key_deletion(KeyId=key["KeyId"], PendingWindowInDays=7),
    )
    url = account.queue(KmsMasterKeyId=key["Arn"])
    allowed = allow(["sqs:SendMessage", "sqs:ReceiveMessage"], account.queue_arn(url))
    theirs = account.acting_as(account.role(None, [allowed]))("sqs")

    def refusal() -> str:
        try:
            theirs.send_message(QueueUrl=url, MessageBody="x")
        except ClientError as error:
            # The role's own policy arrives some seconds after the role; until then SQS refuses.
            return f"{code_of(error)} for KMS" if "kms" in str(error).lower() else ""
        return "taken"

    code = account.until(refusal, 60, "an answer about the key", every=3)
    expect(code != "taken", "the send was taken")
    sqs.send_message(QueueUrl=url, MessageBody="x")
    return f"refused with {code}; with rights on the key it is taken"
