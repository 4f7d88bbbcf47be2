"""S3 buckets in one process's memory: whole objects, no versions."""

# ruff: noqa: N803 - the arguments are spelled as boto3 spells them

from __future__ import annotations

import io
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import md5
from typing import Any, BinaryIO

from botocore.exceptions import ParamValidationError
from botocore.response import StreamingBody

from deadletter.testing.fakes.errors import Exceptions, answered, client_error, malformed

# Bytes.
_LONGEST_KEY = 1_024
_LARGEST_METADATA = 2_048
# Keys of one DeleteObjects, and of one page of a listing.
_MOST_KEYS = 1_000

_ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class _Object:
    body: bytes
    etag: str
    modified: datetime
    content_type: str
    metadata: Mapping[str, str]

    def head(self) -> dict[str, Any]:
        return {
            "ContentLength": len(self.body),
            "ContentType": self.content_type,
            "ETag": self.etag,
            "LastModified": self.modified,
            "Metadata": dict(self.metadata),
            "ResponseMetadata": answered(),
        }


class _Bucket:
    __slots__ = ("keys", "objects")

    def __init__(self) -> None:
        # In order, as listings give them. Python orders strings as S3 does, by UTF-8.
        self.keys: list[str] = []
        self.objects: dict[str, _Object] = {}


class MemoryS3:
    """A `boto3.client("s3")` over buckets that live in this object.

    `clock` returns epoch seconds. Reads see the last write at once, as on S3 since 2020.
    One thread only.
    """

    exceptions = Exceptions("BucketAlreadyOwnedByYou InvalidObjectState NoSuchBucket NoSuchKey")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def create_bucket(
        self, *, Bucket: str, CreateBucketConfiguration: Mapping[str, Any] = _ABSENT
    ) -> dict[str, Any]:
        if Bucket in self._buckets:
            raise client_error(
                "CreateBucket", "BucketAlreadyOwnedByYou", "You own this bucket already", status=409
            )
        self._buckets[Bucket] = _Bucket()
        return {"Location": f"/{Bucket}", "ResponseMetadata": answered()}

    def put_object(
        self,
        *,
        Bucket: str,
        Key: str,
        Body: bytes | bytearray | str | BinaryIO = b"",
        ContentType: str = "binary/octet-stream",
        Metadata: Mapping[str, str] = _ABSENT,
        IfNoneMatch: str = "",
    ) -> dict[str, Any]:
        """`IfNoneMatch="*"` puts only where there is nothing: else PreconditionFailed (412)."""
        bucket = self._bucket(Bucket, "PutObject")
        metadata: Mapping[str, str] = {} if Metadata is _ABSENT else Metadata
        if not Key or len(Key.encode()) > _LONGEST_KEY:
            raise client_error("PutObject", "KeyTooLongError", "Your key is too long")
        if sum(len(name.encode()) + len(v.encode()) for name, v in metadata.items()) > (
            _LARGEST_METADATA
        ):
            raise client_error("PutObject", "MetadataTooLarge", "Your metadata is too large")
        if IfNoneMatch not in ("", "*"):
            raise client_error(
                "PutObject", "NotImplemented", "If-None-Match of a put is only *", status=501
            )
        if IfNoneMatch and Key in bucket.objects:
            raise client_error(
                "PutObject",
                "PreconditionFailed",
                "At least one of the pre-conditions you specified did not hold",
                status=412,
                Condition="If-None-Match",
            )
        body = _octets(Body)
        etag = f'"{md5(body, usedforsecurity=False).hexdigest()}"'
        if Key not in bucket.objects:
            insort(bucket.keys, Key)
        # S3 keeps whole seconds.
        modified = datetime.fromtimestamp(int(self._clock()), UTC)
        bucket.objects[Key] = _Object(body, etag, modified, ContentType, dict(metadata))
        return {"ETag": etag, "ResponseMetadata": answered()}

    def get_object(self, *, Bucket: str, Key: str, Range: str = "") -> dict[str, Any]:
        """`Range` is `bytes=<first>-<last>`, and nothing else that HTTP allows."""
        bucket = self._bucket(Bucket, "GetObject")
        if not Key:
            # boto3 does not even send it.
            raise ParamValidationError(report="Invalid length for parameter Key, value: 0")
        found = bucket.objects.get(Key)
        if found is None:
            raise client_error(
                "GetObject", "NoSuchKey", "The specified key does not exist.", status=404
            )
        if not Range:
            body = StreamingBody(io.BytesIO(found.body), len(found.body))
            return {"Body": body, **found.head()}
        first, last = _range(Range)
        if first >= len(found.body):
            raise client_error(
                "GetObject", "InvalidRange", "The requested range is not satisfiable", status=416
            )
        part = found.body[first : last + 1]
        return {
            "Body": StreamingBody(io.BytesIO(part), len(part)),
            **found.head(),
            "ContentLength": len(part),
            "ContentRange": f"bytes {first}-{first + len(part) - 1}/{len(found.body)}",
            "ResponseMetadata": answered(206),
        }

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        """An answer to HEAD has no body, so that what is missing is just `404`."""
        bucket = self._buckets.get(Bucket)
        found = bucket.objects.get(Key) if bucket else None
        if found is None:
            raise client_error("HeadObject", "404", "Not Found", status=404)
        return found.head()

    def delete_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        """Deleting what isn't there succeeds."""
        _delete(self._bucket(Bucket, "DeleteObject"), Key)
        return {"ResponseMetadata": answered(204)}

    def delete_objects(self, *, Bucket: str, Delete: Mapping[str, Any]) -> dict[str, Any]:
        bucket = self._bucket(Bucket, "DeleteObjects")
        keys = [entry["Key"] for entry in Delete["Objects"]]
        if not 1 <= len(keys) <= _MOST_KEYS:
            raise client_error(
                "DeleteObjects", "MalformedXML", "DeleteObjects takes 1 to 1,000 keys"
            )
        for key in keys:
            _delete(bucket, key)
        answer: dict[str, Any] = {"ResponseMetadata": answered()}
        if not Delete.get("Quiet", False):
            answer["Deleted"] = [{"Key": key} for key in keys]
        return answer

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
        bucket = self._bucket(Bucket, "ListObjectsV2")
        # Our token is the last key shown; S3's is opaque.
        after = ContinuationToken or StartAfter
        start = bisect_left(bucket.keys, Prefix)
        if after:
            start = max(start, bisect_right(bucket.keys, after))
        limit = min(MaxKeys, _MOST_KEYS)
        page: list[str] = []
        is_truncated = False
        for key in bucket.keys[start:]:
            if not key.startswith(Prefix):
                break
            if len(page) == limit:
                is_truncated = True
                break
            page.append(key)
        answer: dict[str, Any] = {
            "Name": Bucket,
            "Prefix": Prefix,
            "MaxKeys": MaxKeys,
            "KeyCount": len(page),
            "IsTruncated": is_truncated,
            "ResponseMetadata": answered(),
        }
        if is_truncated and page:
            answer["NextContinuationToken"] = page[-1]
        if page:
            answer["Contents"] = [_listed(key, bucket.objects[key]) for key in page]
        return answer

    def _bucket(self, name: str, operation: str) -> _Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            raise client_error(
                operation, "NoSuchBucket", "The specified bucket does not exist", status=404
            )
        return bucket


def _delete(bucket: _Bucket, key: str) -> None:
    if bucket.objects.pop(key, None) is not None:
        del bucket.keys[bisect_left(bucket.keys, key)]


def _listed(key: str, found: _Object) -> dict[str, Any]:
    return {
        "Key": key,
        "LastModified": found.modified,
        "ETag": found.etag,
        "Size": len(found.body),
        "StorageClass": "STANDARD",
    }


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise malformed("Range is bytes=<first>-<last>")
    return int(match[1]), int(match[2])


def _octets(body: object) -> bytes:
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    if isinstance(body, str):
        return body.encode()
    read = getattr(body, "read", None)
    if read is None:
        raise malformed("Body is bytes, a string or a file")
    return bytes(read())
