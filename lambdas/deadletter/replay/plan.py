"""The plan of a replay run: which letters go where, how fast, when it stops, and who approves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from deadletter.contract import DAY, DEFAULT_PARKING, MAIN_DLQ, PARKED_LANE, parking_source
from deadletter.contract import KeyPolicy as KeyPolicy
from deadletter.routing.selection import Selection, selection_from_data
from deadletter.settings.json_fields import BadSettings, build
from deadletter.settings.pipeline import ReplayPolicy

CAREFUL_RATE = 5.0
"""Letters per second of a run whose main queue's usual rate is unknown."""

MAIN_QUEUE = "main"
"""The destination of letters that go back to the main queue."""

DELIVER = "deliver"
"""The destination of letters that are handed to the consumer function, in order."""

DISCARD = "discard"
"""The destination of letters that are thrown away, for a reason that a person gives."""

RESTORE = "restore"
"""The destination of discarded letters that go back to where they were parked."""

DISCARDED_LETTERS = "discarded"
"""The source of letters that runs have thrown away; `discarded:<run>` are those of one run."""

ORIGINALS = "originals:"
"""What a source begins with that is the letters of an earlier run, as that run took them."""

AGAIN = "again"
"""What a plan accepts whose letters get a new idempotency key."""

LANE = "lane:"
"""What a source begins with that is a lane of the waiting room."""

RUN_ID_LENGTH = 16
"""Characters of a run's id: hexadecimal, 64 bits of the plan's hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """A replay run as a person has seen and started it.

    source       "dlq", "parking:<id>", the id of a dedicated DLQ, "lane:<lane>",
                 "discarded[:<run>]", or "originals:<run>"
    destination  "main", "deliver", "discard", "restore", or the id of a dedicated DLQ
    counted      how many letters the person saw counted: only these may join the run, by the
                 list that is stored beside the plan (None: any that the selection matches)
    rate         letters per second at full pace, of all workers together; `burst` letters
    canary       letters of each step before the ramp, each with a verdict of its own
    ramp         shares of the rate after the canaries, each for `ramp_seconds`
    error_rate   share of known outcomes that are failures, from `minimum` outcomes, that holds
                 the run
    attempts     sends of a letter within the run before it is quarantined
    retry_after  seconds from a try that failed to the second one, twice that to the third: an
                 endpoint that fails holds the run before it uses up the tries of its letters
    on_failure   whether an ordering key goes on behind a letter that failed for good
    on_unknown   the same for a letter whose outcome nobody learns
    ordered      whether each ordering key is strictly serial by outcome
    outcome_timeout  seconds after a send until its outcome counts as unknown
    approve      whether a person has to approve the snapshot
    hold         whether the run is HELD once it has its letters, until a person lets it go on
    keep_export  whether discarded letters are kept in the bucket
    forget       whether a run that throws letters away erases all else that is kept of them
    accept       what the person accepts of the letters: "collision", or "again", that they are
                 processed once more
    expires      epoch seconds at which an unfinished run is aborted
    who, why     the person, and the reason given
    """

    pipeline: str
    source: str = MAIN_DLQ
    selection: Selection = field(default_factory=Selection)
    destination: str = MAIN_QUEUE
    counted: int | None = None
    rate: float = CAREFUL_RATE
    burst: int = 10
    canary: tuple[int, ...] = (1, 2, 5, 20)
    ramp: tuple[float, ...] = (0.25, 0.5, 1.0)
    ramp_seconds: float = 60.0
    # Above it, a run meets something else than single bad letters.
    error_rate: float = 0.4
    # Fewer outcomes are no rate.
    minimum: int = 10
    attempts: int = 3
    retry_after: float = 30.0
    on_failure: KeyPolicy = KeyPolicy.GO
    on_unknown: KeyPolicy = KeyPolicy.GO
    ordered: bool = False
    outcome_timeout: float = ReplayPolicy().outcome_timeout
    workers: int = 1
    approve: bool = False
    hold: bool = False
    keep_export: bool = True
    forget: bool = False
    accept: str | None = None
    created: float = 0.0
    expires: float = 0.0
    who: str = ""
    why: str = ""

    @property
    def run_id(self) -> str:
        """The id of this plan's run: a second start of one plan finds the first."""
        return hashlib.blake2b(self.to_text().encode(), digest_size=RUN_ID_LENGTH // 2).hexdigest()

    @property
    def discards(self) -> bool:
        """Whether its letters are thrown away."""
        return self.destination == DISCARD

    @property
    def restores(self) -> bool:
        """Whether it brings back letters that were thrown away."""
        return self.destination == RESTORE

    @property
    def restored_run(self) -> str | None:
        """The run whose discarded letters it brings back; None: those of any run."""
        return self.source.partition(":")[2] or None

    @property
    def is_for_discarders(self) -> bool:
        """Whether only who may throw letters away may start it."""
        return self.discards or self.restores

    @property
    def keeps_originals(self) -> bool:
        """Whether its letters are kept as it took them, if the settings keep any.

        A discard keeps copies of its own, and none if a person says so. What is made of originals
        has its originals where it was made from.
        """
        return not self.is_for_discarders and self.repeated_run is None

    @property
    def repeated_run(self) -> str | None:
        """The run whose originals it sends once more; None if it takes letters that wait."""
        return self.source.removeprefix(ORIGINALS) if self.source.startswith(ORIGINALS) else None

    @property
    def forgets(self) -> bool:
        """Whether it leaves nothing of its letters, neither here nor from earlier runs."""
        return self.discards and self.forget

    @property
    def lane(self) -> str | None:
        """The lane that is the source; None if the source is a queue."""
        return self.source.removeprefix(LANE) if self.source.startswith(LANE) else None

    @property
    def lane_beside(self) -> str | None:
        """The lane that holds letters of the source too; None if the source is all there is.

        A parked letter is in its queue until the queue is rescued or another run has taken it
        along; then it is in lane `parked`. A person who chooses it need not know where it is.
        """
        return PARKED_LANE if self.source.startswith(parking_source("")) else None

    @property
    def is_release(self) -> bool:
        """Whether its letters were given up before: their attempts and lives count anew."""
        return self.source.startswith(parking_source("")) or self.lane == PARKED_LANE

    def to_text(self) -> str:
        """The plan as JSON, the same text for the same plan; `plan_from_text` is its inverse."""
        data = asdict(self)
        for name in ("forget", "hold"):
            if not data[name]:
                # The text of a plan is its run's id: it stays what it was before there was the word
                del data[name]
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


def plan_from_text(text: str) -> ReplayPlan:
    """The plan in JSON. Raises BadSettings for anything that `to_text` did not write."""
    try:
        data = json.loads(text)
        selection = selection_from_data(data.pop("selection", {}))
        for name in ("on_failure", "on_unknown"):
            if name in data:
                data[name] = KeyPolicy(data[name])
        plan = build(ReplayPlan, "plan", {name: _frozen(value) for name, value in data.items()})
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise BadSettings(f"this is no plan of a run: {error}") from error
    return replace(plan, selection=selection)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def belongs_to(source: str, home: str, parking: Collection[str]) -> bool:
    """Whether a letter of lane `parked` that came from `home` is one of this parking source.

    `parking` are the ids of the pipeline's parking queues. Letters of a queue that exists no
    more are those of the queue that every pipeline has.
    """
    if source == parking_source(DEFAULT_PARKING):
        return home not in {parking_source(id_) for id_ in parking} - {source}
    return home == source


LONGEST_RUN = 7 * DAY
"""Seconds after which an unfinished run is aborted at the latest."""


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """What a person said to a run that waits for an approval, and why."""

    approved: bool
    by: str
    because: str


@dataclass(frozen=True, slots=True)
class RunApproval:
    """What is on record about a run's approval, where the person who planned it can't write.

    asked   whether a person had to be asked, as the freeze of its snapshot has found; None if
            nothing is on record: the run was begun by hand
    answer  what a person has answered; None if he has not
    """

    asked: bool | None = None
    answer: ApprovalAnswer | None = None

    @property
    def allows(self) -> bool:
        """Whether the run may send: nobody had to be asked, or somebody has approved.

        The run's own item is no proof of that: whoever may hold and resume a run writes it.
        """
        return self.asked is False or (self.answer is not None and self.answer.approved)
