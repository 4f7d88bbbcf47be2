"""A pipeline as it is now: what `dlq status` answers of each, and draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from deadletter.contract import MAIN, MAIN_DLQ, parking_source
from deadletter.signals.pages import Alarm

from .causes import CauseRow
from .circuits import CircuitRow
from .figures import Recent
from .observed import ObservedCounts
from .queue import QueueDepth
from .replay_runs import ReplayRow
from .watched import ManyCollisions, SeenTrouble, SourceStatus

# A lane takes a query per shard, and circuits of webhook endpoints can make thousands of
# lanes: more do not fit on a screen.
MOST_LANES = 40

_UNREAD = "; null if it could not be read"


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """Messages that wait for one thing."""

    waiting_for: Annotated[
        str,
        "`due`, `circuit:<key>`, `rule:<id>`, `run:<id>`, `parked` or `dedicated:<id>`",
    ]
    messages: Annotated[int | None, "messages in it; null if it could not be read"]
    oldest_seconds: Annotated[
        int | None,
        "age of the oldest message of this kind, as the monitor remembers it; null if it is "
        "unknown",
    ] = None
    first_due: Annotated[
        datetime | None, "when the first of those that wait for a time is due; null for others"
    ] = None
    is_at_least: Annotated[bool, "whether there are more: they were not counted to the end"] = False


@dataclass(frozen=True, slots=True)
class AlarmState:
    """A CloudWatch alarm in state ALARM."""

    name: Annotated[str, "name of the alarm"]
    since: Annotated[datetime, "when it went into ALARM"]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What becomes of a pipeline's letters if nothing changes."""

    messages: Annotated[
        int | None, "messages in the DLQ and waiting for a time; null if they could not be counted"
    ]
    dlq_empty_at: Annotated[
        datetime | None,
        "when the DLQ will be empty, by `fewer_a_second`; null if that is not known, or if it does "
        "not become emptier: `dlq_empty_because` says which",
    ]
    dlq_empty_because: Annotated[str, "how that is known, or why it is not"]
    fewer_a_second: Annotated[
        float | None,
        "messages a second by which the DLQ became emptier over the monitor's last ten looks, "
        "arrivals deducted; 0 or less if it does not; null before ten looks",
    ]
    rate_limit: Annotated[
        float | None,
        "messages a second that go back to main at most: the setting, or what the last run chose",
    ]
    rate_measured: Annotated[
        float | None,
        f"messages a second that went back over `measured_seconds`; 0 if none did{_UNREAD}",
    ]
    measured_seconds: Annotated[
        int | None,
        "seconds of the last 15 minutes from its first run to its last; null if none is known or "
        "CloudWatch could not be read",
    ]
    seconds_to_expiry: Annotated[
        int | None, "until SQS deletes the first message; null if none is known"
    ]
    expires_in: Annotated[str | None, "the source of that message"]
    next: Annotated[Sequence[str], "what happens next and what is not known of it, as sentences"]
    rate_because: Annotated[
        str | None, "what a rate that finds itself does, and why; null if it is fixed or unknown"
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """A pipeline as it is now."""

    name: Annotated[str, "name of the pipeline"]
    mode: Annotated[str, "`enforce`, or `observe` (decides and reports, moves nothing)"]
    fifo: Annotated[bool, "whether its queues are FIFO queues"]
    main: Annotated[QueueDepth | None, "the main queue; null if it could not be read"]
    dlq: Annotated[QueueDepth | None, "the DLQ"]
    parking: Annotated[Mapping[str, QueueDepth | None], "parking queues by id"]
    dedicated: Annotated[Mapping[str, QueueDepth | None], "dedicated DLQs by id"]
    oldest_message_seconds: Annotated[
        int | None, "age of the DLQ's oldest message by CloudWatch; null if it is unknown"
    ]
    waiting: Annotated[Sequence[LaneStatus] | None, f"what waits, by what it waits for{_UNREAD}"]
    places_not_counted: Annotated[int | None, f"things waited for beyond {MOST_LANES}{_UNREAD}"]
    circuit: Annotated[
        CircuitRow | None, "the pipeline's own circuit; null if it could not be read"
    ] = None
    last_run: Annotated[
        Mapping[str, Any] | None,
        "the last run of the DLQ that found something to do: `at` (epoch seconds) and its "
        "report, as in `dlq retry --auto`; null if none is on record, or it could not be read",
    ]
    alarms: Annotated[Sequence[AlarmState] | None, f"its alarms that are in ALARM{_UNREAD}"]
    held: Annotated[Sequence[CircuitRow] | None, f"circuits that a person holds{_UNREAD}"] = None
    misconfigured: Annotated[
        Sequence[CircuitRow] | None,
        f"the circuits for configuration that are not closed, and that no person holds{_UNREAD}",
    ] = None
    causes: Annotated[Sequence[CauseRow] | None, f"causes that suddenly dominate{_UNREAD}"] = None
    collisions: Annotated[
        ManyCollisions | None, "if too many messages collide to park them; null if not, or unread"
    ] = None
    monitor_ran_at: Annotated[
        datetime | None, "when its monitor last ran; null if it never did, or could not be read"
    ] = None
    seen: Annotated[
        Sequence[SeenTrouble] | None,
        f"the troubles that the monitor sees, rung or not yet, the most specific first{_UNREAD}",
    ] = None
    direction: Annotated[
        str | None,
        "where the number of messages in DLQs and waiting went in the monitor's last ten looks: "
        "`rising`, `falling` or `flat` (within 20 %); null before ten looks, or if it is unknown",
    ] = None
    sources: Annotated[
        Sequence[SourceStatus] | None, f"its queues, as runs and the monitor remember them{_UNREAD}"
    ] = None
    runs: Annotated[Sequence[ReplayRow] | None, f"runs live or with messages{_UNREAD}"] = None
    main_oldest_seconds: Annotated[
        int | None, "age of the main queue's oldest message by CloudWatch; null if unknown"
    ] = None
    observed: Annotated[
        ObservedCounts | None,
        "in mode observe, what would have been done; null in mode enforce, before any of it, and "
        "if it could not be read. dlq show tells the causes",
    ] = None
    bad_rows: Annotated[
        Sequence[SeenTrouble],
        "rows that cannot be read, as far as is known, since when they were last met",
    ] = ()
    outlook: Annotated[Outlook | None, "what becomes of its messages if nothing changes"] = None
    foreign_rows: Annotated[
        Sequence[Mapping[str, str]],
        "keys of rows among what waits and its causes that others wrote: they are ignored",
    ] = ()

    @property
    def is_stalled(self) -> bool:
        """Whether no run can do its work, as far as the watch knows."""
        return any(trouble.page == Alarm.REDRIVE_STALLED for trouble in self.seen or ())

    @property
    def depths(self) -> Mapping[str, QueueDepth | None]:
        """How full its queues are, by source; None for one that could not be read."""
        parking = {parking_source(id_): depth for id_, depth in self.parking.items()}
        return {MAIN: self.main, MAIN_DLQ: self.dlq, **parking, **self.dedicated}

    def source(self, source: str) -> SourceStatus | None:
        """What is remembered of a queue; None if it could not be read."""
        return next((status for status in self.sources or () if status.source == source), None)


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A place of letters, something that acts on them, or what stops them."""

    id: Annotated[str, "`<pipeline>/<what>`; edges name it"]
    pipeline: Annotated[str, "name of the pipeline"]
    kind: Annotated[str, "queue, consumer, retry, waiting, rule or circuit"]
    name: Annotated[str, "its name, for people"]
    messages: Annotated[int | None, "messages in it now; null if unknown, or if it holds none ever"]
    oldest_seconds: Annotated[int | None, "age of its oldest message; null if unknown"]
    state: Annotated[str, "of a circuit or rule what it does now; empty for others"]
    says: Annotated[str, "what is to be known of it; may be empty"]


@dataclass(frozen=True, slots=True)
class FlowEdge:
    """A way of letters from one node to another, or what a rule or circuit does to a node."""

    start: Annotated[str, "id of the node that it begins at"]
    end: Annotated[str, "id of the node that it ends at"]
    does: Annotated[str, "what happens on it, as a verb with its object"]
    is_open: Annotated[bool | None, "whether messages take it now; null if that is unknown"]
    because: Annotated[str | None, "why not, or why that is unknown; null if they do"]


@dataclass(frozen=True, slots=True)
class Flow:
    """The drawing of `dlq status --flow`."""

    nodes: Annotated[Sequence[FlowNode], "the nodes, by pipeline"]
    edges: Annotated[Sequence[FlowEdge], "the edges; both ends are among the nodes"]
    recent: Annotated[Sequence[Recent], "the last three hours of each pipeline"]
    unread: Annotated[Sequence[str], "what could not be read, and why: it is not drawn"]
