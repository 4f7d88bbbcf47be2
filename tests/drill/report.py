"""What the drill writes: a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sandbox.alarms import SHORT_MINUTE
from tests.drill.scenes import Scene
from tests.drill.stage import Letters


@dataclass
class Outcome:
    """What a scene came to; times are seconds of the machine.

    rang      the alarms, each once, in order
    begins    from the begin of the trouble to the first page
    pages     from the begin of the trouble to the last of its pages
    clears    from the last page to the last OK
    repaired  the same, from the card's command
    typed     the commands, as their cards printed them
    faults    why the scene failed; empty if it did not
    """

    scene: Scene
    rang: list[str] = field(default_factory=list)
    begins: float | None = None
    pages: float | None = None
    clears: float | None = None
    repaired: float | None = None
    typed: list[str] = field(default_factory=list)
    letters: Letters | None = None
    faults: list[str] = field(default_factory=list)


def table(outcomes: Sequence[Outcome], facts: Sequence[str]) -> str:
    """The report, as Markdown."""
    rows = [
        (
            outcome.scene.name,
            outcome.scene.trouble,
            ", ".join(outcome.rang) or "none",
            _seconds(outcome.begins, outcome.pages),
            outcome.scene.outside,
            "<br>".join(
                f"`{' '.join(line.replace(chr(92), '').split())}`" for line in outcome.typed
            )
            or "nothing",
            _seconds(outcome.clears),
            _seconds(outcome.repaired),
            _places(outcome.letters),
        )
        for outcome in outcomes
    ]
    head = (
        *("scene", "trouble", "rang", "page after", "outside", "the card's command"),
        *("page to OK", "command to OK", "messages"),
    )
    lines = [
        "# The drill",
        "",
        *(f"- {fact}" for fact in facts),
        "",
        _row(head),
        _row(["---"] * len(head)),
        *map(_row, rows),
        "",
        "Why each page is right:",
        "",
        *(
            f"- {outcome.scene.name}: "
            + "; ".join(f"{alarm}, {why}" for alarm, why in outcome.scene.rings.items())
            for outcome in outcomes
        ),
        "",
        *(
            f"FAILED {outcome.scene.name}: {fault}"
            for outcome in outcomes
            for fault in outcome.faults
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _one_line(command: str) -> str:
    return f"`{' '.join(command.replace(_BACKSLASH, '').split())}`"


_BACKSLASH = "\\\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _seconds(*values: float | None) -> str:
    """One or two times in seconds of the machine, and in minutes of the template."""
    known = [value for value in values if value is not None]
    if not known:
        return "never"
    shown = sorted({f"{value:.0f}" for value in known}, key=float)
    minutes = sorted({f"{value / SHORT_MINUTE:.0f}" for value in known}, key=float)
    return f"{' to '.join(shown)} s ({' to '.join(minutes)} min)"


def _places(letters: Letters | None) -> str:
    if letters is None:
        return "not counted"
    counts = {
        "processed": letters.processed,
        "parked": letters.parked,
        "left": letters.left,
        "twice": letters.twice,
        "LOST": len(letters.lost),
    }
    said = ", ".join(f"{count} {place}" for place, count in counts.items() if count)
    return f"{letters.sent} sent: {said}"
