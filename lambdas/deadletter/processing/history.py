"""Writes into the ledger what became of the messages of one batch.

Loaded with the first message that failed, came back untried or may have been dead: most messages
of a team's function have nothing for the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from deadletter.contract import Reason
from deadletter.failure.cause_index import about_letter
from deadletter.failure.classify import Diagnosis
from deadletter.failure.failure import MOST_BECAUSE, Failure
from deadletter.failure.fate import Fate
from deadletter.failure.ledger import (
    AboutLetter,
    FailureLog,
    LedgerUnavailable,
    RecordsUnavailable,
    Recovery,
)
from deadletter.message.stamp import Stamp
from deadletter.processing.circuit_gate import CircuitGate
from deadletter.processing.delivery import Delivery, Record, id_of, queue_of, receive_of
from deadletter.processing.diagnosing import given_back
from deadletter.processing.result import MessageResult, Trouble, Troubles

_RECOVERIES = {
    Fate.PROCESSED: Recovery.PROCESSED,
    Fate.DUPLICATE: Recovery.DUPLICATE,
    Fate.SKIPPED: Recovery.SKIPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class History:
    """The ledger as one batch writes it. An error of the ledger is only noted.

    `clock` gives epoch seconds; `request_id` is the id of the Lambda invocation, if it is one, and
    `version` that of the consumer, if it is named.
    """

    log: FailureLog
    gate: CircuitGate
    troubles: Troubles
    clock: Callable[[], float]
    request_id: str = ""
    version: str = ""

    def known_stamp(self, delivery: Delivery) -> Stamp | None:
        """The letter's stamp, from the ledger if the letter could not carry it.

        None if the ledger gave no answer.
        """
        if not delivery.may_have_lost_its_stamp:
            return delivery.stamp
        message_id = delivery.letter.message_id
        with self.troubles.noticing(LedgerUnavailable, Trouble.LEDGER, message_id):
            kept = self.log.stored_stamp(message_id)
            return delivery.stamp if kept is None else kept
        return None

    def recovered(self, delivery: Delivery, fate: Fate, *, same_life: bool = False) -> int | None:
        """Record that a letter which had been in the DLQ was processed: if a DUPLICATE, before, or
        in the `same_life`.

        Returns how many re-drives that took since a person last released it. None if it had not
        been there, or if its recovery is on record already.
        """
        stamp = self.known_stamp(delivery)
        if stamp is None or not (delivery.was_dead or stamp.attempt):
            return None
        message_id = delivery.letter.message_id
        with self.troubles.noticing(RecordsUnavailable, Trouble.LEDGER, message_id):
            how = Recovery.FOUND if same_life else _RECOVERIES[fate]
            if self.log.recovered(stamp.origin, stamp.attempt, self.clock(), how):
                return stamp.attempt
        return None

    def superseded(self, delivery: Delivery) -> None:
        """Record that a message was skipped for a later one of its ordering key."""
        stamp = self.known_stamp(delivery)
        if stamp is None:
            return
        message_id, now = delivery.letter.message_id, self.clock()
        with self.troubles.noticing(RecordsUnavailable, Trouble.LEDGER, message_id):
            self.log.recovered(stamp.origin, stamp.attempt, now, Recovery.SUPERSEDED)

    def no_longer_fails(self, delivery: Delivery) -> None:
        """Record that a message which failed in its first life only was processed."""
        message_id = delivery.letter.message_id
        with self.troubles.noticing(RecordsUnavailable, Trouble.LEDGER, message_id):
            self.log.leave_index(delivery.stamp.origin)

    def parked(
        self, delivery: Delivery, stamp: Stamp, reason: Reason, *, ahead: bool = False
    ) -> bool:
        """Record that a letter was parked; the run of a replayed letter waits for that outcome, and
        is not told `ahead`.

        Returns whether that is on record.
        """
        message_id, now = delivery.letter.message_id, self.clock()
        with self.troubles.noticing(RecordsUnavailable, Trouble.LEDGER, message_id):
            if stamp.run is None or ahead:
                self.log.note_parked(stamp.origin, now, str(reason), "")
            else:
                self.log.parked(stamp.origin, stamp.attempt, now, str(reason))
            return True
        return False

    def failed(
        self,
        record: Record,
        stamp: Stamp,
        diagnosis: Diagnosis,
        delivery: Delivery | None,
        now: float,
        circuit: str = "",
        *,
        blameless: bool = False,
        anew: bool = False,
    ) -> None:
        """Record one failure; `delivery` is None if the message could not be read."""
        failure = Failure(
            at=now,
            attempt=stamp.attempt,
            category=diagnosis.category,
            error_type=diagnosis.error_type,
            message=diagnosis.message,
            http_status=diagnosis.http_status,
            fingerprint=diagnosis.fingerprint,
            dependency_down=blameless or (delivery is not None and self.gate.is_down(delivery)),
            receive=receive_of(record),
            queue=queue_of(record),
            blame=diagnosis.blame,
            circuit=circuit,
            sent_at=stamp.at if stamp.attempt else None,
            sent_because=(stamp.because or "")[:MOST_BECAUSE] if stamp.attempt else "",
            sent_rule=(stamp.rule or "") if stamp.attempt else "",
            request_id=self.request_id,
            place=diagnosis.place,
            version=self.version,
        )
        about = None if delivery is None else self._about(delivery)
        message_id = delivery.letter.message_id if delivery is not None else id_of(record)
        with self.troubles.noticing(RecordsUnavailable, Trouble.LEDGER, message_id):
            self.log.failed(stamp.origin, failure, about, anew=anew)

    def _about(self, delivery: Delivery) -> AboutLetter:
        pipeline, document = self.gate.pipeline, delivery.document
        about = about_letter(
            document.value["context"],
            document.circuit_key or "",
            delivery.letter.size,
            pipeline.ledger,
            pipeline.name,
        )
        return replace(about, trace=delivery.letter.trace)

    def untried(self, record: Record, delivery: Delivery | None, result: MessageResult) -> None:
        """Record a message that was given back untried: a letter without a row is CRASH.

        It has used up a receive, and may die of that without fault. Nothing is written once the
        ledger has failed in this batch: its answer is more important.
        """
        if self.troubles.has(Trouble.LEDGER):
            return
        stamp = self.known_stamp(delivery) if delivery else None
        stamp = stamp or (delivery.stamp if delivery else Stamp(result.message_id))
        self.failed(
            record,
            stamp,
            given_back(result.fate),
            delivery,
            self.clock(),
            result.circuit,
            blameless=True,
        )
