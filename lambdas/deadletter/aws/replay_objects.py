"""The objects of one replay run in S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, member, ours, refusal
from deadletter.contract import run_object
from deadletter.replay.objects import ObjectsUnavailable, StoredObject

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class S3RunObjects:
    """The objects of one run, in one folder of the bucket: `folder_of` says which.

    Needs the permission to list the bucket: without it S3 calls a missing object a refusal.
    """

    def __init__(
        self,
        s3: S3Client,
        bucket: str,
        pipeline: str,
        run: str,
        folder_of: Callable[..., str] = run_object,
    ) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._folder = folder_of(pipeline, run, "")

    def put(self, name: str, data: bytes) -> None:
        with ours(ObjectsUnavailable, "s3", self._bucket):
            self._s3.put_object(Bucket=self._bucket, Key=self._key(name), Body=data)

    def put_first(self, name: str, data: bytes) -> bool:
        try:
            self._s3.put_object(
                Bucket=self._bucket, Key=self._key(name), Body=data, IfNoneMatch="*"
            )
        except AWS_ERRORS as error:
            if code(error) == "PreconditionFailed":
                return False
            raise ObjectsUnavailable(refusal(error, "s3", self._bucket)) from error
        return True

    def get(self, name: str) -> bytes | None:
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=self._key(name))
            return bytes(member(answer, "Body").read())
        except AWS_ERRORS as error:
            if code(error) == "NoSuchKey":
                return None
            raise ObjectsUnavailable(refusal(error, "s3", self._bucket)) from error

    def get_part(self, name: str, start: int, length: int) -> bytes:
        wanted = f"bytes={start}-{start + length - 1}"
        with ours(ObjectsUnavailable, "s3", self._bucket):
            answer = self._s3.get_object(Bucket=self._bucket, Key=self._key(name), Range=wanted)
            return bytes(member(answer, "Body").read())

    def listed(self, folder: str) -> Sequence[StoredObject]:
        with ours(ObjectsUnavailable, "s3", self._bucket):
            return tuple(
                StoredObject(entry["Key"].removeprefix(self._folder), entry["Size"])
                for answer in self._pages(self._key(folder))
                for entry in answer.get("Contents", [])
            )

    def delete(self, names: Sequence[str]) -> None:
        with ours(ObjectsUnavailable, "s3", self._bucket):
            # One by one: a batch needs a checksum of its own, and there are few of them.
            for name in names:
                self._s3.delete_object(Bucket=self._bucket, Key=self._key(name))

    def _pages(self, prefix: str) -> Iterator[Any]:
        after: Any = {}
        while True:
            answer = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=prefix, **after)
            yield answer
            if not answer.get("IsTruncated"):
                return
            after = {"ContinuationToken": answer["NextContinuationToken"]}

    def _key(self, name: str) -> str:
        return f"{self._folder}{name}"


def runs_with_objects(
    s3: S3Client, bucket: str, pipeline: str, folder_of: Callable[..., str] = run_object
) -> Iterator[str]:
    """The ids of a pipeline's runs that have objects; they outlive the rows of their runs.

    Raises ObjectsUnavailable.
    """
    folder = folder_of(pipeline, "")
    after = folder
    while True:
        with ours(ObjectsUnavailable, "s3", bucket):
            answer = s3.list_objects_v2(Bucket=bucket, Prefix=folder, StartAfter=after, MaxKeys=1)
        if not answer.get("Contents"):
            return
        run = answer["Contents"][0]["Key"].removeprefix(folder).partition("/")[0]
        yield run
        # Behind all names of this run: 0 follows the slash.
        after = f"{folder}{run}0"
