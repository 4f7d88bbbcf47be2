"""The event source mapping that feeds a consumer from the main queue, and the tag of its pause."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from deadletter.circuit.state import RAMP_STEPS, Circuit, Circuits, Pause, Pollers
from deadletter.circuit.transitions import Breaker, MappingPaused, MappingPutBack, MappingSeen
from deadletter.signals.figures import Count

PAUSE_TAG = "deadletter:paused"
"""The key of the tag."""

_VALUE = re.compile(
    r"g=(?P<generation>\d{1,15})/c=(?P<concurrency>\d{1,6}|-)"
    r"/p=(?P<pollers>\d{1,6}-\d{1,6}|-)/t=(?P<at>\d{1,15})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a mapping: `pollers` in provisioned mode, else `concurrency`.

    Lambda refuses both at once. None: no limit.
    """

    concurrency: int | None = None
    pollers: Pollers | None = None


@dataclass(frozen=True, slots=True)
class PauseTag:
    """A pause as its tag records it: the circuit's generation, the limits to restore, the time.

    `at` is when the tag was written, in epoch seconds, just before the mapping was disabled.
    """

    generation: int
    limits: Limits
    at: float

    def to_value(self) -> str:
        """The tag's value: AWS takes letters, digits, spaces and `_.:/=+-@`, so no JSON."""
        concurrency, pollers = self.limits.concurrency, self.limits.pollers
        limit = "-" if concurrency is None else concurrency
        both = "-" if pollers is None else f"{pollers.minimum}-{pollers.maximum}"
        return f"g={self.generation}/c={limit}/p={both}/t={int(self.at)}"

    @classmethod
    def from_value(cls, value: str) -> PauseTag | None:
        """The pause in a tag's value, or None if no version of ours has written it."""
        match = _VALUE.fullmatch(value)
        if match is None:
            return None
        limit, both = match["concurrency"], match["pollers"]
        limits = Limits(
            None if limit == "-" else int(limit),
            None if both == "-" else Pollers(*map(int, both.split("-"))),
        )
        return cls(int(match["generation"]), limits, float(match["at"]))


LEAST_CONCURRENCY = 2
"""The lowest limit that Lambda accepts for a mapping of SQS."""

LEAST_POLLERS = 2
"""The lowest limit of pollers that Lambda accepts; they serve 20 invocations at once."""

SETTLING_SECONDS = 600.0
"""How long after our tag Lambda may still be disabling the mapping. A later change of a disabled
mapping is a person's."""

TAG_LOOK_SECONDS = 900.0
"""How long after its last change an enabled mapping is looked at for a tag of ours. A tag that
stays longer does no harm: its time is too old to enable anything."""


class MappingUnavailable(Exception):
    """Lambda gave no answer about the mapping, or refused to change it."""


class MappingBusy(Exception):
    """The mapping is still changing, and cannot be changed meanwhile: try again later."""


@dataclass(frozen=True, slots=True)
class ConsumerMapping:
    """A mapping as Lambda describes it.

    `enabled` is its state, or the state it is `changing` to; `concurrency` is its own limit
    (2 to 1,000; None: no limit), or `pollers` its limits in provisioned mode. `changed_at` is
    the time of its last change in epoch seconds.
    """

    id: str
    enabled: bool
    changing: bool = False
    concurrency: int | None = None
    pollers: Pollers | None = None
    arn: str = ""
    changed_at: float = 0.0

    @property
    def limits(self) -> Limits:
        return Limits(self.concurrency, self.pollers)


class Mappings(Protocol):
    """Finds and changes the consumer's mapping.

    Raises MappingUnavailable; what changes it also raises MappingBusy if another change of it
    is under way.
    """

    def find(self) -> ConsumerMapping | None:
        """The mapping from the main queue to the consumer; None if it is missing."""

    def change(
        self, mapping: ConsumerMapping, *, enabled: bool | None, limits: Limits
    ) -> ConsumerMapping:
        """Change the mapping; `enabled` None leaves it enabled or disabled. Returns the mapping.

        `limits` are of the mapping's own kind: pollers only in provisioned mode.
        """

    def pause_tag(self, mapping: ConsumerMapping) -> PauseTag | None:
        """The tag that says that we paused the mapping; None if it has none that we can read."""

    def tag(self, mapping: ConsumerMapping, tag: PauseTag) -> None:
        """Write the tag, in place of an earlier one."""

    def untag(self, mapping: ConsumerMapping) -> None:
        """Remove the tag, if there is one."""


def low_limits(own: Limits, step: int) -> Limits:
    """The mapping's limits at a step of the ramp (1 to RAMP_STEPS); `own` are its own.

    Without an own limit it starts with the lowest and doubles with each step. In provisioned mode
    it is both limits of pollers. A poller serves 10 invocations, so the lowest step is 20 at once:
    with the library, the rate that it admits is the ramp there.
    """
    if step >= RAMP_STEPS:
        return own
    if own.pollers is not None:
        shares = (max(LEAST_POLLERS, limit * step // RAMP_STEPS) for limit in own.pollers)
        return Limits(pollers=Pollers(*shares))
    if own.concurrency is None:
        return Limits(LEAST_CONCURRENCY << (step - 1))
    return Limits(max(LEAST_CONCURRENCY, own.concurrency * step // RAMP_STEPS))


def own_limits(pause: Pause) -> Limits:
    """The limits that the mapping had before the pause."""
    return Limits(pause.concurrency, pause.pollers)


def is_as_paused(mapping: ConsumerMapping, limits: Limits, paused_at: float) -> bool:
    """Whether the mapping is as we left it when we paused it with these limits.

    The first step of the ramp sets other limits, so a disabled mapping with those was
    disabled by somebody else since. (With a limit of 2 no step is lower.) So was one whose last
    change is later than ours can be.
    """
    settled = mapping.changed_at <= paused_at + SETTLING_SECONDS
    return not mapping.enabled and mapping.limits == limits and settled


def _disabled(mapping: ConsumerMapping | None) -> str:
    """The id of a mapping that is disabled; empty if it is not."""
    return "" if mapping is None or mapping.enabled or mapping.changing else mapping.id


@dataclass(slots=True, kw_only=True)
class ConsumerPause:
    """Pauses and resumes the consumer's mapping; its former state is remembered twice.

    It stands in the circuit's row, and in a tag on the mapping for when the row is gone.
    Pausing writes the row, then the tag, then disables. Resuming enables, then removes the tag,
    then clears the row. So a tag without a row that names the pause is left of a lost row.
    `clock` gives epoch seconds; `count_metric` counts a metric by its name.

    It also notes in the row whether a MaximumConcurrency bounds the consumer's functions: only
    then may messages wait in them.
    """

    breaker: Breaker
    circuits: Circuits
    mappings: Mappings
    clock: Callable[[], float]
    count_metric: Callable[[str, int], None]
    # What this process has noted; None before the first look.
    _bounded: bool | None = field(default=None, init=False)

    def pause(self, circuit: Circuit) -> Circuit:
        """Disable the mapping unless it is already disabled. Returns the updated circuit.

        Raises MappingBusy until the mapping is disabled, MappingUnavailable and
        CircuitsUnavailable.
        """
        mapping = self.mappings.find()
        if mapping is None:
            self.count_metric(Count.NOTHING_TO_PAUSE, 1)
            return circuit
        if circuit.paused is None:
            limits = mapping.limits if mapping.enabled else self._forgotten_limits(mapping)
            if limits is None:
                # Disabled by somebody else, who will enable it: we must not.
                return circuit
            if mapping.changing:
                raise MappingBusy(mapping.id)
            circuit = self._remember(circuit, mapping, limits)
        # The circuit may have closed, or the mapping may have been replaced.
        if circuit.paused is None or circuit.paused.mapping != mapping.id:
            return circuit
        if mapping.enabled:
            if mapping.changing:
                raise MappingBusy(mapping.id)
            limits = _of_same_mode(mapping, own_limits(circuit.paused))
            self.mappings.tag(mapping, PauseTag(circuit.generation, limits, self.clock()))
            mapping = self.mappings.change(mapping, enabled=False, limits=limits)
        if mapping.changing:
            raise MappingBusy(mapping.id)
        return circuit

    def resume(self, circuit: Circuit, step: int) -> Circuit:
        """Enable the mapping with the limits of a step of the ramp. Returns the updated circuit.

        The last step restores the mapping's own limits, and clears tag and row. A step may be
        repeated. Raises the errors of `pause`.
        """
        pause = circuit.paused
        if pause is None:
            return circuit
        mapping = self.mappings.find()
        if mapping is not None and mapping.id == pause.mapping:
            wanted = _of_same_mode(mapping, low_limits(own_limits(pause), step))
            enable = True if self._is_ours_to_enable(mapping, pause) else None
            if enable or mapping.limits != wanted:
                if mapping.changing:
                    raise MappingBusy(mapping.id)
                self.mappings.change(mapping, enabled=enable, limits=wanted)
            if step >= RAMP_STEPS:
                self.mappings.untag(mapping)
        if step < RAMP_STEPS:
            return circuit
        return self.breaker.apply(circuit.key, MappingPutBack(pause.mapping)).circuit

    def recover(self, key: str) -> str:
        """Put the mapping back if its tag says that we paused it, and the row of `key` does not.

        A mapping that a person has disabled since stays as it is. While the circuit is open,
        the pause is written into its row again. The tag of an enabled mapping is removed, and
        its limits of the ramp are raised to its own. Returns the id of a mapping that another
        has disabled, else an empty text. Raises the errors of `pause`.
        """
        mapping = self.mappings.find()
        self._note_bound(key, mapping)
        if mapping is None or mapping.changing or not self._may_have_tag(mapping):
            return _disabled(mapping)
        tag = self.mappings.pause_tag(mapping)
        if tag is None:
            return _disabled(mapping)
        # A pause writes its row before the tag: a row that is read after the tag shows it.
        circuit = self.circuits.read([key])[key]
        if circuit.paused is not None:
            return ""
        own = _of_same_mode(mapping, tag.limits)
        if mapping.enabled:
            if mapping.limits in _limits_of_ramp(own):
                self.mappings.change(mapping, enabled=None, limits=own)
            self.mappings.untag(mapping)
        elif _is_from(tag, mapping):
            if circuit.is_closed:
                mapping = self.mappings.change(mapping, enabled=True, limits=own)
                self.count_metric(Count.MAPPING_PUT_BACK, 1)
                self.mappings.untag(mapping)
            else:
                self._remember(circuit, mapping, own)
        else:
            return _disabled(mapping)
        return ""

    def _note_bound(self, key: str, mapping: ConsumerMapping | None) -> None:
        """Note in the row what bounds the consumer, if it is new to this process."""
        bounded = mapping is not None and mapping.concurrency is not None
        if bounded is self._bounded:
            return
        if self.breaker.apply(key, MappingSeen(bounded)).refused is None:
            self._bounded = bounded

    def _remember(self, circuit: Circuit, mapping: ConsumerMapping, limits: Limits) -> Circuit:
        paused = MappingPaused(mapping.id, limits.concurrency, limits.pollers)
        return self.breaker.apply(circuit.key, paused).circuit

    def _forgotten_limits(self, mapping: ConsumerMapping) -> Limits | None:
        """The limits of a disabled mapping that we paused, and whose row is lost; else None."""
        tag = self.mappings.pause_tag(mapping)
        return tag.limits if tag is not None and _is_from(tag, mapping) else None

    def _is_ours_to_enable(self, mapping: ConsumerMapping, pause: Pause) -> bool:
        if mapping.enabled:
            return False
        # A second outage in the ramp writes a new tag, while the row keeps its first time. A
        # person may have removed the tag.
        tag = self.mappings.pause_tag(mapping)
        return is_as_paused(mapping, own_limits(pause), pause.at if tag is None else tag.at)

    def _may_have_tag(self, mapping: ConsumerMapping) -> bool:
        """Whether looking for a tag is worth a call: an enabled mapping is usually untouched."""
        return not mapping.enabled or self.clock() - mapping.changed_at <= TAG_LOOK_SECONDS


def _is_from(tag: PauseTag, mapping: ConsumerMapping) -> bool:
    """Whether this tag is about the mapping's last change."""
    near = abs(mapping.changed_at - tag.at) <= SETTLING_SECONDS
    return near and is_as_paused(mapping, tag.limits, tag.at)


def _limits_of_ramp(own: Limits) -> list[Limits]:
    """The limits that only our ramp sets."""
    steps = [low_limits(own, step) for step in range(1, RAMP_STEPS)]
    return [limits for limits in steps if limits != own]


def _of_same_mode(mapping: ConsumerMapping, limits: Limits) -> Limits:
    """The limits, or the mapping's own if it has changed to or from provisioned mode since."""
    same = (mapping.pollers is None) == (limits.pollers is None)
    return limits if same else mapping.limits
