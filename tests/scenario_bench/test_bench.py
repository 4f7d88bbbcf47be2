"""Short scenarios: what has to hold whatever the product concludes, and that the bench can fail."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import boto3
import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitBreakerConfig
from botocore.exceptions import NoRegionError

from deadletter.aws import clients
from tests.scenario_bench import __main__ as command
from tests.scenario_bench import page
from tests.scenario_bench.catalogue import BY_NAME, SCENARIOS
from tests.scenario_bench.chart import chart
from tests.scenario_bench.event_source import Environment
from tests.scenario_bench.goals import GOALS, judged
from tests.scenario_bench.measure import Figures, overtaken, play, run
from tests.scenario_bench.page import as_markdown
from tests.scenario_bench.scenario import MAIL, PAYMENTS, Burst, Event, Scenario, Spell, Trouble
from tests.scenario_bench.summary import AGAINST_NATIVE, Row, duration, rows_of
from tests.scenario_bench.systems import (
    SYSTEMS,
    VISIBILITY,
    Deadletter,
    NativeRedrive,
    NoBreaker,
    Powertools,
    Respond,
    System,
)
from tests.scenario_bench.traffic import Book, messages_of

# The systems beside the product only show that the bench can tell: at night.
EVERY_SYSTEM = [
    name if name == "deadletter" else pytest.param(name, marks=pytest.mark.nightly)
    for name in sorted(SYSTEMS)
]

OUTAGE = Scenario(
    name="short",
    title="an outage",
    rate=5,
    lasts=160,
    tail=240,
    spells=(Spell(begins=30, ends=130),),
)


def played(kind: type[System], scenario: Scenario = OUTAGE, seed: int = 1) -> Figures:
    return play(kind(scenario, seed, Book(messages_of(scenario, seed))))


@pytest.mark.parametrize("name", EVERY_SYSTEM)
def test_without_trouble_every_message_is_processed_once(name: str) -> None:
    figures = run(replace(BY_NAME["calm"], lasts=60, tail=10), name, 1)
    assert (figures.sent, figures.goodput, figures.dead_requests) == (300, 1.0, 0)
    assert (figures.openings, figures.letters, figures.duplicates, figures.lost) == (0, 0, 0, 0)


@pytest.mark.parametrize("name", EVERY_SYSTEM)
def test_no_message_is_lost_and_the_same_seed_gives_the_same_figures(name: str) -> None:
    poisoned = replace(OUTAGE, poison=0.1, rate=1, lasts=100, tail=300)
    figures = run(poisoned, name, 1)
    assert figures.lost == 0
    assert figures == run(poisoned, name, 1)
    assert figures.sent == 100


@pytest.mark.nightly
def test_without_a_breaker_each_message_of_a_short_outage_makes_one_request() -> None:
    figures = played(NoBreaker)
    # 100 s at 5/s; what fails comes back after 180 s. At the edges a message or two differ.
    assert figures.dead_requests == pytest.approx(500, abs=3)
    assert (figures.goodput, figures.letters) == (1.0, 0)


@pytest.mark.nightly
def test_powertools_opens_after_five_failures_in_a_row_of_one_environment() -> None:
    figures = played(Powertools)
    # Ten environments take turns at 5/s: each has failed five times after 10 s.
    assert figures.opened_after == pytest.approx(10, abs=3)
    # Then one probe for each 30 s.
    assert 41 <= figures.dead_requests <= 80
    assert figures.goodput == 1.0


def test_the_product_opens_in_an_outage() -> None:
    figures = played(Deadletter, replace(OUTAGE, lasts=60, tail=0))
    assert figures.opened_after is not None
    assert figures.opened_after < 10


@pytest.mark.nightly
def test_a_thousand_environments_find_a_limit_and_write_one_row() -> None:
    """429 to all above 400 of 500 a second: what was called is reported late, as batches are few.

    DynamoDB takes 1,000 writes a second of one row.
    """
    spell = Spell(begins=10, ends=1e9, trouble=Trouble.THROTTLED, limit=400.0)
    scenario = replace(OUTAGE, rate=500, lasts=50, tail=0, environments=1_000, spells=(spell,))
    system = Deadletter(scenario, 1, Book(messages_of(scenario, 1)))
    play(system)
    writes = Counter(map(int, system.circuit_writes))
    assert max(writes.values()) <= 200
    accepted = sum(at >= 40 for at in system.dependencies.accepted)
    assert accepted >= 0.95 * 400 * 10


@pytest.mark.nightly
def test_full_throughput_is_back_when_what_is_sent_is_processed() -> None:
    # Nothing is refused, so the message sent at the recovery is processed at the recovery.
    steady = replace(OUTAGE, lasts=200)
    assert played(NoBreaker, steady).full_rate_after == pytest.approx(0, abs=1)
    # Powertools refuses until its circuit is closed.
    figures = played(Powertools, steady)
    assert figures.closed_after is not None
    assert figures.full_rate_after == pytest.approx(figures.closed_after, abs=10)


def test_only_letters_that_were_dead_themselves_count_as_moved_out_of_order() -> None:
    book = Book(messages_of(replace(OUTAGE, rate=1, lasts=5), 1))
    book.processed_at = {3: 1.0, 1: 2.0, 4: 3.0, 0: 4.0, 2: 5.0}
    assert overtaken(book, range(5)) == [1, 0, 2]
    # 1 was overtaken by a live message, and 0 by another dead one.
    assert overtaken(book, {0, 1}) == [0]
    assert overtaken(book, {0, 4, 3}) == [0]


def test_dead_letters_of_a_fifo_group_are_processed_in_their_order() -> None:
    fifo = replace(OUTAGE, fifo=True, ours=False, keys=3, lasts=200, tail=900)
    fifo = replace(fifo, spells=(Spell(begins=30, ends=160),))
    figures = played(Deadletter, fifo)
    assert figures.letters > 0
    assert (figures.disordered, figures.lost, figures.goodput) == (0, 0, 1.0)


def test_a_health_url_that_says_down_keeps_every_letter_from_the_dependency() -> None:
    outage = replace(OUTAGE, lasts=200, spells=(Spell(begins=30, ends=190),))
    blind, asked = (
        played(Deadletter, outage),
        played(Deadletter, replace(outage, has_health_url=True)),
    )
    assert asked.dead_requests < blind.dead_requests


@pytest.mark.slow_because("whole outages, with names and without")
@pytest.mark.nightly
def test_a_dependency_that_is_down_stops_only_the_messages_that_need_it_named_or_not() -> None:
    both = ((PAYMENTS,), (PAYMENTS, MAIL))
    two = replace(OUTAGE, needs=both, spells=(Spell(begins=30, ends=130, dependency=MAIL),))
    named, unnamed = (played(Deadletter, replace(two, named=named)) for named in (True, False))
    assert named.bystanders is not None
    assert unnamed.bystanders is not None
    assert min(named.bystanders, unnamed.bystanders) > 0.99


class NeverOpening(Powertools):
    """A planted worse breaker."""

    config = CircuitBreakerConfig(failure_threshold=100_000)


class Blind(Deadletter):
    """The product, whose breaker sees nothing."""

    def pipeline(self) -> Any:
        pipeline = super().pipeline()
        blind = replace(pipeline.circuit, consecutive=0, minimum=1_000_000)
        return replace(pipeline, circuit=blind)


class Forgetful(NoBreaker):
    """A consumer that acknowledges what it has not processed."""

    def start(self, environment: Environment) -> Respond:
        respond = super().start(environment)

        def forget(records: Any, deadline: float, permit: str | None) -> dict[str, Any]:
            respond(records, deadline, permit)
            return {"batchItemFailures": []}

        return forget


class Repeating(NoBreaker):
    """A consumer that says that it has failed although it has not."""

    def start(self, environment: Environment) -> Respond:
        respond = super().start(environment)

        def repeat(records: Any, deadline: float, permit: str | None) -> dict[str, Any]:
            respond(records, deadline, permit)
            return {"batchItemFailures": [{"itemIdentifier": r["messageId"]} for r in records]}

        return repeat


@pytest.mark.nightly
def test_a_breaker_that_never_opens_lets_more_requests_through() -> None:
    never = played(NeverOpening)
    assert never.dead_requests > 5 * played(Powertools).dead_requests
    assert never.openings == 0


@pytest.mark.nightly
def test_the_product_with_a_blind_breaker_lets_more_requests_through() -> None:
    refusing = replace(OUTAGE, lasts=60, tail=0)
    blind, seeing = played(Blind, refusing), played(Deadletter, refusing)
    assert (blind.openings, seeing.openings) == (0, 1)
    assert blind.dead_requests > 3 * seeing.dead_requests


@pytest.mark.nightly
def test_a_message_that_is_acknowledged_unprocessed_is_lost() -> None:
    assert played(Forgetful).lost == pytest.approx(500, abs=3)


def test_a_repeated_effect_is_a_duplicate() -> None:
    healthy = replace(OUTAGE, spells=(), lasts=20)
    figures = played(Repeating, healthy)
    assert figures.duplicates == figures.sent == 100


@pytest.mark.nightly
def test_what_a_person_purges_is_not_lost() -> None:
    purged = replace(OUTAGE, events=((100.0, Event.PURGE),))
    figures = played(NoBreaker, purged)
    assert figures.lost == 0
    assert 300 < figures.healthy < 800
    assert figures.goodput == 1.0


def test_a_deleted_row_is_gone() -> None:
    deleted = replace(OUTAGE, lasts=60, tail=0, events=((59.999, Event.DELETE_ROW),))
    system = Deadletter(deleted, 1, Book(messages_of(deleted, 1)))
    play(system)
    assert system.states() == []


def test_an_execution_that_is_killed_runs_no_more() -> None:
    killed = replace(OUTAGE, lasts=60, tail=0, events=((59.0, Event.KILL_EXECUTION),))
    system = Deadletter(killed, 1, Book(messages_of(killed, 1)))
    play(system)
    assert system.states() == ["OPEN"]
    assert system.machine.list_executions() == {"executions": []}


def test_slow_calls_are_no_failures_and_timeouts_are() -> None:
    for trouble, dead in ((Trouble.SLOW, False), (Trouble.TIMEOUT, True)):
        [spell] = OUTAGE.spells
        scenario = replace(OUTAGE, spells=(replace(spell, trouble=trouble),), lasts=60, tail=0)
        assert bool(played(NoBreaker, scenario).dead_requests) is dead


# Between well and dead: a few rows of the catalogue, in little.

LIMITED = replace(
    BY_NAME["limited"], rate=2, lasts=150, tail=300, capacity=4, spells=(Spell(begins=30, ends=90),)
)
THROTTLED = replace(
    LIMITED,
    capacity=None,
    spells=(Spell(begins=30, ends=130, trouble=Trouble.THROTTLED, limit=1),),
)
MINORITY = replace(
    BY_NAME["minority-4"],
    rate=2,
    lasts=150,
    tail=240,
    spells=(Spell(begins=30, ends=130, tenants=("t0", "t1", "t2", "t3")),),
)
HALF = replace(
    BY_NAME["half-fix"],
    rate=1,
    lasts=120,
    tail=240,
    spells=(
        Spell(begins=30, ends=60, trouble=Trouble.BUG),
        Spell(begins=60, ends=100, trouble=Trouble.BUG, odd=True),
    ),
)
BETWEEN = {"limited": LIMITED, "429": THROTTLED, "minority": MINORITY, "half fix": HALF}


@pytest.mark.parametrize("scenario", BETWEEN.values(), ids=BETWEEN.keys())
@pytest.mark.nightly
def test_plain_sqs_brings_every_message_through_and_leaves_the_others_alone(
    scenario: Scenario,
) -> None:
    figures = played(NativeRedrive, scenario)
    assert (figures.goodput, figures.late, figures.openings) == (1.0, 0, 0)
    assert figures.bystanders in (None, 1.0)
    assert figures.last_back is not None
    assert figures.last_back <= 2 * VISIBILITY


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(scenario, id=name, marks=() if name == "429" else pytest.mark.nightly)
        for name, scenario in BETWEEN.items()
    ],
)
def test_the_product_loses_and_repeats_no_message_between_well_and_dead(
    scenario: Scenario,
) -> None:
    figures = played(Deadletter, scenario)
    assert (figures.lost, figures.duplicates) == (0, 0)


def test_what_a_rate_limit_serves_is_counted_against_what_it_allows() -> None:
    figures = played(NativeRedrive, THROTTLED)
    assert figures.used == pytest.approx(1.0, abs=0.05)
    assert figures.dead_requests > 0
    blocked = replace(THROTTLED, events=((30.0, Event.FORCE_OPEN),))
    assert played(Deadletter, blocked).used == pytest.approx(0.0, abs=0.05)


@pytest.mark.nightly
def test_the_surge_is_that_of_the_whole_backlog_and_of_nothing_after_it() -> None:
    burst = Burst(begins=150, ends=155, rate=50)
    short = replace(OUTAGE, lasts=200, spells=(Spell(begins=30, ends=60),))
    # 150 messages come back 3 min after their first failure, at 5/s beside the other 5/s.
    calm = played(NoBreaker, replace(short, lasts=300))
    assert calm.last_back == pytest.approx(VISIBILITY, abs=5)
    assert calm.surge == pytest.approx(2.0, abs=0.3)
    # Fifty a second before the last of them is back are part of it, and later ones not.
    assert (played(NoBreaker, replace(short, bursts=(burst,))).surge or 0) > 4
    after = replace(burst, begins=260, ends=265)
    assert played(NoBreaker, replace(short, lasts=300, bursts=(after,))).surge == calm.surge


@pytest.mark.nightly
def test_what_never_comes_back_is_late_and_has_no_last_one() -> None:
    dead = replace(OUTAGE, lasts=160, tail=1_000, spells=(Spell(begins=30, ends=1_100),))
    figures = played(NoBreaker, replace(dead, lasts=1_110, rate=0.5, tail=0))
    assert figures.last_back is None
    assert figures.longest is None
    unprocessed = figures.healthy * (1 - figures.goodput)
    assert figures.late == pytest.approx(unprocessed, abs=1)


def test_each_move_counts_once_from_the_queue_to_the_end() -> None:
    spells = (Spell(begins=10, ends=950),)
    dead = Scenario(name="dead", title="", rate=1, lasts=20, tail=1_300, spells=spells)
    never, moved = played(NoBreaker, dead), played(NativeRedrive, dead)
    # Ten of twenty die once, and a move task brings them back once.
    assert (never.letters, never.moves) == (10, 0.5)
    assert (moved.letters, moved.moves, moved.goodput) == (10, 1.0, 1.0)


@pytest.mark.nightly
def test_a_letter_that_is_put_into_the_waiting_room_has_moved() -> None:
    spells = (Spell(begins=30, ends=401),)
    dead = replace(OUTAGE, ours=False, rate=1, lasts=200, tail=200, spells=spells)
    system = Deadletter(dead, 1, Book(messages_of(dead, 1)))
    figures = play(system)
    waiting = len(system.letters_in_room())
    assert waiting > 0
    # Each died, and those in the room stay there: nothing is well until the end.
    assert system.moves == figures.letters + waiting


def test_a_circuit_that_opens_after_the_recovery_has_opened_again() -> None:
    again = replace(OUTAGE, lasts=90, tail=0, rate=2, spells=(Spell(begins=30, ends=40),))
    once = played(Deadletter, again)
    twice = played(Deadletter, replace(again, events=((80.0, Event.FORCE_OPEN),)))
    assert (once.openings, once.reopenings) == (1, 0)
    assert (twice.openings, twice.reopenings) == (2, 1)


def test_the_product_asks_no_region_and_makes_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS")]:
        monkeypatch.delenv(name)

    for maker in vars(clients).values():
        if hasattr(maker, "cache_clear"):
            maker.cache_clear()
    made: list[str] = []

    def refuse(service: str, **_: Any) -> Any:
        made.append(service)
        raise NoRegionError

    monkeypatch.setattr(clients, "client_of", refuse)
    monkeypatch.setattr(boto3, "client", refuse)
    # Of a queue that is full for an hour the watch asks CloudWatch.
    spells = (Spell(begins=30, ends=4_500),)
    figures = played(Deadletter, replace(OUTAGE, rate=0.1, lasts=4_500, tail=0, spells=spells))
    assert (figures.openings, made) == (1, [])


def test_every_scenario_has_a_name_a_title_and_healthy_minutes_first() -> None:
    assert len(BY_NAME) == len(SCENARIOS) == len({scenario.title for scenario in SCENARIOS})
    for scenario in SCENARIOS:
        assert scenario.begins is None or scenario.begins >= 60
        assert scenario.recovers is None or scenario.recovers < scenario.lasts


def test_every_goal_is_about_a_figure_of_a_scenario() -> None:
    for goal in GOALS:
        assert goal.scenario in BY_NAME
        assert goal.figure in {*Figures.__dataclass_fields__, AGAINST_NATIVE}


# The table, the chart, the command.


def figures_of(**changes: Any) -> Figures:
    nothing: dict[str, Any] = dict.fromkeys(Figures.__dataclass_fields__, 0)
    base = {"scenario": "outage-3m", "system": "none", "goodput": 1.0, "waiting": {}}
    return Figures(**{**nothing, **base, **changes})


def row_of(*runs: Figures) -> Row:
    return Row(BY_NAME["outage-3m"], "none", runs)


def test_a_row_has_the_median_and_the_95th_percentile_of_its_seeds() -> None:
    row = row_of(*(figures_of(dead_requests=count) for count in range(1, 101)))
    assert (row.middle("dead_requests"), row.p95("dead_requests")) == (50.5, 95)


def test_what_never_happens_in_most_runs_is_never() -> None:
    often = figures_of(closed_after=None, openings=1)
    assert (
        row_of(often, often, figures_of(closed_after=5.0, openings=1)).cell("closed_after")
        == "never"
    )
    assert math.isinf(row_of(often).middle("closed_after"))


def test_a_system_without_a_circuit_has_no_times_of_one() -> None:
    assert row_of(figures_of()).cell("closed_after") == "-"


def test_goodput_is_not_rounded_up_to_the_whole() -> None:
    assert row_of(figures_of(goodput=0.9999)).cell("goodput") == "99.9 %"


def test_durations_are_readable() -> None:
    assert [duration(59.4), duration(3_600), duration(36_000)] == ["59 s", "60 min", "10.0 h"]


def test_a_goal_is_judged_by_the_product_alone_and_by_median_or_95th_percentile() -> None:
    runs = [
        figures_of(scenario="outage-30m", system="deadletter", openings=1, closed_after=after)
        for after in (20.0, 25.0, 90.0)
    ]
    verdicts = {
        title: (value, is_met) for title, _, value, is_met in judged(rows_of(SCENARIOS, runs))
    }
    assert verdicts["outage 30 min: to CLOSED"] == ("25 s", "yes")
    assert verdicts["outage 30 min: to CLOSED, p95"] == ("90 s", "no")
    assert judged(rows_of(SCENARIOS, [figures_of()])) == []


def verdict_of(title: str, *runs: Figures) -> tuple[str, ...] | None:
    verdicts = {first: tuple(rest) for first, *rest in judged(rows_of(SCENARIOS, runs))}
    return verdicts.get(title)


def test_a_goal_may_be_what_native_redrive_reaches() -> None:
    title = "429: late, at most native's"
    mine = figures_of(scenario="rate-limit", system="deadletter", late=80)
    native = [figures_of(scenario="rate-limit", system="native", late=late) for late in (70, 90)]
    assert verdict_of(title, mine) is None
    assert verdict_of(title, mine, *native) == ("<= 80", "80", "yes")
    assert verdict_of(title, replace(mine, late=81), *native) == ("<= 80", "81", "no")


def test_requests_are_compared_with_those_of_native_redrive_with_the_same_seed() -> None:
    title = "200 with an empty body: requests, of native's"
    runs = [
        figures_of(scenario="bad-replies", system=system, seed=seed, dead_requests=count)
        for system, seed, count in (
            ("native", 1, 100),
            ("native", 2, 1_000),
            ("deadletter", 1, 90),
            ("deadletter", 2, 4_000),
            ("deadletter", 3, 1_000_000),
        )
    ]
    assert verdict_of(title, *runs) == ("<= 1.05", "2.45", "still missed")
    assert verdict_of(title, *runs[2:]) is None


def test_a_goal_that_is_missed_is_red_and_one_known_to_be_missed_says_so() -> None:
    known = figures_of(scenario="limited", system="deadletter", surge=3.0)
    step_back = figures_of(scenario="outage-3m", system="deadletter", dead_requests=900)
    table = command.goals(rows_of(SCENARIOS, [known, step_back]))
    styles = [row.style for row in table.rows]
    titles, *_, verdicts = (list(column.cells) for column in table.columns)
    of = dict(zip(titles, zip(verdicts, styles, strict=True), strict=True))
    assert of["outage, then a limit: surge"] == ("still missed", "red")
    assert of["outage 3 min: requests to the dead dependency"] == ("no", "red")


def test_the_chart_is_a_picture_without_links() -> None:
    picture = chart(rows_of(SCENARIOS, [figures_of()]), "Title & more")
    root = ElementTree.fromstring(picture)  # noqa: S314 - our own picture
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert picture.count("http") == 1


def test_the_page_names_date_and_commit() -> None:
    text = as_markdown(rows_of(SCENARIOS, [figures_of()]), "abc1234", "2026-01-01")
    assert "2026-01-01 at commit `abc1234`" in text


def test_all_columns_of_a_row_stand_in_the_file_of_figures() -> None:
    head, row = page.in_full(rows_of(SCENARIOS, [figures_of(dead_requests=1234)]))
    assert row[0] == "total outage, 3 min (5/s, 1 seed)"
    assert dict(zip(head, row, strict=True))["dead requests"] == "1,234"
    assert '"1,234"' in page.as_csv([row])


def test_the_page_counts_the_goals_and_shows_those_that_are_missed() -> None:
    mine = [figures_of(system="deadletter", dead_requests=requests) for requests in (13, 10_000)]
    for figures, missed in zip(mine, (False, True), strict=True):
        rows = rows_of(SCENARIOS, [figures_of(system="native"), figures])
        goals = list(judged(rows))
        text = as_markdown(rows, "", "")
        met = sum(goal[-1] == "yes" for goal in goals)
        assert f"\n{met} of {len(goals)} goals are met." in text
        assert ("| outage 3 min: requests to the dead dependency |" in text) is missed


def test_the_first_table_has_the_product_beside_native_redrive() -> None:
    mine = figures_of(system="deadletter", dead_requests=13, openings=1, not_closed=200.0)
    text = as_markdown(
        rows_of(SCENARIOS, [figures_of(system="native", dead_requests=900), mine]), "", ""
    )
    [line] = [line for line in text.splitlines() if line.startswith("| total outage, 3 min |")]
    assert " 900 / 13 " in line
    assert line.endswith(" 1 | 200 s |")


def test_the_command_names_the_scenarios_that_it_knows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        command.main(["outage-of-everything"])
    assert "known are calm, outage-3m" in capsys.readouterr().err


def test_the_command_writes_table_chart_and_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "run", lambda s, name, seed: figures_of(system=name, seed=seed))
    assert command.main(["outage-3m", "--seeds", "2"]) == 0
    assert "total outage, 3 min" in capsys.readouterr().out
    assert command.main(["outage-3m", "--seeds", "2", "--add"]) == 0
    assert "[1/" not in capsys.readouterr().err
    assert (tmp_path / "build/scenarios.svg").exists()
    assert (tmp_path / "build/scenarios.json").exists()


def test_an_interrupted_command_keeps_what_was_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    def interrupted(_: Scenario, name: str, seed: int) -> Figures:
        if name != "none":
            raise KeyboardInterrupt
        return figures_of(seed=seed)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "run", interrupted)
    command.main(["outage-3m"])
    [kept] = json.loads((tmp_path / "build/scenarios.json").read_text())["runs"]
    assert kept["system"] == "none"


def test_a_lost_message_fails_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "run", lambda *_: figures_of(lost=1))
    assert command.main(["outage-3m"]) == 1
