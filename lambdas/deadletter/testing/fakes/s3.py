"""S3 buckets in one process's memory: whole objects, no versions."""

# ruff: noqa: N803 - the arguments are spelled as boto3 spells them

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.response import StreamingBody

from deadletter.testing.fakes.errors import Declined, Exceptions, answered, malformed, operation

# Bytes.
_LONGEST_KEY = 1_024
# Keys of one page of a listing.
_MOST_KEYS = 1_000


@dataclass(frozen=True, slots=True)
class _Object:
    body: bytes
    modified: datetime


class MemoryS3:
    """A `boto3.client("s3")` over buckets that live in this object.

    `clock` returns epoch seconds. Reads see the last write at once, as on S3 since 2020.
    One thread only.
    """

    exceptions = Exceptions()

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: dict[str, dict[str, _Object]] = {}

    @operation
    def create_bucket(
        self, *, Bucket: str, CreateBucketConfiguration: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        self._buckets[Bucket] = {}
        return {"Location": f"/{Bucket}"}

    @operation
    def put_object(
        self, *, Bucket: str, Key: str, Body: bytes | str = b"", IfNoneMatch: str = ""
    ) -> dict[str, Any]:
        """`IfNoneMatch="*"` puts only where there is nothing: else PreconditionFailed (412)."""
        bucket = self._bucket(Bucket)
        if len(Key.encode()) > _LONGEST_KEY:
            raise Declined("KeyTooLongError", "Your key is too long")
        if IfNoneMatch and Key in bucket:
            raise Declined(
                "PreconditionFailed",
                "At least one of the pre-conditions you specified did not hold",
                status=412,
            )
        # S3 keeps whole seconds.
        modified = datetime.fromtimestamp(int(self._clock()), UTC)
        bucket[Key] = _Object(Body.encode() if isinstance(Body, str) else bytes(Body), modified)
        return {}

    @operation
    def get_object(self, *, Bucket: str, Key: str, Range: str = "") -> dict[str, Any]:
        """`Range` is `bytes=<first>-<last>`, and nothing else that HTTP allows."""
        bucket = self._bucket(Bucket)
        if not Key:
            raise malformed("Invalid length for parameter Key, value: 0")
        if Key not in bucket:
            raise Declined("NoSuchKey", "The specified key does not exist.", status=404)
        body, status = bucket[Key].body, 200
        if Range:
            first, last = _range(Range)
            if first >= len(body):
                raise Declined("InvalidRange", "The requested range is not satisfiable", status=416)
            body, status = body[first : last + 1], 206
        return {
            "Body": StreamingBody(io.BytesIO(body), len(body)),
            "ContentLength": len(body),
            "ResponseMetadata": answered(status),
        }

    @operation
    def delete_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        """Deleting what isn't there succeeds."""
        self._bucket(Bucket).pop(Key, None)
        return {}

    @operation
    def list_objects_v2(
        self,
        *,
        Bucket: str,
        Prefix: str = "",
        StartAfter: str = "",
        ContinuationToken: str = "",
        MaxKeys: int = _MOST_KEYS,
    ) -> dict[str, Any]:
        """Without a key to show, the answer has no `Contents`."""
        bucket = self._bucket(Bucket)
        # Our token is the last key shown; S3's is opaque.
        after = ContinuationToken or StartAfter
        # Python orders strings as S3 does, by UTF-8.
        keys = sorted(key for key in bucket if key.startswith(Prefix) and key > after)
        page = keys[: min(MaxKeys, _MOST_KEYS)]
        answer: dict[str, Any] = {"KeyCount": len(page), "IsTruncated": len(page) < len(keys)}
        if answer["IsTruncated"]:
            answer["NextContinuationToken"] = page[-1]
        if page:
            answer["Contents"] = [
                {"Key": key, "LastModified": bucket[key].modified, "Size": len(bucket[key].body)}
                for key in page
            ]
        return answer

    def _bucket(self, name: str) -> dict[str, _Object]:
        if name not in self._buckets:
            raise Declined("NoSuchBucket", "The specified bucket does not exist", status=404)
        return self._buckets[name]


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise malformed("Range is bytes=<first>-<last>")
    return int(match[1]), int(match[2])
