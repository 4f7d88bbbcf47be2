"""This deployment as a drawing of queues, what waits, rules in force and circuits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from deadletter.circuit.state import State
from deadletter.contract import (
    DEFAULT_PARKING,
    MAIN_DLQ,
    PARKED_FOR,
    Mode,
    Reason,
    circuit_lane,
    delay_lane,
    parking_source,
    rule_lane,
)
from deadletter.rules.rule import Action
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.troubles import Seen, TroubleKind

from .attention import source_name, why_nothing_goes_back, why_unknown
from .circuits import CircuitRow, list_circuits
from .errors import Problem, explain
from .figures import Recent, recently
from .pipeline_status import Flow, FlowEdge, FlowNode, PipelineStatus
from .rules import ListedRule, RulesRequest, list_rules
from .session import Session
from .words import waits_for

MAIN, CONSUMER, RETRY = "main", "consumer", "retry"


def drawn(session: Session, now: Sequence[PipelineStatus], at: datetime, unread: list[str]) -> Flow:
    """The drawing of the pipelines as they were at that moment.

    `unread` is what could not be read until then; what can't be read here is added to it.
    """
    names = [pipeline.name for pipeline in now]
    rules: dict[str, Sequence[ListedRule]] = {}
    circuits: Sequence[CircuitRow] = ()
    try:
        listed = list_rules(session, RulesRequest(pipelines=tuple(names)))
        rules = {each.name: each.rules for each in listed.pipelines}
    except Problem as problem:
        unread.append(f"the rules could not be read: {problem.says}")
    try:
        circuits = list_circuits(session, names).circuits
    except Problem as problem:
        unread.append(f"the circuits could not be read: {problem.says}")
    app, nodes, edges = session.app(), list[FlowNode](), list[FlowEdge]()
    for pipeline in now:
        settings, name = app.pipeline(pipeline.name).settings(), pipeline.name
        own = [row for row in circuits if row.pipeline == name]
        found = drawing(pipeline, settings, rules.get(name, ()), own, at)
        nodes += found[0]
        edges += found[1]
    recent: Sequence[Recent] = ()
    try:
        pipelines = app.select(names) if names else ()
        recent = recently(session.aws.cloudwatch, app, pipelines, at)
    except Exception as error:
        refused = explain(error)
        if refused is None:
            raise
        unread.append(f"the figures could not be read: {refused.says}")
    return Flow(nodes=nodes, edges=edges, recent=recent, unread=unread)


def drawing(
    pipeline: PipelineStatus,
    settings: Pipeline,
    rules: Iterable[ListedRule],
    circuits: Sequence[CircuitRow],
    now: datetime,
) -> tuple[list[FlowNode], list[FlowEdge]]:
    """One pipeline: its nodes, and its edges that begin and end at one of them."""
    in_force = [rule for rule in rules if rule.effect in ("enforced", "shadow")]
    nodes = list(_nodes(pipeline, in_force, circuits))
    ids = {node.id for node in nodes}
    ways = _Ways(pipeline, settings, now)
    edges = [*ways.of_letters(), *ways.of_rules(in_force), *ways.of_circuits(circuits)]
    return nodes, [edge for edge in edges if edge.start in ids and edge.end in ids]


def _id(pipeline: str, what: str) -> str:
    return f"{pipeline}/{what}"


def _nodes(
    pipeline: PipelineStatus, rules: Iterable[ListedRule], circuits: Iterable[CircuitRow]
) -> Iterator[FlowNode]:
    def node(
        what: str,
        kind: str,
        name: str,
        messages: int | None = None,
        oldest: int | None = None,
        state: str = "",
        says: str = "",
    ) -> FlowNode:
        id_ = _id(pipeline.name, what)
        return FlowNode(id_, pipeline.name, kind, name, messages, oldest, state, says)

    for id_, depth in pipeline.depths.items():
        source, letters = pipeline.source(id_), None if depth is None else depth.total
        age = pipeline.main_oldest_seconds if source is None else source.oldest_seconds
        words = source_name(id_).removeprefix("the ")
        yield node(id_, "queue", words, letters, age if letters else None)
    yield node(CONSUMER, CONSUMER, "consumer")
    yield node(RETRY, RETRY, "automatic retry", state=pipeline.mode)
    if pipeline.waiting is None:
        yield node("waiting", "waiting", "waiting", says="it could not be read")
    for lane in pipeline.waiting or ():
        place, says = lane.waiting_for, f"waits for {waits_for(lane.waiting_for)}"
        says += ", and more that were not counted" if lane.is_at_least else ""
        yield node(
            f"waiting:{place}", "waiting", place, lane.messages, lane.oldest_seconds, says=says
        )
    for rule in rules:
        says = f"{rule.action}: {rule.about}; {rule.matches:,} matched"
        yield node(f"rule:{rule.rule_id}", "rule", rule.rule_id, state=rule.effect, says=says)
    for row in circuits:
        says = row.forced_reason or row.because
        yield node(f"circuit:{row.key}", "circuit", row.key, state=row.state, says=says)


class _Ways:
    """The edges of one pipeline. What observes, or waits for a circuit, is closed, with why."""

    def __init__(self, pipeline: PipelineStatus, settings: Pipeline, now: datetime) -> None:
        self._name, self._pipeline, self._settings = pipeline.name, pipeline, settings
        self._stops, self._unknown = why_nothing_goes_back(pipeline, now), why_unknown(pipeline)
        self._is_observed = pipeline.mode == Mode.OBSERVE

    def _edge(self, start: str, end: str, does: str, because: str | None = None) -> FlowEdge:
        ends = _id(self._name, start), _id(self._name, end)
        if because and because == self._unknown:
            return FlowEdge(*ends, does, None, f"unknown: {because}")
        return FlowEdge(*ends, does, because is None, because)

    def of_letters(self) -> Iterator[FlowEdge]:
        """The ways that letters take."""
        stops = self._stops
        yield self._edge(MAIN, CONSUMER, "gives messages to")
        yield self._edge(CONSUMER, MAIN_DLQ, "moves failed messages to")
        yield self._edge(MAIN_DLQ, RETRY, "is emptied by", stops)
        yield self._edge(RETRY, MAIN, "sends messages back to", stops)
        observes = Seen(TroubleKind.OBSERVES).says() if self._is_observed else None
        for id_ in self._pipeline.parking:
            keys = ", ".join(self._parked_in(id_)) or "nothing"
            parking = parking_source(id_)
            yield self._edge(RETRY, parking, f"parks {keys} in", stops)
            if self._settings.consumer_library:
                yield self._edge(CONSUMER, parking, "parks permanent failures in", observes)
        for id_ in self._pipeline.dedicated:
            yield self._edge(RETRY, id_, "sets messages of a rule apart in", stops)
        for lane in self._pipeline.waiting or ():
            place = f"waiting:{lane.waiting_for}"
            yield self._edge(RETRY, place, "lets messages wait in", observes)
            waits = None if lane.first_due else f"waits for {waits_for(lane.waiting_for)}"
            yield self._edge(place, RETRY, "gives messages to", stops or waits)

    def _parked_in(self, id_: str) -> list[str]:
        """The reasons and categories whose letters go to a parking queue."""
        queues = self._settings.parking
        if id_ == DEFAULT_PARKING:
            others = [key for key in PARKED_FOR if queues.get(key, id_) != id_]
            return [f"all but {', '.join(others)}" if others else "all"]
        return [str(key) for key in PARKED_FOR if queues.get(key) == id_]

    def of_rules(self, rules: Iterable[ListedRule]) -> Iterator[FlowEdge]:
        """What the rules in force do."""
        for rule in rules:
            shadow = "it only counts, as a shadow" if rule.effect == "shadow" else None
            end = self._end_of(rule)
            yield self._edge(f"rule:{rule.rule_id}", end, f"{rule.action} instructs", shadow)

    def _end_of(self, rule: ListedRule) -> str:
        """Where the letters of a rule go: a queue, or its lane if some wait there."""
        quarantine = self._settings.parking.get(Reason.QUARANTINED, DEFAULT_PARKING)
        ends = {
            Action.QUARANTINE: parking_source(quarantine),
            Action.DEDICATED_DLQ: rule.queue or RETRY,
            Action.HOLD: f"waiting:{rule_lane(rule.rule_id)}",
            Action.DELAYED_REDRIVE: f"waiting:{delay_lane(rule.rule_id)}",
        }
        end = RETRY if rule.action is None else ends.get(Action(rule.action), RETRY)
        drawn = {f"waiting:{lane.waiting_for}" for lane in self._pipeline.waiting or ()}
        return RETRY if end.startswith("waiting:") and end not in drawn else end

    def of_circuits(self, circuits: Iterable[CircuitRow]) -> Iterator[FlowEdge]:
        """What the circuits stop."""
        for row in circuits:
            circuit, place = f"circuit:{row.key}", f"waiting:{circuit_lane(row.key)}"
            closed = "it is closed: it stops nothing" if row.state == State.CLOSED else None
            yield self._edge(circuit, CONSUMER, "refuses calls of", closed)
            yield self._edge(circuit, place, "holds messages in", closed)
