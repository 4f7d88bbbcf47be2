"""The stub has dead letters with their records, counts what is asked, and its books are true."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from lab.bench.letters import SOURCE, Audited, Books, LetterSeries
from lab.bench.stub import Conditions, Stub, stub


def client(at: Stub, service: Any) -> Any:
    keys: Any = {"aws_access_key_id": "AKIA", "aws_secret_access_key": "unused"}
    return boto3.client(service, endpoint_url=at.endpoint, region_name="us-east-1", **keys)


def test_the_books_tell_lost_duplicated_changed_disordered_and_unfinished_apart() -> None:
    letters = LetterSeries(number=8, body_bytes=200, groups=2)
    books = Books(letters)
    ours = {"Redrive": {"DataType": "String", "StringValue": "ours"}}
    for number in (0, 1, 1, 1, 4, 2):
        attributes = {**letters.attributes(number), **ours}
        books.note(letters.body(number), attributes, f"g{number % 2}")
    books.note(letters.body(3).replace("xx", "xy", 1), letters.attributes(3), "g1")
    books.note(letters.body(5), letters.attributes(5), "g0")
    books.note("no letter", {}, None)
    assert books.unsent == 2
    found = books.audit(left={7})
    assert found == Audited(unfinished=1, lost=1, duplicated=2, changed=3, disordered=1)


def test_what_is_asked_is_billed_and_what_is_to_fail_is_not_carried_out() -> None:
    letters = LetterSeries(number=10, body_bytes=100_000)
    with stub(Conditions(letters=letters, latency=0.0, failing=1.0)) as at:
        sqs, url = client(at, "sqs"), at.url(SOURCE)
        asked: dict[str, Any] = {"QueueUrl": url, "MessageSystemAttributeNames": ["All"]}
        first, second = sqs.receive_message(MaxNumberOfMessages=2, **asked)["Messages"]
        assert first["Body"] == letters.body(0)
        died = first["Attributes"]
        assert died["DeadLetterQueueSourceArn"].endswith(":main")
        assert int(second["Attributes"]["ApproximateReceiveCount"]) == 2
        entry = {"Id": "a", "ReceiptHandle": first["ReceiptHandle"]}
        [failed] = sqs.delete_message_batch(QueueUrl=url, Entries=[entry])["Failed"]
        assert failed["Id"] == "a"
        depth = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert depth["ApproximateNumberOfMessages"] == "8"
        assert depth["ApproximateNumberOfMessagesNotVisible"] == "2"
        spent = at.spent()
        # 200 KB are four times 64 KB.
        assert spent.billed == 4 + 1 + 1
        assert spent.sqs["ReceiveMessage"] == spent.sqs["DeleteMessageBatch"] == 1
        assert at.audit() == Audited(unfinished=10)


def test_each_letter_has_a_failure_record_and_what_is_there_at_first_is_not_counted() -> None:
    letters = LetterSeries(number=7, body_bytes=200)
    with stub(Conditions(letters=letters, latency=0.0, intents=2, lanes=3)) as at:
        dynamodb = client(at, "dynamodb")
        rows = dynamodb.scan(TableName="messages")["Items"]
        assert sum("#ledger#" in row["pk"]["S"] for row in rows) == 7
        assert sum("plans" in row for row in rows) == 2
        assert sum("touched" in row for row in rows) == 3
        key = {"pk": {"S": "a"}, "sk": {"S": "b"}}
        item = {**key, "bytes": {"B": b"\x00\xff"}}
        absent = {"ConditionExpression": "attribute_not_exists(pk)"}
        dynamodb.put_item(TableName="messages", Item=item, **absent)
        assert dynamodb.get_item(TableName="messages", Key=key)["Item"] == item
        with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
            dynamodb.put_item(TableName="messages", Item=item, **absent)
        spent = at.spent()
        assert spent.dynamodb == {"Scan": 1, "PutItem": 2, "GetItem": 1}
        assert spent.write_requests == 2
