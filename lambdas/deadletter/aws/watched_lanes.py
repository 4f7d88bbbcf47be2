"""The lanes of the waiting room, as the watch sees them."""

from __future__ import annotations

from deadletter.aws.errors import AWS_ERRORS, refusal
from deadletter.aws.waiting_room import DynamoDBLanes
from deadletter.contract import LANES
from deadletter.redrive.waiting_room import SHARDS, RoomUnavailable


class DynamoDBWatchedLanes(DynamoDBLanes):
    """The lanes of one pipeline, with their first letters. The index may lag by seconds."""

    def first_due(self, lane: str) -> float | None:
        """When the first letter of a lane is due (epoch seconds); None if it is empty."""
        try:
            items = [
                item
                for shard in range(SHARDS)
                for item in self._table.query(
                    "lane = :lane",
                    {":lane": self._lane(lane, shard)},
                    IndexName=LANES.name,
                    Limit=1,
                )
            ]
        except AWS_ERRORS as error:
            raise RoomUnavailable(refusal(error, "dynamodb", self._table.name)) from error
        return min((float(item["due"]) for item in items), default=None)
