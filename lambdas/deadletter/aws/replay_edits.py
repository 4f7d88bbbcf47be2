"""Edits of letters in the lane of a replay run: the original stays, and one version is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, cancelled, refusal
from deadletter.aws.table import PARTITION, SORT, changes, conditional, stored_number
from deadletter.aws.waiting_room import INLINE_BYTES
from deadletter.contract import EDITED, EDITS, Partition, body_object, lane_partition, run_lane
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, compact_json, to_json
from deadletter.message.stamp import Stamp
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.replay.run import ReplayRun, RunRefused, RunsUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

    from deadletter.replay.objects import RunObjects


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterEdit:
    """One letter of a run before and after an edit; `place` is its item's in the waiting room.

    `stamp` is the item's stamp as it is to be; `by` and `because` say who edits it, and why.
    """

    place: tuple[str, str]
    shard: int
    before: Letter
    after: Letter
    stamp: Stamp
    by: str
    because: str


class DynamoDBReplayEdits:
    """Writes the edits of one run's letters. `objects` are those of the run.

    A large edit lies beside the bodies of waiting letters, and not with the run: the letter may
    leave its run, whose objects expire, and wait on.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        objects: RunObjects,
        s3: S3Client,
        *,
        bucket: str,
        pipeline: str,
        clock: Callable[[], float],
    ) -> None:
        self._client: Any = client
        self._table = table
        self._objects = objects
        self._s3 = s3
        self._bucket = bucket
        self._pipeline = pipeline
        self._clock = clock

    def store(self, run: ReplayRun, edit: LetterEdit) -> str:
        """Store an edit; returns the name of the object that keeps both versions.

        Raises RunRefused if the run has changed since it was read, or the letter is no longer
        in its lane. Both versions are stored first: an edit without its record is never sent.
        Raises ObjectsUnavailable and RunsUnavailable.
        """
        at = self._clock()
        record = f"{EDITS}{edit.after.message_id}-{int(at * 1000)}.json"
        self._objects.put(record, compact_json(_record(run, edit, at)))
        data = compact_json(to_json(edit.after))
        version: dict[str, Any] = {"edit": data}
        removes: tuple[str, ...] = ()
        if len(data) > INLINE_BYTES:
            version = {"edit_object": self._stored_body(edit.after.message_id, data, at)}
            removes = ("edit",)
        sets = {
            **version,
            "stamp": stamps.attribute(edit.stamp).value,
            "edited": {"by": edit.by, "because": edit.because, "at": stored_number(at)},
        }
        try:
            self._client.transact_write_items(
                TransactItems=[self._still_stands(run), self._update(run, edit, sets, removes)]
            )
        except AWS_ERRORS as error:
            if not cancelled(error):
                raise RunsUnavailable(refusal(error, "dynamodb", self._table)) from error
            raise RunRefused(
                f"the letter has left the run, or run {run.id} was changed meanwhile"
            ) from error
        return record

    def _stored_body(self, copy: str, data: bytes, at: float) -> str:
        """The name of the object with a large edit; the waiting room deletes it with the item.

        Each edit has a name of its own: one that is refused afterwards must not be sent.
        """
        name = body_object(self._pipeline, f"{copy}.{int(at * 1000)}{EDITED}")
        try:
            self._s3.put_object(Bucket=self._bucket, Key=name, Body=data)
        except AWS_ERRORS as error:
            raise ObjectsUnavailable(refusal(error, "s3", self._bucket)) from error
        return name

    def _still_stands(self, run: ReplayRun) -> dict[str, Any]:
        """The run is as it was read: it has sent nothing since."""
        key = {PARTITION: {"S": Partition.RUNS.of(self._pipeline)}, SORT: {"S": run.id}}
        return {
            "ConditionCheck": {
                "TableName": self._table,
                "Key": key,
                **conditional("#generation = :generation", {":generation": run.generation}),
            }
        }

    def _update(
        self, run: ReplayRun, edit: LetterEdit, sets: Mapping[str, Any], removes: tuple[str, ...]
    ) -> dict[str, Any]:
        partition, sort = edit.place
        lane = lane_partition(self._pipeline, run_lane(run.id), edit.shard)
        return {
            "Update": {
                "TableName": self._table,
                "Key": {PARTITION: {"S": partition}, SORT: {"S": sort}},
                **changes(
                    sets,
                    removes=removes,
                    condition="#lane = :its_lane",
                    values={":its_lane": lane},
                ),
            }
        }


def _record(run: ReplayRun, edit: LetterEdit, at: float) -> dict[str, Any]:
    return {
        "run": run.id,
        "origin": edit.stamp.origin,
        "by": edit.by,
        "because": edit.because,
        "at": at,
        "before": to_json(edit.before),
        "after": to_json(edit.after),
    }
