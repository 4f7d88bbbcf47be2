"""What S3 does, on every backend."""

from __future__ import annotations

from typing import Any

import pytest

from tests.aws.backends import REGION, Aws
from tests.aws.rows import differs, error_of

BUCKET = "letters"


@pytest.fixture(autouse=True)
def bucket(aws: Aws) -> None:
    aws.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})


def put(aws: Aws, key: str, body: bytes = b"body", **arguments: Any) -> Any:
    return aws.s3.put_object(Bucket=BUCKET, Key=key, Body=body, **arguments)


def get(aws: Aws, key: str) -> Any:
    return aws.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def refusal(call: Any, **arguments: Any) -> tuple[str, int]:
    """The error code and the HTTP status that a call is refused with."""
    response = error_of(call, **arguments)
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def test_an_object_comes_back_as_it_was_put(aws: Aws) -> None:
    put(aws, "a/b c", b"\x00\xff")
    found = aws.s3.get_object(Bucket=BUCKET, Key="a/b c")
    assert found["Body"].read() == b"\x00\xff"
    assert found["ContentLength"] == 2


def test_a_body_is_read_once(aws: Aws) -> None:
    put(aws, "a")
    body = aws.s3.get_object(Bucket=BUCKET, Key="a")["Body"]
    assert body.read() == b"body"
    assert body.read() == b""


def test_a_body_can_be_read_by_line(aws: Aws) -> None:
    put(aws, "a", b"1\n2\n3")
    body = aws.s3.get_object(Bucket=BUCKET, Key="a")["Body"]
    assert list(body.iter_lines()) == [b"1", b"2", b"3"]


def test_a_part_of_an_object_can_be_read(aws: Aws) -> None:
    put(aws, "a", b"0123456789")

    def part(wanted: str) -> Any:
        return aws.s3.get_object(Bucket=BUCKET, Key="a", Range=wanted)

    found = part("bytes=2-4")
    assert (found["Body"].read(), found["ContentLength"]) == (b"234", 3)
    assert found["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert part("bytes=8-99")["Body"].read() == b"89"
    beyond = {"Bucket": BUCKET, "Key": "a", "Range": "bytes=10-12"}
    assert refusal(aws.s3.get_object, **beyond) == ("InvalidRange", 416)


def test_putting_again_replaces_the_object(aws: Aws) -> None:
    put(aws, "a", b"old")
    put(aws, "a", b"new")
    assert get(aws, "a") == b"new"


def test_a_put_can_insist_on_being_the_first(aws: Aws) -> None:
    put(aws, "a", b"first", IfNoneMatch="*")
    again = {"Bucket": BUCKET, "Key": "a", "Body": b"second", "IfNoneMatch": "*"}
    assert refusal(aws.s3.put_object, **again) == ("PreconditionFailed", 412)
    assert get(aws, "a") == b"first"


def test_a_missing_object_has_an_error_of_its_own(aws: Aws) -> None:
    missing = {"Bucket": BUCKET, "Key": "none"}
    assert refusal(aws.s3.get_object, **missing) == ("NoSuchKey", 404)
    with pytest.raises(aws.s3.exceptions.NoSuchKey):
        aws.s3.get_object(**missing)


def test_a_missing_bucket_has_an_error_of_its_own(aws: Aws) -> None:
    for call in (aws.s3.get_object, aws.s3.put_object, aws.s3.delete_object):
        assert refusal(call, Bucket="none", Key="a") == ("NoSuchBucket", 404)
    assert refusal(aws.s3.list_objects_v2, Bucket="none") == ("NoSuchBucket", 404)


def test_deleting_what_is_not_there_succeeds(aws: Aws) -> None:
    put(aws, "a")
    for _ in range(2):
        aws.s3.delete_object(Bucket=BUCKET, Key="a")
    assert refusal(aws.s3.get_object, Bucket=BUCKET, Key="a") == ("NoSuchKey", 404)


def listed(aws: Aws, **arguments: Any) -> list[str]:
    answer = aws.s3.list_objects_v2(Bucket=BUCKET, **arguments)
    return [entry["Key"] for entry in answer.get("Contents", [])]


def test_keys_are_listed_in_order_of_their_bytes(aws: Aws) -> None:
    for key in ("b", "a/2", "é", "a/10", "B"):
        put(aws, key)
    assert listed(aws) == ["B", "a/10", "a/2", "b", "é"]
    assert listed(aws, Prefix="a/") == ["a/10", "a/2"]
    assert listed(aws, StartAfter="a/10") == ["a/2", "b", "é"]
    assert listed(aws, StartAfter="B", Prefix="b") == ["b"]
    answer = aws.s3.list_objects_v2(Bucket=BUCKET, Prefix="none")
    assert "Contents" not in answer
    assert (answer["KeyCount"], answer["IsTruncated"]) == (0, False)


def test_a_listing_goes_on_where_its_last_page_ended(aws: Aws) -> None:
    for number in range(5):
        put(aws, f"run/{number}")
    put(aws, "other")
    found: list[str] = []
    more: dict[str, Any] = {}
    while True:
        page = aws.s3.list_objects_v2(Bucket=BUCKET, Prefix="run/", MaxKeys=2, **more)
        found += [entry["Key"] for entry in page["Contents"]]
        if not page["IsTruncated"]:
            break
        more = {"ContinuationToken": page["NextContinuationToken"]}
    assert found == [f"run/{number}" for number in range(5)]
    assert "NextContinuationToken" not in page


def test_a_listing_shows_the_size(aws: Aws) -> None:
    put(aws, "a")
    (entry,) = aws.s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert entry["Size"] == 4


@differs("s3-key-length")
def test_a_key_may_have_1024_bytes_and_no_more(aws: Aws) -> None:
    put(aws, "é" * 512)
    code, status = refusal(aws.s3.put_object, Bucket=BUCKET, Key="é" * 512 + "x", Body=b"")
    assert (code, status) == ("KeyTooLongError", 400)
