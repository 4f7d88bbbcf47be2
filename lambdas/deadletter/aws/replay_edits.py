"""Edits of letters in the lane of a replay run: the original stays, and one version is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import PipelineRows
from deadletter.aws.errors import Conflict, ours
from deadletter.aws.table import PARTITION, SORT, Change, absent, equals, stored_number
from deadletter.aws.waiting_room import INLINE_BYTES
from deadletter.contract import EDITED, Partition, body_object, lane_partition, run_lane
from deadletter.message import stamp as stamps
from deadletter.message.letter import compact_json, to_json
from deadletter.message.stamp import Stamp
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.replay.edit_request import EditRequest, accepted, answer, request_from
from deadletter.replay.edits import EditRefused
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.replay.run import RunsUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from deadletter.redrive.waiting_room import WaitingRoom
    from deadletter.replay.objects import RunObjects
    from deadletter.replay.run import ReplayRuns


@dataclass(eq=False, repr=False, kw_only=True)
class DynamoDBReplayEdits(PipelineRows):
    """Writes the edits that people have asked for into a run's letters. `objects` are the run's.

    A large edit lies beside the bodies of waiting letters, and not with the run: the letter may
    leave its run, whose objects expire, and wait on.
    """

    s3: S3Client
    bucket: str
    runs: ReplayRuns
    room: WaitingRoom
    objects: Callable[[str], RunObjects]
    clock: Callable[[], float]

    def apply(self, run: str, records: Sequence[str]) -> dict[str, Any]:
        """Carry out the edits in these records of a run, each for itself.

        Returns which took effect, and why others did not, without a word of a letter. After
        `trouble` with a store the rest was not tried.
        """
        done: list[str] = []
        refused: dict[str, str] = {}
        objects = self.objects(run)
        for name in records:
            try:
                self._apply(objects.get(name), run)
            except EditRefused as error:
                refused[name] = str(error)
            except (ObjectsUnavailable, RoomUnavailable, RunsUnavailable) as error:
                return answer(done, refused, str(error))
            else:
                done.append(name)
        return answer(done, refused, "")

    def _apply(self, data: bytes | None, run: str) -> None:
        if data is None:
            raise EditRefused("it has no record")
        request = request_from(data, run, self.pipeline)
        before = self._last_edit(request)
        letters = self.room.read([request.entry], 0.0).letters
        stamp = accepted(request, self.runs.read(run), letters[0] if letters else None)
        self._write(request, stamp, before)

    def _last_edit(self, request: EditRequest) -> Any:
        """Who has edited the letter last, and when, as it is stored; None if it was not edited."""
        only = (PARTITION, SORT, "edited")
        with ours(RoomUnavailable):
            item = self._table.get_many([request.place], only=only).get(request.place, {})
        return item.get("edited")

    @ours(RunsUnavailable)
    def _write(self, request: EditRequest, stamp: Stamp, before: Any) -> None:
        at = self.clock()
        data = compact_json(to_json(request.after))
        version: dict[str, Any] = {"edit": data}
        removes: tuple[str, ...] = ()
        if len(data) > INLINE_BYTES:
            version = {"edit_object": self._stored_body(request.after.message_id, data, at)}
            removes = ("edit",)
        sets = {
            **version,
            "stamp": stamps.attribute(stamp).value,
            "edited": {"by": request.by, "because": request.because, "at": stored_number(at)},
        }
        lane = lane_partition(self.pipeline, run_lane(request.run), request.shard)
        is_same = absent("edited") if before is None else equals("edited", before)
        run = (Partition.RUNS.of(self.pipeline), request.run)
        try:
            self._table.together(
                # The run is as it was read: it has sent nothing since.
                checks=[(run, equals("generation", request.generation))],
                changes=[
                    Change(request.place, sets, equals("lane", lane) & is_same, removes=removes)
                ],
            )
        except Conflict as conflict:
            raise EditRefused(
                f"the message has left the run or was edited, or run {request.run} was changed"
            ) from conflict

    def _stored_body(self, copy: str, data: bytes, at: float) -> str:
        """The name of the object with a large edit; the waiting room deletes it with the item.

        Each edit has a name of its own: one that is refused afterwards must not be sent.
        """
        name = body_object(self.pipeline, f"{copy}.{int(at * 1000)}{EDITED}")
        with ours(ObjectsUnavailable, "s3", self.bucket):
            self.s3.put_object(Bucket=self.bucket, Key=name, Body=data)
        return name
