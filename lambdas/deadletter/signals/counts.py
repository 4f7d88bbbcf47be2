"""What the counts of the log say: the page about the dashboard has them as a table."""

from __future__ import annotations

from collections.abc import Mapping

from deadletter.signals.figures import Count, Counted, Figure

SAYS: Mapping[Count, str] = {
    Count.LEFT_IN_PLACE: "Messages that stayed where they are.",
    Count.ALREADY_SENT: "Messages that the journal marks as sent, and that were deleted.",
    Count.REDRIVE_UNRECORDED: "Messages sent without the Redrive attribute, their facts lost.",
    Count.FOREIGN_MESSAGE: "Messages of a shared DLQ that came from another pipeline's queue.",
    Count.FOREIGN_ROW: "Rows of an index that another pipeline wrote there: they are ignored.",
    Count.ATTRIBUTE_RENAMED: "Messages whose own attribute Redrive is now Redrive-original.",
    Count.UNREADABLE_EXPIRY: "Messages whose own expiry is no time: message_ttl decides.",
    Count.UNDECIDED: "Messages that got no decision, or more than one.",
    Count.UNDELETED: "Messages that were sent, and could not be deleted yet.",
    Count.UNSENDABLE: "Messages that their target queue does not take.",
    Count.TOO_LATE_TO_SEND: "Messages not sent because their lock was about to end.",
    Count.BAD_ROW: "Rows of our tables that cannot be read, or whose body is gone.",
    Count.LEASE_UNAVAILABLE: "Runs that ended because the lease gave no answer.",
    Count.ROUTER_UNAVAILABLE: "Runs that ended because the router gave no answer.",
    Count.JOURNAL_UNAVAILABLE: "Runs that ended because the journal failed.",
    Count.ROOM_UNAVAILABLE: "Runs that ended because what waits could not be read or written.",
    Count.QUEUE_UNAVAILABLE: "Runs that ended because a queue gave no answer.",
    Count.RULE_INVALID: "Rules that are invalid and match nothing.",
    Count.RULE_LIMIT_REACHED: "Rules that matched max_matches messages and stopped.",
    Count.RULE_TOO_COSTLY: "Messages on which a rule was too costly to decide.",
    Count.DOMINANT_FAILURE: "Messages of a run that failed alike: over 10, and over half of it.",
    Count.REDRIVE_BOUNCED: "Messages that came back after a run had sent them.",
    Count.LOOKED_AT: "Messages that were received only to be looked at, and given back.",
    Count.CONFIGURATION_FAILURE: "Messages that failed for a permission, a key or an address.",
    Count.BUSY_ELSEWHERE: "Copies of a message that was being processed.",
    Count.IDEMPOTENCY_UNAVAILABLE: "Claims that gave no answer.",
    Count.IDEMPOTENCY_KEY_MISSING: "Messages without the idempotency key of their pipeline.",
    Count.MANY_COLLISIONS: "Colliding messages that were processed, because many collide.",
    Count.GROUP_HELD_BACK: "Messages given back behind an earlier message of their FIFO group.",
    Count.BEHIND_ANOTHER: "Messages given back: an earlier one of their ordering key is not done.",
    Count.SUPERSEDED: "Messages skipped: a later one of their ordering key was processed.",
    Count.TOO_LATE_TO_PROCESS: "Messages given back because the function was about to end.",
    Count.UNFINISHED: "Messages given back while their handler still ran.",
    Count.LEASE_LOST: "Handlers that ran longer than their claim on the message.",
    Count.LEDGER_UNAVAILABLE: "Failures or recoveries that could not be written or read.",
    Count.CIRCUITS_UNAVAILABLE: "Batches and runs that could not read their circuits.",
    Count.PARKING_UNAVAILABLE: "Permanent failures that could not be parked, and came back.",
    Count.VISIBILITY_UNCHANGED: "Messages that could not be hidden, and come back sooner.",
    Count.CONSUMER_LIBRARY_ERROR: "Defects of the library: each cost a message one receive.",
    Count.OUTCOMES_DROPPED: "Outcomes that a throttled circuit was not told.",
    Count.SUDDENLY_PERMANENT: "Causes that began to dominate: no message is parked for them.",
    Count.CIRCUIT_TRIPPED: "Circuits that a batch opened.",
    Count.CIRCUIT_NOT_TRIPPED: "Openings without an answer: the next batch tries again.",
    Count.OUTAGE_NOT_STARTED: "Openings whose execution did not start; the monitor starts it.",
    Count.CIRCUIT_UNANNOUNCED: "State changes that EventBridge did not take.",
    Count.NOTHING_TO_PAUSE: "Outages whose consumer has no mapping to pause.",
    Count.CONSUMER_NOT_PAUSED: "Outages whose consumer could not be paused.",
    Count.NOTHING_TO_PROBE: "Probes that found no message to try.",
    Count.OUTAGE_RESTARTED: "Lost executions that the monitor started again.",
    Count.MAPPING_PUT_BACK: "Paused mappings that the monitor enabled again.",
    Count.SWEEP_FAILED: "Circuits or mappings that the monitor could not repair.",
    Count.EVENT_REFUSED: "News that EventBridge did not take; the next minute tries again.",
    Count.NEWS_UNREAD: "Times that causes or recovered messages could not be read.",
    Count.CAUSES_HELD: "Causes of failure that suddenly dominate, as of this minute.",
    Count.REPLAY_RESTARTED: "Lost executions of runs that the monitor started again.",
}


def meaning(counted: Counted) -> str:
    """What a figure or a count says, as a sentence."""
    return counted.says if isinstance(counted, Figure) else SAYS[counted]
