"""The snapshot of a replay run: what joins it, what does not, and where that goes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.objects import S3RunObjects
from deadletter.aws.replay_runs import packed
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.aws.wiring.replaying import replay_steps_for
from deadletter.contract import PARKED_LANE, Reason, dedicated_lane, lane_partition, run_lane
from deadletter.message.stamp import Stamp, parse
from deadletter.redrive.fifo import BEHIND_A_RUN
from deadletter.redrive.journal import Intent, JournalUnavailable
from deadletter.redrive.report import nothing
from deadletter.replay.freeze import Freeze
from deadletter.replay.manifest import Manifest
from deadletter.replay.names import CountedOrigins, Name, from_lines
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.replay.plan import ReplayPlan, belongs_to
from deadletter.replay.run import ReplayRun
from deadletter.replay.snapshot import Snapshot, SnapshotReport
from deadletter.routing.router import Question, Router, RouterUnavailable
from deadletter.routing.selection import Pick, Selection
from deadletter.signals.figures import Figure
from deadletter.testing.fakes import client_error
from tests.replay.bench import NoExecutions
from tests.simulation.stage import Stage, in_turn, with_
from tests.tables import BUCKET

RATHER_LONG = 1_000.0


class Run:
    """One replay run on a stage."""

    def __init__(self, stage: Stage, counted: Sequence[str] | None = None, **plan: Any) -> None:
        self.stage = stage
        number = None if counted is None else len(counted)
        self.plan = ReplayPlan(pipeline="orders", counted=number, **plan)
        self.counted = None if counted is None else CountedOrigins(list(packed(counted)))
        client: Any = stage.s3
        self.objects: Any = S3RunObjects(client, BUCKET, "orders", self.id)

    @property
    def id(self) -> str:
        return self.plan.run_id

    @property
    def named(self) -> int:
        """How many names stand on the pages of the run."""
        client: Any = self.stage.s3
        objects = S3RunObjects(client, BUCKET, "orders", self.id)
        pages = [objects.get(page.name) for page in objects.listed("pages/")]
        return sum(len(from_lines(page or b"")) for page in pages)

    def snapshot(
        self,
        seconds: float = RATHER_LONG,
        router: Router | None = None,
        lane: str | None = None,
        parking: Sequence[str] = ("default",),
    ) -> SnapshotReport:
        home = "dlq" if lane or self.plan.lane is not None else self.plan.source
        setup = self.stage.redriver(home, router)._setup
        made = Snapshot(
            setup,
            self.plan,
            objects=self.objects,
            counted=self.counted,
            token=setup.owner,
            lane=lane,
            of_source=partial(belongs_to, self.plan.source, parking=parking)
            if lane
            else lambda home: True,
        )
        return made.run(self.stage.clock() + seconds)

    def manifest(self) -> list[Name]:
        room: Any = self.stage.redriver()._setup.room
        assert isinstance(room, DynamoDBWaitingRoom)
        freeze = Freeze(
            self.id, objects=self.objects, custody=room, token="freeze", clock=self.stage.clock
        )
        report = freeze.run(self.stage.clock() + 60)
        assert report.index is not None
        return list(Manifest(self.objects).names(report.index))


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def fifo() -> Stage:
    return Stage(with_(Stage().pipeline, fifo=True))


def dead(stage: Stage, *tenants: str, groups: str = "") -> list[str]:
    """Letters that die at once; returns their ids."""
    ids = []
    for number, tenant in enumerate(tenants):
        options: dict[str, Any] = {}
        if groups:
            options = {
                "MessageGroupId": groups[number],
                "MessageDeduplicationId": f"{number}{tenant}",
            }
        ids.append(stage.put(json.dumps({"tenantId": tenant, "n": number}), **options))
    # The consumer gets ten letters of a group at a time.
    for _ in range(0, len(tenants), 10):
        stage.fail()
    return ids


def lane_of(item: dict[str, Any]) -> str:
    return str(item["lane"]["S"]).removeprefix(lane_partition("orders", "")).rpartition("|")[0]


def lanes(stage: Stage) -> dict[str, str]:
    """The lane of each letter in the room."""
    return {item["copy"]["S"]: lane_of(item) for item in stage.waiting()}


def stamp_of(stage: Stage, copy: str) -> Stamp:
    [item] = [item for item in stage.waiting() if item["copy"]["S"] == copy]
    stamp = parse(item["stamp"]["S"])
    assert stamp is not None
    return stamp


OF_A = Selection(tenants=("a",))


def test_the_chosen_letters_join_and_the_others_wait_for_their_delay(stage: Stage) -> None:
    a1, b, a2 = dead(stage, "a", "b", "a")
    run = Run(stage, selection=OF_A)
    report = run.snapshot()
    assert report == SnapshotReport(done=True, stopped="the source is empty")
    assert lanes(stage) == {a1: run_lane(run.id), a2: run_lane(run.id), b: "due"}
    assert stage.bodies(stage.dlq) == []
    assert stage.bodies(stage.main) == []
    assert {name.copy for name in run.manifest()} == {a1, a2}
    assert stage.journal() == []
    # The schedule sends what waits, and nothing of the run.
    stage.run()
    assert stage.bodies(stage.main) == ['{"tenantId": "b", "n": 1}']
    assert [stamp.attempt for stamp in stage.stamps(stage.main)] == [1]


def test_attempts_and_lives_of_a_run_count_anew(stage: Stage) -> None:
    [first] = dead(stage, "a")
    stage.run()
    stage.fail()
    run = Run(stage, accept="collision")
    run.snapshot()
    [copy] = lanes(stage)
    stamp = stamp_of(stage, copy)
    assert (stamp.origin, stamp.attempt, stamp.base, stamp.spared) == (first, 1, 1, 2)
    assert (stamp.run, stamp.ticket, stamp.accept) == (run.id, None, "collision")
    assert (stamp.decision, stamp.because) == ("HOLD", f"run {run.id}")
    [name] = run.manifest()
    assert (name.copy, name.origin, name.attempt) == (copy, first, 1)
    assert name.first_sent == stamp.first_sent
    assert name.place == (f"orders#message#{copy}", "message")


def test_no_letter_joins_that_was_not_counted(stage: Stage) -> None:
    seen, unseen = dead(stage, "a", "a")
    run = Run(stage, [seen])
    run.snapshot()
    assert run.named == 1
    assert lanes(stage) == {seen: run_lane(run.id), unseen: "due"}


def test_a_letter_that_would_be_parked_stays_out_unless_it_is_included(stage: Stage) -> None:
    stage.add_rule("stop", tenantId="a", action="QUARANTINE")
    dead(stage, "a")
    run = Run(stage)
    run.snapshot()
    assert run.named == 0
    assert stage.bodies(stage.parking) == ['{"tenantId": "a", "n": 0}']
    [copy] = dead(stage, "a")
    include = Selection(include=(Reason.QUARANTINED,))
    run = Run(stage, selection=include)
    run.snapshot()
    assert lanes(stage) == {copy: run_lane(run.id)}


def test_parked_letters_join_and_the_others_stay_parked(stage: Stage) -> None:
    stage.add_rule("stop", tenantId="a", action="QUARANTINE")
    stage.add_rule("too", tenantId="b", action="QUARANTINE")
    dead(stage, "a", "b")
    stage.run()
    run = Run(stage, source="parking:default", selection=OF_A)
    assert (run.snapshot().done, run.named) == (True, 1)
    assert stage.bodies(stage.parking) == []
    [joined, other] = sorted(lanes(stage), key=lambda copy: lanes(stage)[copy], reverse=True)
    assert (lanes(stage)[joined], lanes(stage)[other]) == (run_lane(run.id), PARKED_LANE)
    # The run may leave it: then it is parked with the reason it had.
    assert stamp_of(stage, joined).reason == "QUARANTINED"
    assert stamp_of(stage, other).decision == "PARK"


def test_letters_of_a_dedicated_dlq_join_and_the_others_wait_in_its_lane(stage: Stage) -> None:
    for tenant in "ab":
        stage.put(json.dumps({"tenantId": tenant}), url=stage.dedicated)
    run = Run(stage, source="slow", selection=OF_A)
    assert (run.snapshot().done, run.named) == (True, 1)
    assert sorted(lanes(stage).values()) == [dedicated_lane("slow"), run_lane(run.id)]


def test_letters_of_a_lane_join_and_the_others_go_on_waiting(stage: Stage) -> None:
    """More than one answer of the index has: those that stay must not be listed for ever."""
    tenants = "ab" * 150
    dead(stage, *tenants)
    stage.rescue()
    assert set(lanes(stage).values()) == {"due"}
    run = Run(stage, source="lane:due", selection=OF_A)
    assert (run.snapshot().done, run.named) == (True, 150)
    assert sorted(lanes(stage).values()) == ["due"] * 150 + [run_lane(run.id)] * 150
    assert len(run.manifest()) == 150
    assert (run.snapshot().done, run.named) == (True, 150)


def test_parked_letters_that_were_rescued_are_chosen_by_the_reason_of_their_item(
    stage: Stage,
) -> None:
    stage.add_rule("stop", tenantId="a", action="QUARANTINE")
    dead(stage, "a")
    stage.run()
    stage.rescue("parking:default")
    no = Run(stage, source="lane:parked", selection=Selection(reasons=(Reason.POISON,)))
    assert (no.snapshot().done, no.named) == (True, 0)
    yes = Run(stage, source="lane:parked", selection=Selection(reasons=(Reason.QUARANTINED,)))
    assert (yes.snapshot().done, yes.named) == (True, 1)
    assert list(lanes(stage).values()) == [run_lane(yes.id)]


def test_a_run_of_a_parking_queue_finds_letters_that_another_run_has_taken_along(
    stage: Stage,
) -> None:
    """The first run puts what it leaves out into lane `parked`: it is parked as before."""
    stage.add_rule("stop", tenantId="a", action="QUARANTINE")
    stage.add_rule("too", tenantId="b", action="QUARANTINE")
    origin_a, origin_b = dead(stage, "a", "b")
    stage.run()
    first = Run(stage, [origin_a], source="parking:default", selection=OF_A)
    second = Run(stage, [origin_b], source="parking:default", selection=Selection(tenants=("b",)))
    assert (first.snapshot().done, first.named) == (True, 1)
    assert (second.snapshot().done, second.named) == (True, 0)
    beside = second.plan.lane_beside
    assert beside == PARKED_LANE
    assert (second.snapshot(lane=beside).done, second.named) == (True, 1)
    assert sorted(lanes(stage).values()) == sorted([run_lane(first.id), run_lane(second.id)])
    assert [name.origin for name in second.manifest()] == [origin_b]


def test_the_step_of_a_run_goes_through_its_queue_and_then_through_the_lane_beside_it(
    stage: Stage,
) -> None:
    stage.add_rule("stop", tenantId="a", action="QUARANTINE")
    dead(stage, "a")
    stage.run()
    stage.rescue("parking:default")
    dead(stage, "a")
    stage.run()
    plan = ReplayPlan(pipeline="orders", source="parking:default")
    steps = replay_steps_for(
        stage.pipeline,
        stage.resources,
        stage.clients,
        stage.world,
        nothing,
        executions=NoExecutions(),
        router=stage.router,
        in_parallel=in_turn,
    )
    run = ReplayRun(id=plan.run_id, pipeline="orders")
    taken = steps.setup.snapshot(run, plan, stage.clock() + RATHER_LONG)
    assert taken.done
    assert list(lanes(stage).values()) == [run_lane(run.id)] * 2


def test_the_router_is_asked_of_parked_letters_only_if_they_were_counted(stage: Stage) -> None:
    stage.add_rule("stop", tenantId="a", action="QUARANTINE")
    origins = dead(stage, *"aaaa")
    stage.run()
    stage.rescue("parking:default")
    router = Asked(stage.router)
    run = Run(stage, origins[:1], source="parking:default")
    run.snapshot(router=router, lane=PARKED_LANE)
    assert run.named == 1
    assert router.letters == 1


class Asked:
    """A router that counts the letters that it is asked about."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self.letters = 0

    def decide(self, questions: Sequence[Question]) -> Any:
        return self._router.decide(questions)

    def select(
        self, questions: Sequence[Question], selection: Selection, *, release: bool
    ) -> Sequence[Pick]:
        self.letters += len(questions)
        return self._router.select(questions, selection, release=release)


def test_rescued_letters_of_another_parking_queue_stay_in_their_lane(stage: Stage) -> None:
    stage.add_rule("stop", tenantId="a", action="QUARANTINE")
    dead(stage, "a")
    stage.run()
    stage.rescue("parking:default")
    other = Run(stage, source="parking:legal")
    other_setup = ("default", "legal")
    other.snapshot(lane=PARKED_LANE, parking=other_setup)
    assert other.named == 0
    assert list(lanes(stage).values()) == [PARKED_LANE]
    own = Run(stage, source="parking:default")
    own.snapshot(lane=PARKED_LANE, parking=other_setup)
    assert own.named == 1


def test_letters_of_a_parking_queue_that_is_gone_belong_to_the_default_one() -> None:
    assert belongs_to("parking:default", "parking:gone", ("default", "legal"))
    assert not belongs_to("parking:default", "parking:legal", ("default", "legal"))
    assert belongs_to("parking:legal", "parking:legal", ("default", "legal"))
    assert not belongs_to("parking:legal", "parking:gone", ("default", "legal"))


def test_a_page_names_a_letter_before_its_item_is_there(stage: Stage) -> None:
    dead(stage, "a", "b")
    run = Run(stage)
    objects = run.objects

    class Watching:
        def put(self, name: str, data: bytes) -> None:
            assert lanes(stage) == {}
            objects.put(name, data)

    run.objects = Watching()
    assert (run.snapshot().done, run.named) == (True, 2)
    run.objects = objects
    assert len(run.manifest()) == 2


def test_without_its_page_no_letter_moves(stage: Stage) -> None:
    dead(stage, "a", "b")
    run = Run(stage)
    objects = run.objects

    class Refusing:
        def put(self, name: str, data: bytes) -> None:
            raise ObjectsUnavailable("SlowDown for s3:PutObject on messages")

    run.objects = Refusing()
    report = run.snapshot()
    assert not report.done
    assert report.stopped.startswith("a page of the run cannot be stored: SlowDown")
    assert lanes(stage) == {}
    assert len(stage.bodies(stage.dlq)) == 2
    run.objects = objects
    assert (run.snapshot().done, run.named) == (True, 2)
    assert len(run.manifest()) == 2


def test_a_pass_that_is_cut_off_is_repeated(stage: Stage) -> None:
    dead(stage, *"abcdefgh")
    run = Run(stage)

    class Crash(BaseException):
        pass

    deletes = stage.redriver_sqs.delete_message_batch

    def crashes(**_: Any) -> Any:
        raise Crash

    stage.redriver_sqs.delete_message_batch = crashes  # type: ignore[method-assign]
    with pytest.raises(Crash):
        run.snapshot()
    stage.redriver_sqs.delete_message_batch = deletes  # type: ignore[method-assign]
    assert len(lanes(stage)) == 8
    assert len(stage.bodies(stage.dlq)) == 8
    report = run.snapshot()
    assert not report.done
    assert report.again_at > stage.clock()
    stage.clock.advance(report.again_at - stage.clock())
    assert run.snapshot().done
    assert stage.bodies(stage.dlq) == []
    assert len(run.manifest()) == 8


def test_a_pass_locks_letters_until_its_function_ends_however_short_it_is(stage: Stage) -> None:
    """A pass that stands still could store them after another run has taken them."""
    dead(stage, *"abc")
    setup = stage.redriver()._setup
    run = Run(stage)
    snapshot = Snapshot(setup, run.plan, objects=run.objects, counted=None, token=setup.owner)
    began = stage.clock()
    locks: list[int] = []
    receive = stage.redriver_sqs.receive_message

    def slow(**request: Any) -> Any:
        locks.append(request["VisibilityTimeout"])
        stage.clock.advance(20)
        return receive(**request)

    stage.redriver_sqs.receive_message = slow  # type: ignore[method-assign]
    report = snapshot.run(began + 900, seconds=10)
    assert (report.done, report.stopped) == (False, "the pass has lasted long enough")
    assert locks[0] == 960
    stage.redriver_sqs.receive_message = receive  # type: ignore[method-assign]
    assert lanes(stage) == {}
    # Nothing stays locked: the next pass begins at once.
    assert (run.snapshot().done, len(lanes(stage))) == (True, 3)


def test_another_run_with_the_lease_is_waited_for(stage: Stage) -> None:
    dead(stage, "a")
    lease = stage.redriver()._setup.lease
    lease.acquire("another", stage.clock(), stage.clock() + 3_000)
    report = Run(stage).snapshot()
    assert (report.done, report.stopped) == (False, "another run holds the lease")
    assert len(stage.bodies(stage.dlq)) == 1


def test_a_journal_that_cannot_be_read_may_name_letters_that_are_locked(stage: Stage) -> None:
    """They would be missing in the run if the snapshot were done without them."""
    run = Run(stage)
    dead(stage, "a")
    read, calls = DynamoDBJournal.read, []

    def silent_at_last(journal: DynamoDBJournal) -> Any:
        if stage.bodies(stage.dlq) == []:
            calls.append(stage.clock())
            raise JournalUnavailable("throttled")
        return read(journal)

    with patch.object(DynamoDBJournal, "read", silent_at_last):
        report = run.snapshot()
    assert calls
    assert (report.done, run.named) == (False, 1)
    stage.clock.advance(report.again_at - stage.clock())
    assert run.snapshot().done


def test_another_run_in_a_shard_of_the_lane_is_waited_for(stage: Stage) -> None:
    dead(stage, "a")
    stage.rescue()
    [item] = stage.waiting()
    shard = item["lane"]["S"].rpartition("|")[2]
    journal = stage.redriver()._setup.journal
    journal.write(Intent(f"room:due:{shard}", "another", 1, stage.clock() + 2_000, []), None)
    run = Run(stage, source="lane:due")
    report = run.snapshot()
    assert (report.done, report.stopped) == (False, "another run works in the lane")
    stage.clock.advance(3_000)
    assert (run.snapshot().done, run.named) == (True, 1)


class Router2:
    """The stage's router, which fails or forgets at times; `knows` changes what it knows."""

    def __init__(
        self,
        router: Router,
        *,
        fails: int = 0,
        forgets: str = "",
        knows: Callable[[Stamp], Stamp] = lambda stamp: stamp,
    ) -> None:
        self._router = router
        self._fails = fails
        self._forgets = forgets
        self._knows = knows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._router, name)

    def select(
        self, questions: Sequence[Question], selection: Selection, *, release: bool = False
    ) -> Sequence[Pick]:
        if self._fails:
            self._fails -= 1
            raise RouterUnavailable("down")
        picks = self._router.select(questions, selection, release=release)
        return [
            replace(pick, stamp=self._knows(pick.stamp))
            for pick in picks
            if pick.message_id != self._forgets
        ]


def test_a_router_that_is_down_once_is_asked_again(stage: Stage) -> None:
    dead(stage, "a")
    router: Any = Router2(stage.router, fails=1)
    run = Run(stage)
    assert (run.snapshot(router=router).done, run.named) == (True, 1)


def test_a_router_that_is_down_leaves_everything_where_it_is(stage: Stage) -> None:
    dead(stage, "a")
    router: Any = Router2(stage.router, fails=9)
    run = Run(stage)
    report = run.snapshot(router=router)
    assert (report.done, run.named) == (False, 0)
    assert report.stopped.startswith("the router gave no answer")
    assert len(stage.bodies(stage.dlq)) == 1


def test_a_letter_that_the_router_says_nothing_about_stays(stage: Stage) -> None:
    stays, _ = dead(stage, "a", "a")
    router: Any = Router2(stage.router, forgets=stays)
    run = Run(stage)
    assert (run.snapshot(router=router).done, run.named) == (False, 1)
    # A second pass changes nothing: it is done.
    assert (run.snapshot(router=router).done, run.named) == (True, 1)
    assert len(stage.bodies(stage.dlq)) == 1


@pytest.mark.parametrize(("attempt", "joins"), [(3, True), (4, False)])
def test_a_letter_that_the_run_has_sent_does_not_join_it_again(
    stage: Stage, attempt: int, joins: bool
) -> None:
    """A pass that was held up finds it parked again: its attempts would count anew."""
    dead(stage, "a")
    run = Run(stage)
    knows = partial(replace, run=run.id, attempt=attempt, base=3)
    router: Any = Router2(stage.router, knows=knows)
    run.snapshot(router=router)
    assert run.named == joins
    assert len(stage.bodies(stage.dlq)) == (not joins)
    assert len(run.objects.listed("pages/")) == joins


def refusing(stage: Stage, operation: str, after: int, about: str = "") -> Any:
    """A DynamoDB client whose operation fails from a call on; returns what ends that.

    Only calls whose request has the text `about` are counted, and fail.
    """
    real = getattr(stage.dynamodb, operation)
    calls = itertools.count()

    def refuses(**request: Any) -> Any:
        if about in str(request) and next(calls) >= after:
            raise client_error(operation, "ThrottlingException", "slow down")
        return real(**request)

    setattr(stage.dynamodb, operation, refuses)
    return lambda: setattr(stage.dynamodb, operation, real)


@pytest.mark.parametrize("after", [0, 1])
def test_letters_that_the_room_does_not_take_are_tried_again(stage: Stage, after: int) -> None:
    dead(stage, *"abc" * 40)
    run = Run(stage)
    end = refusing(stage, "batch_write_item", after)
    report = run.snapshot()
    assert not report.done
    assert report.again_at > stage.clock()
    end()
    while not report.done:
        stage.clock.advance(max(0.0, report.again_at - stage.clock()))
        report = run.snapshot()
    assert len(run.manifest()) == 120


def test_a_lane_that_could_not_be_read_to_its_end_is_read_again(stage: Stage) -> None:
    dead(stage, *"abc" * 40)
    stage.rescue()
    run = Run(stage, source="lane:due")
    end = refusing(stage, "update_item", 30)
    assert not run.snapshot().done
    end()
    # Neither its lease nor its claims were given back.
    stage.clock.advance(2_000)
    end = refusing(stage, "batch_get_item", 2, "#message#")
    report = run.snapshot()
    assert (report.done, report.stopped[:30]) == (False, "the waiting room gave no answe")
    end()
    stage.clock.advance(2_000)
    while not report.done:
        report = run.snapshot()
    assert len(run.manifest()) == 120


# FIFO.


def test_a_run_takes_whole_groups_and_later_letters_wait_behind_them(fifo: Stage) -> None:
    stage = fifo
    g1, h1, g2 = dead(stage, "a", "a", "b", groups="ghg")
    selection = Selection(groups=("g",))
    run = Run(stage, [g1, g2], selection=selection)
    run.snapshot()
    assert run.named == 2
    assert lanes(stage) == {g1: run_lane(run.id), g2: run_lane(run.id), h1: "due"}
    assert [name.copy for name in run.manifest()] == [g1, g2]
    [late] = dead(stage, "c", groups="g")
    stage.run()
    assert lanes(stage)[late] == "due"
    assert stage.bodies(stage.main) == ['{"tenantId": "a", "n": 1}']
    # It does not overtake the run's letters when its time has come.
    stage.clock.advance(2 * BEHIND_A_RUN)
    stage.run()
    assert lanes(stage)[late] == "due"


def test_a_group_of_which_a_letter_was_not_counted_is_behind_it_in_order(fifo: Stage) -> None:
    stage = fifo
    g1, g2, g3 = dead(stage, "a", "b", "c", groups="ggg")
    run = Run(stage, [g1, g3], selection=Selection(groups=("g",)))
    run.snapshot()
    assert lanes(stage) == {g1: run_lane(run.id), g2: "due", g3: "due"}
    assert stamp_of(stage, g3).run is None


def test_a_letter_that_is_parked_does_not_keep_its_group_out_of_the_run(fifo: Stage) -> None:
    stage = fifo
    stage.add_rule("stop", tenantId="b", action="QUARANTINE")
    g1, _, g3 = dead(stage, "a", "b", "c", groups="ggg")
    run = Run(stage, selection=Selection(groups=("g",)))
    run.snapshot()
    assert lanes(stage) == {g1: run_lane(run.id), g3: run_lane(run.id)}
    assert len(stage.bodies(stage.parking)) == 1


def test_a_parked_letter_joins_its_run_while_its_group_is_in_another(fifo: Stage) -> None:
    """The schedule would send what waits in the lane of delays: no parked letter goes there."""
    stage = fifo
    for tenant in "abc":
        stage.add_rule(tenant, tenantId=tenant, action="QUARANTINE")
    dead(stage, "a", groups="g")
    stage.run()
    first = Run(stage, source="parking:default", selection=OF_A)
    first.snapshot()
    dead(stage, "b", "c", groups="gg")
    stage.run()
    second = Run(stage, source="parking:default", selection=Selection(tenants=("b",)))
    second.snapshot()
    assert (second.named, len(second.manifest())) == (1, 1)
    assert sorted(lanes(stage).values()) == sorted(
        [PARKED_LANE, run_lane(first.id), run_lane(second.id)]
    )


def test_an_isolated_letter_stays_isolated_while_its_group_is_in_another_run(fifo: Stage) -> None:
    stage = fifo
    runs = []
    for tenant in "ab":
        stage.put(
            json.dumps({"tenantId": tenant}),
            url=stage.dedicated,
            MessageGroupId="g",
            MessageDeduplicationId=tenant,
        )
        runs.append(Run(stage, source="slow", selection=Selection(tenants=(tenant,))))
        runs[-1].snapshot()
    assert sorted(lanes(stage).values()) == [dedicated_lane("slow"), run_lane(runs[0].id)]
    assert runs[1].manifest() == []


def test_the_letters_of_a_run_have_the_order_of_their_queue(fifo: Stage) -> None:
    stage = fifo
    copies = dead(stage, *"abcdefghijkl", groups="g" * 12)
    run = Run(stage, selection=Selection(groups=("g",)))
    run.snapshot()
    assert [name.copy for name in run.manifest()] == copies


def test_nothing_is_counted_as_redriven(stage: Stage) -> None:
    dead(stage, "a", "b")
    setup = stage.redriver()._setup
    run = Run(stage, selection=OF_A)
    Snapshot(setup, run.plan, objects=run.objects, counted=None, token="t").run(
        stage.clock() + RATHER_LONG
    )
    assert setup.tally.count_of(Figure.REDRIVEN) == 0
    assert setup.tally.count_of(Figure.HELD) == 2
    assert replace(run.plan).run_id == run.id
