"""Which letters may be canaries, by what the ledger knows of their failures."""

from __future__ import annotations

from deadletter.contract import CONFIG_SUFFIX
from deadletter.failure.fate import Evidence, shown_by, was_tried
from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow
from deadletter.message.queue import ReceivedLetter
from deadletter.outage.canary_sources import CanaryChoice, hold_for
from deadletter.routing.router import Router, Verdict


def is_of_another(row: LedgerRow, key: str, pipeline: str) -> bool:
    """Whether the circuit `key` is the pipeline's, and the letter's calls count for its own.

    Its own is that of a value in the message, such as its endpoint.
    """
    return key.removesuffix(CONFIG_SUFFIX) == pipeline and row.endpoint not in ("", pipeline)


def failed_by_itself(row: LedgerRow, key: str, pipeline: str) -> bool:
    """Whether the letter's last failure is no evidence for the circuit `key`.

    What it would show as a canary is known already, and is nothing. A letter that the consumer
    only gave back untried has not failed.
    """
    tried = [failure for failure in row.since_release if was_tried(failure)]
    return bool(tried) and (
        is_of_another(row, key, pipeline) or shown_by(tried[-1], key) is Evidence.NEUTRAL
    )


class BlamelessLetters(CanaryChoice):
    """Accepts letters that wait for the circuit alone, and did not fail by their own fault.

    With `recorded` also only those that the ledger knows: a letter that its consumer has never
    recorded may kill it.
    """

    def __init__(
        self, *, pipeline: str, router: Router, ledger: Ledger, recorded: bool = False
    ) -> None:
        self._pipeline = pipeline
        self._router = router
        self._ledger = ledger
        self._recorded = recorded
        self._verdicts: dict[str, Verdict] = {}

    def accepts(self, received: ReceivedLetter, key: str) -> bool:
        """As CanaryChoice; also raises LedgerUnavailable."""
        verdict = hold_for(self._router, received, key)
        if verdict is None:
            return False
        origin = verdict.stamp.origin
        row = self._ledger.rows([origin]).get(origin, NO_ROW)
        unknown = self._recorded and not row.since_release
        if row.unreadable or unknown or failed_by_itself(row, key, self._pipeline):
            return False
        self._verdicts = {received.letter.message_id: verdict}
        return True

    def verdict_on(self, received: ReceivedLetter) -> Verdict:
        """The router's verdict on the letter accepted last."""
        return self._verdicts[received.letter.message_id]
