"""A pipeline whose minutes pass one by one, for the tests of the watch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from deadletter.contract import DAY, MINUTE
from deadletter.message.queue import Depth, QueueState
from deadletter.redrive.source_memory import SourceMemory
from deadletter.replay.care import Care
from deadletter.signals.figures import Counted
from deadletter.signals.pages import Alarm
from deadletter.signals.troubles import why
from deadletter.watch.observation import (
    CircuitsState,
    FirstDue,
    LaneState,
    MetricPoint,
    Observation,
    OldestMessage,
    RulesState,
    SharedLook,
)
from deadletter.watch.queues import lanes_to_count, must_ask
from deadletter.watch.row import WatchRow
from deadletter.watch.watch import Minute, judge_minute, with_rescues
from deadletter.watch.watch_settings import WatchSettings

BEGIN = 1_000_000_000.0
"""When the watch first runs."""


@dataclass
class Minutes:
    """The world of one watch. What a test changes is seen in the next minute.

    `letters` are the messages of each queue, `unreadable` the queues that give no answer,
    `main_oldest` is when the oldest message of the main queue was sent, and `asked` when
    CloudWatch was asked for it.
    """

    settings: WatchSettings = field(
        default_factory=lambda: WatchSettings(pipeline="orders", message_ttl=12.0 * DAY)
    )
    letters: dict[str, int] = field(default_factory=dict)
    retention: dict[str, float] = field(default_factory=lambda: {"main": 4.0 * DAY})
    created: float = BEGIN - 365 * DAY
    unreadable: set[str] = field(default_factory=set)
    memories: dict[str, SourceMemory] | None = field(default_factory=dict)
    circuits: CircuitsState | None = field(default_factory=CircuitsState)
    causes: int | None = 0
    rules: RulesState | None = field(default_factory=RulesState)
    shared: SharedLook | None = field(default_factory=SharedLook)
    consumer: str | None = ""
    replays: Care | None = field(default_factory=Care)
    main_oldest: float | None = None
    asked: list[float] = field(default_factory=list)
    due: FirstDue | None = field(default_factory=lambda: FirstDue(None))
    lanes: dict[str, LaneState] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    now: float = BEGIN
    row: WatchRow | None = None
    minute: Minute | None = None
    rescues: list[tuple[float, str]] = field(default_factory=list)

    def pass_minutes(self, count: int, *, runs_end_well: bool = True) -> None:
        """Let so many minutes pass, with a run in each that did its work."""
        for _ in range(count):
            if runs_end_well and self.memories is not None:
                memory = self.memories.get("dlq", SourceMemory())
                self.memories["dlq"] = replace(memory, ended_at=self.now, ended_well_at=self.now)
            self.look()

    def look(self) -> None:
        """The watch runs once; a minute later it is its turn again."""
        main = None
        if must_ask(self.row, self.now):
            self.asked.append(self.now)
            main = OldestMessage(self.main_oldest)
        to_count, counted = lanes_to_count(self.row, list(self.lanes), self.now)
        observation = Observation(
            queues=self._queues(),
            memories=self.memories,
            circuits=self.circuits,
            causes=self.causes,
            rules=self.rules,
            shared=self.shared,
            consumer=self.consumer,
            replays=self.replays,
            main=main,
            due=self.due,
            lanes={lane: self.lanes[lane] for lane in to_count},
            counted=counted,
            failed=self.failed,
        )
        self.minute = judge_minute(self.row, observation, self.settings, self.now)
        self.rescues += [(self.now, source) for source in self.minute.rescues]
        self.row = with_rescues(self.minute.row, self.minute.rescues, self.now)
        self.now += MINUTE

    def remember(self, source: str = "dlq", **changes: object) -> None:
        """A run of `source` leaves these fields of its memory."""
        assert self.memories is not None
        memory = self.memories.get(source, SourceMemory())
        self.memories[source] = replace(memory, **changes)  # type: ignore[arg-type]  # by name

    def value(self, metric: Counted, source: str | None = None) -> float | None:
        """The figure of the last minute; None if none was published."""
        assert self.minute is not None
        of_pipeline = [point for point in self.points(metric) if not point.everywhere]
        values = [point.value for point in of_pipeline if point.source == source]
        assert len(values) <= 1, values
        return values[0] if values else None

    def points(self, metric: Counted) -> list[MetricPoint]:
        assert self.minute is not None
        return [point for point in self.minute.points if point.metric is metric]

    def why(self, metric: Counted) -> str | None:
        """Why a level calls a person; None if it does not."""
        assert self.row is not None
        return why(self.row.of(Alarm(metric))) or None

    @property
    def rescued(self) -> set[str]:
        return {source for _, source in self.rescues}

    def _queues(self) -> Mapping[str, QueueState]:
        names: Iterable[str] = ("main", *self.settings.sources)
        return {
            name: QueueState(
                depth=Depth(self.letters.get(name, 0), 0, 0),
                created=self.created,
                retention=self.retention.get(name, 14.0 * DAY),
            )
            for name in names
            if name not in self.unreadable
        }
