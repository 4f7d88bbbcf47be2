"""What is in S3: the objects of replay runs, and the bodies of waiting letters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import PipelineRows
from deadletter.aws.errors import AWS_ERRORS, code, member, ours, refusal
from deadletter.aws.rows import NO_GROUP
from deadletter.contract import EDITED, Partition, body_object, run_object
from deadletter.redrive.orphans import OrphansUnavailable, StoredBody
from deadletter.replay.objects import ObjectsUnavailable, StoredObject

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(eq=False, repr=False)
class S3RunObjects:
    """The objects of one run, in one folder of the bucket: `folder_of` says which.

    Needs the permission to list the bucket: without it S3 calls a missing object a refusal.
    """

    s3: S3Client
    bucket: str
    pipeline: str
    run: str
    folder_of: Callable[..., str] = run_object

    def __post_init__(self) -> None:
        self._folder = self.folder_of(self.pipeline, self.run, "")

    def put(self, name: str, data: bytes) -> None:
        with ours(ObjectsUnavailable, "s3", self.bucket):
            self.s3.put_object(Bucket=self.bucket, Key=self._key(name), Body=data)

    def put_first(self, name: str, data: bytes) -> bool:
        try:
            self.s3.put_object(Bucket=self.bucket, Key=self._key(name), Body=data, IfNoneMatch="*")
        except AWS_ERRORS as error:
            if code(error) == "PreconditionFailed":
                return False
            raise ObjectsUnavailable(refusal(error, "s3", self.bucket)) from error
        return True

    def get(self, name: str) -> bytes | None:
        try:
            answer = self.s3.get_object(Bucket=self.bucket, Key=self._key(name))
            return bytes(member(answer, "Body").read())
        except AWS_ERRORS as error:
            if code(error) == "NoSuchKey":
                return None
            raise ObjectsUnavailable(refusal(error, "s3", self.bucket)) from error

    def get_part(self, name: str, start: int, length: int) -> bytes:
        wanted = f"bytes={start}-{start + length - 1}"
        with ours(ObjectsUnavailable, "s3", self.bucket):
            answer = self.s3.get_object(Bucket=self.bucket, Key=self._key(name), Range=wanted)
            return bytes(member(answer, "Body").read())

    def listed(self, folder: str) -> Sequence[StoredObject]:
        with ours(ObjectsUnavailable, "s3", self.bucket):
            return tuple(
                StoredObject(entry["Key"].removeprefix(self._folder), entry["Size"])
                for entry in _listed(self.s3, self.bucket, self._key(folder))
            )

    def delete(self, names: Sequence[str]) -> None:
        with ours(ObjectsUnavailable, "s3", self.bucket):
            # One by one: a batch needs a checksum of its own, and there are few of them.
            for name in names:
                self.s3.delete_object(Bucket=self.bucket, Key=self._key(name))

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


def _listed(s3: S3Client, bucket: str, prefix: str) -> Iterator[Any]:
    """All objects whose names begin so."""
    after: Any = {}
    while True:
        answer = s3.list_objects_v2(Bucket=bucket, Prefix=prefix, **after)
        yield from answer.get("Contents", [])
        if not answer.get("IsTruncated"):
            return
        after = {"ContinuationToken": answer["NextContinuationToken"]}


@dataclass(eq=False, repr=False)
class S3StoredBodies(PipelineRows):
    """The bodies of one pipeline that is not FIFO: there an item's key has the group in it."""

    s3: S3Client
    bucket: str

    @property
    def _folder(self) -> str:
        return body_object(self.pipeline, "")

    def all(self) -> Iterator[StoredBody]:
        with ours(OrphansUnavailable, "s3", self.bucket):
            for entry in _listed(self.s3, self.bucket, self._folder):
                name = entry["Key"]
                yield StoredBody(name, self._copy_in(name), entry["LastModified"].timestamp())

    def named(self, bodies: Sequence[StoredBody]) -> Collection[str]:
        keys = {(Partition.LETTER.of(self.pipeline, body.copy), NO_GROUP) for body in bodies}
        with ours(OrphansUnavailable):
            items = self._table.get_many(sorted(keys))
        return {
            str(item[name])
            for item in items.values()
            for name in ("object", "edit_object")
            if name in item
        }

    def delete(self, name: str) -> None:
        with ours(OrphansUnavailable, "s3", self.bucket):
            self.s3.delete_object(Bucket=self.bucket, Key=name)

    def _copy_in(self, name: str) -> str:
        """The copy in a name: `waiting/<pipeline>/<copy>`, or `<copy>.<ms>.edit` of an edit."""
        file = name.removeprefix(self._folder)
        return file.split(".")[0] if file.endswith(EDITED) else file
