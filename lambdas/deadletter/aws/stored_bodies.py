"""The bodies of waiting letters in S3, and the items that name them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import ours
from deadletter.aws.own_rows import NO_GROUP
from deadletter.contract import EDITED, Partition, body_object
from deadletter.redrive.orphans import OrphansUnavailable, StoredBody

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client


class S3StoredBodies:
    """The bodies of one pipeline that is not FIFO: there an item's key has the group in it."""

    def __init__(
        self, dynamodb: DynamoDBClient, table: str, s3: S3Client, bucket: str, pipeline: str
    ) -> None:
        self._table = DynamoDBTable(dynamodb, table)
        self._s3 = s3
        self._bucket = bucket
        self._pipeline = pipeline
        self._folder = body_object(pipeline, "")

    def all(self) -> Iterator[StoredBody]:
        after: Any = {}
        while True:
            with ours(OrphansUnavailable, "s3", self._bucket):
                answer = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=self._folder, **after)
            for entry in answer.get("Contents", []):
                name = entry["Key"]
                yield StoredBody(name, self._copy_in(name), entry["LastModified"].timestamp())
            if not answer.get("IsTruncated"):
                return
            after = {"ContinuationToken": answer["NextContinuationToken"]}

    def named(self, bodies: Sequence[StoredBody]) -> Collection[str]:
        keys = {(Partition.LETTER.of(self._pipeline, body.copy), NO_GROUP) for body in bodies}
        with ours(OrphansUnavailable):
            items = self._table.get_many(sorted(keys))
        return {
            str(item[name])
            for item in items.values()
            for name in ("object", "edit_object")
            if name in item
        }

    def delete(self, name: str) -> None:
        with ours(OrphansUnavailable, "s3", self._bucket):
            self._s3.delete_object(Bucket=self._bucket, Key=name)

    def _copy_in(self, name: str) -> str:
        """The copy in a name: `waiting/<pipeline>/<copy>`, or `<copy>.<ms>.edit` of an edit."""
        file = name.removeprefix(self._folder)
        return file.split(".")[0] if file.endswith(EDITED) else file
