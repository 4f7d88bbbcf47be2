"""The causes and the troubles of each page in the runbook, from the catalogue.

`python -m tools.runbook` writes them between two markers, those of an alarm below what it says:

    <!-- signals: causes -->
    <!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from deadletter.signals.causes import Explanation
from deadletter.signals.commands import known_parts, typed
from deadletter.signals.pages import APP_PAGES, PIPELINE_PAGES, Alarm
from deadletter.signals.troubles import TROUBLES, TroubleCard
from infra.settings import Alarms

_CAUSES = "causes"

PAGE = Path(__file__).parents[1] / "docs" / "runbook.md"

MARKED = re.compile(r"<!-- signals: (?P<alarm>\w+) -->\n.*?<!-- end -->", re.DOTALL)
FACT = re.compile(r"{(\w+)[^}]*}")


def filled(page: str) -> str:
    """The page with what the catalogue says of the causes, and of each alarm that it marks."""
    return MARKED.sub(lambda match: "".join(_marked(match["alarm"])), page)


def _marked(name: str) -> Iterator[str]:
    if name != _CAUSES:
        yield from _block(Alarm(name))
        return
    yield "<!-- signals: causes -->\n\n"
    yield "| `dlq groups P` shows | it means | type | it ends when |\n|---|---|---|---|\n"
    yield from map(_cause, Explanation)
    yield "\n<!-- end -->"


def _cause(explanation: Explanation) -> str:
    cause = explanation.value
    type_ = f"`{_typed(cause.repair)}`{cause.then}"
    return f"| {cause.shows} | {cause.means} | {type_} | {cause.until} |\n"


def _block(alarm: Alarm) -> Iterator[str]:
    page = next(page for page in (*PIPELINE_PAGES, *APP_PAGES) if page.alarm is alarm)
    texts = Alarms().texts
    says, cause = page.says.format(**texts), page.cause.format(**texts)
    yield f"<!-- signals: {alarm} -->\n\n{_sentence(says)} Likely: {cause}\n\n"
    rows = [card for card in TROUBLES.values() if card.page is alarm]
    if rows:
        yield "| `dlq status` says | type |\n|---|---|\n"
        yield from _rows(rows)
        yield "\n"
    yield "<!-- end -->"


def _rows(cards: Iterable[TroubleCard]) -> Iterator[str]:
    """One row for each command, with all that it ends."""
    said: dict[str, list[str]] = {}
    for card in cards:
        says = FACT.sub("…", known_parts(card.says, {}))
        said.setdefault(_typed(card.repair or ""), []).append(says)
    for command, ends in said.items():
        yield f"| {'<br>'.join(ends)} | `{command}` |\n"


def _typed(command: str) -> str:
    line = known_parts(command, {}).replace("\\\n  ", "")
    facts = {name: "P" if name == "pipeline" else name.upper() for name in FACT.findall(line)}
    return typed(line, facts)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
