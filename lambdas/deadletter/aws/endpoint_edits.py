"""Changes of the endpoints table: read from its stream, and kept in the audit table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBTable, plain
from deadletter.aws.edits import LONGEST_SEQUENCE, image
from deadletter.aws.errors import Failed
from deadletter.contract import AUDIT, CHANGES, ENDPOINTS, EVERY_PIPELINE
from deadletter.rules.checker import CheckedBatch
from deadletter.webhook.endpoint_edit import EndpointEdit, edit_facts

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_PARTITION = "#endpoints"
"""The partition of all of them: they are few, and no person may write here."""


def endpoint_edits(records: Sequence[Mapping[str, Any]], secrets: str) -> Iterator[EndpointEdit]:
    """The edits in an event of the stream, in order, but for mere pauses."""
    for record in records:
        change = record["dynamodb"]
        keys = plain(change["Keys"])
        old, new = (image(change.get(name)) for name in ("OldImage", "NewImage"))
        if (facts := edit_facts(old, new, secrets)) is not None:
            yield EndpointEdit(
                tenant=keys[ENDPOINTS.partition],
                endpoint=keys[ENDPOINTS.sort],
                at=float(change["ApproximateCreationDateTime"]),
                sequence=change["SequenceNumber"],
                event_id=record["eventID"],
                old=facts[0],
                new=facts[1],
            )


class DynamoDBEndpointHistory:
    """The changes of endpoints in the audit table. Each is kept for `keep_seconds`.

    `secrets` is what the names of the endpoints' secrets begin with.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        clock: Callable[[], float],
        keep_seconds: float,
        *,
        secrets: str,
    ) -> None:
        self._table = DynamoDBTable(client, table, AUDIT)
        self._clock = clock
        self._keep_seconds = keep_seconds
        self._secrets = secrets

    def keep(self, records: Sequence[Mapping[str, Any]]) -> CheckedBatch:
        """Keep the edits in an event, in order; keeping one twice keeps it once."""
        for edit in endpoint_edits(records, self._secrets):
            try:
                self._table.put(self._row(edit))
            except Failed as error:
                return CheckedBatch((), edit.sequence, str(error))
        return CheckedBatch(())

    def _row(self, edit: EndpointEdit) -> dict[str, Any]:
        images = {"old": edit.old, "new": edit.new}
        return {
            AUDIT.partition: _PARTITION,
            AUDIT.sort: f"{int(edit.at):011}#{edit.sequence:0>{LONGEST_SEQUENCE}}",
            CHANGES.partition: EVERY_PIPELINE,
            str(CHANGES.sort): int(edit.at),
            "endpoint": f"{edit.tenant}/{edit.endpoint}",
            "event_id": edit.event_id,
            "ttl": int(self._clock() + self._keep_seconds),
            **{name: facts for name, facts in images.items() if facts is not None},
        }
