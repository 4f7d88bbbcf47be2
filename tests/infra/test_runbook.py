"""The runbook has a section for each alarm, and all that it tells a person to type exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from deadletter.signals.pages import Alarm
from tests.console.command_lines import parse, takes_options
from tests.each_row import each_row
from tests.infra.templates import Synthesis
from tests.infra.test_permissions import COMMANDS, LOOKS
from tools import runbook

PAGE = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text()

OF_NO_ALARM = {"The DLQ alarm rang: what now?", "Troubles without a page"}

CAUSES = (
    *("429", "503", "500", "DNS", "TLS", "schema"),
    *("one tenant", "everything"),
)
"""What the decision tree of the issue has to have an answer for."""

SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^(?:<a id=\S+\n\n)?## |\Z)", PAGE, re.M | re.S))
ALARMS = {title: text for title, text in SECTIONS.items() if title not in OF_NO_ALARM}


def rows(text: str) -> Iterator[list[str]]:
    """The rows of the tables in a text, without their headings."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith(
            ("| metric", "| reason |", "| `dlq status`")
        ):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def typed() -> Iterator[str]:
    """Every command in the page, in sentences and in blocks."""
    fenced = re.compile(r"^```.*?^```$", re.M | re.S)
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S):
        yield from block.splitlines()
    for text in re.findall(r"`(dlq [^`]+)`", fenced.sub("", PAGE)):
        yield " ".join(text.split())


def first_of(section: str) -> str:
    """The words of the first command of a section, without its arguments."""
    match = re.match(r"\n```sh[^\n]*\n(dlq [a-z ]*[a-z])", section)
    assert match is not None, section[:80]
    return match[1]


def test_the_troubles_of_each_page_stand_there_in_the_words_of_the_catalogue() -> None:
    """After a change: `make docs`."""
    assert runbook.filled(PAGE) == PAGE
    marked = set(re.findall(r"<!-- signals: (\w+) -->", PAGE))
    assert marked == {"causes", *Alarm} - {Alarm.MESSAGE_AGE}


def test_each_alarm_has_its_section_and_each_section_an_alarm(app: Synthesis) -> None:
    """Alarms that share a section stand in one heading, in the order of the table."""
    shared: dict[str, list[str]] = {}
    for _, alarm in app.of("AWS::CloudWatch::Alarm"):
        name = re.sub("_.*", "", alarm["Properties"]["AlarmName"]).rpartition("-")[2]
        section = alarm["Properties"]["AlarmDescription"].partition("#")[2].partition("\n")[0]
        names = shared.setdefault(section, [])
        if name not in names:
            names.append(name)
    assert {", ".join(names) for names in shared.values()} == set(ALARMS)
    for section, names in shared.items():
        heading = f"## {', '.join(names)}\n"
        if section != ", ".join(names).lower():
            assert f'<a id="{section}"></a>\n\n{heading}' in PAGE
        else:
            assert heading in PAGE


@each_row("title", ALARMS)
def test_a_section_begins_with_a_command_and_ends_with_what_clears_the_page(title: str) -> None:
    assert first_of(ALARMS[title])
    assert ALARMS[title].strip().rpartition("\n\n")[2].startswith("Clears ")


def test_the_description_of_an_alarm_and_its_section_begin_with_one_command(
    app: Synthesis,
) -> None:
    of_alarm = {
        name: first_of(text) for title, text in ALARMS.items() for name in title.split(", ")
    }
    for _, alarm in app.of("AWS::CloudWatch::Alarm"):
        description = alarm["Properties"]["AlarmDescription"]
        [command] = re.findall(r"First command: `(dlq [a-z ]*[a-z])", description)
        name = re.sub("_.*", "", alarm["Properties"]["AlarmName"]).rpartition("-")[2]
        assert command == of_alarm[name], name


def test_people_who_may_only_read_may_type_the_first_command_of_each_section() -> None:
    first = {first_of(text) for text in ALARMS.values()}
    assert [command for command in first if not set(COMMANDS[command]) <= LOOKS] == []


def test_a_command_of_the_runbook_is_one_that_dlq_takes() -> None:
    for command in set(typed()):
        if re.fullmatch(r"dlq [a-z ]+", command):
            # Named and not typed: what it takes is left out.
            assert takes_options(command), command
        else:
            parse(command)


@each_row("cause", CAUSES)
def test_the_decision_tree_has_a_leaf_for_each_cause_with_a_command_and_an_end(cause: str) -> None:
    tree = SECTIONS["The DLQ alarm rang: what now?"]
    [(name, means, what, ends)] = [
        row for row in rows(tree) if row[0].startswith(f"**{cause}") or row[0] == cause
    ]
    assert name
    assert means
    assert "`dlq " in what
    assert ends


def test_no_row_of_a_table_is_left_without_an_end() -> None:
    checked = 0
    for text in SECTIONS.values():
        for row in rows(text):
            assert all(row), row
            checked += 1
    assert checked > 30


@each_row("anchor", sorted(set(re.findall(r"\(#([a-z-]+)\)", PAGE))))
def test_a_link_within_the_page_leads_somewhere(anchor: str) -> None:
    headings = re.findall(r"^#+ (.+)$", PAGE, re.M)
    known = {re.sub(r"[^a-z -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert anchor in known | set(re.findall(r'<a id="([a-z]+)">', PAGE))


NAMED = re.compile(r"\balarms? [`*]?(?P<name>(?:[A-Z][a-z]+){2,})")
"""An alarm in a sentence: "the alarm `DlqAge`"."""

# What was measured of earlier versions, and decided in them.
HISTORY = ("adr", "proof.md")


def test_documents_and_messages_name_no_alarm_that_is_gone() -> None:
    root = Path(__file__).parents[2]
    pages = [path for path in (root / "docs").rglob("*.md") if not set(HISTORY) & set(path.parts)]
    code = [path for folder in ("console", "infra") for path in (root / folder).rglob("*.py")]
    named = {
        (match["name"], path.name)
        for path in (root / "README.md", *pages, *code)
        for match in NAMED.finditer(path.read_text())
    }
    assert len(named) > 5
    assert {(name, page) for name, page in named if name not in set(Alarm)} == set()


def test_a_graph_that_the_runbook_names_is_on_the_dashboard() -> None:
    dashboard = " ".join((Path(__file__).parents[2] / "docs" / "dashboard.md").read_text().split())
    text = " ".join(PAGE.split())
    graphs = re.findall(r"graphs? \*([^*]+)\*(?: and \*([^*]+)\*)?", text)
    named = [name for pair in graphs for name in pair if name]
    assert len(named) == 1
    assert [name for name in named if name not in dashboard] == []
