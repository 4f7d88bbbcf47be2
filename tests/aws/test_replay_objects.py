"""The objects of a replay run, on every backend."""

from __future__ import annotations

import pytest

from deadletter.aws.objects import S3RunObjects
from deadletter.replay.objects import ObjectsUnavailable, StoredObject
from tests.aws.backends import REGION, Aws

BUCKET = "letters"


@pytest.fixture
def objects(aws: Aws) -> S3RunObjects:
    aws.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return S3RunObjects(aws.s3, BUCKET, "orders", "r")


def test_an_object_lies_in_the_folder_of_its_run(aws: Aws, objects: S3RunObjects) -> None:
    objects.put("pages/a.jsonl", b"0123456789")
    assert objects.get("pages/a.jsonl") == b"0123456789"
    assert objects.get_part("pages/a.jsonl", 3, 4) == b"3456"
    assert objects.get_part("pages/a.jsonl", 8, 400) == b"89"
    [entry] = aws.s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert entry["Key"] == "replay/orders/r/pages/a.jsonl"


def test_an_object_can_be_stored_unless_there_is_one(objects: S3RunObjects) -> None:
    assert objects.put_first("a", b"1")
    assert not objects.put_first("a", b"2")
    assert objects.get("a") == b"1"


def test_objects_are_listed_by_folder_in_order(aws: Aws, objects: S3RunObjects) -> None:
    for name in ("pages/b", "pages/a", "manifest/0"):
        objects.put(name, name.encode())
    S3RunObjects(aws.s3, BUCKET, "orders", "r2").put("pages/c", b"")
    assert objects.listed("pages/") == (StoredObject("pages/a", 7), StoredObject("pages/b", 7))
    assert objects.listed("none/") == ()


def test_more_objects_are_listed_than_one_answer_has(aws: Aws, objects: S3RunObjects) -> None:
    if aws.backend != "memory":
        pytest.skip("a thousand puts take seconds elsewhere; the listing is S3's own contract")
    for number in range(1_001):
        objects.put(f"pages/{number:05}", b"")
    assert len(objects.listed("pages/")) == 1_001


def test_an_object_that_is_missing_is_none_and_can_be_deleted(objects: S3RunObjects) -> None:
    objects.put("a", b"1")
    for _ in range(2):
        objects.delete(["a"])
    assert objects.get("a") is None


def test_a_bucket_that_is_missing_is_unavailable(aws: Aws) -> None:
    objects = S3RunObjects(aws.s3, "none", "orders", "r")
    for call in (
        lambda: objects.get("a"),
        lambda: objects.put("a", b""),
        lambda: objects.put_first("a", b""),
        lambda: objects.listed(""),
        lambda: objects.get_part("a", 0, 1),
        lambda: objects.delete(["a"]),
    ):
        with pytest.raises(ObjectsUnavailable, match="NoSuchBucket"):
            call()
