"""What the person at the terminal sees: a live display, or plain lines without a terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column, Table
from rich.text import Text

from deadletter.circuit.state import State
from sandbox.demo.beside import COUNTED, shown
from sandbox.demo.events import TENANTS, named
from sandbox.demo.look import Look
from sandbox.demo.reconcile import Reconciliation

# Seconds between two lines of figures where nothing can be drawn again.
LINE_EVERY = 5.0

# What a state of a circuit means for the letters, wherever one is shown.
MEANINGS = {
    State.CLOSED: "messages go",
    State.OPEN: "messages wait",
    State.HALF_OPEN: "one canary goes first",
}

# What the decisions mean; those that park are named after their reason.
DECISIONS = {
    "REDRIVE": "back to the queue",
    "HOLD": "waits for its endpoint",
    "DIVERT": "to a queue of its own",
    "PARK": "for a person to look at",
}

# Why the demo's letters are parked.
PARKED_BECAUSE = {
    "MALFORMED": "its body cannot be read: no retry helps",
    "QUARANTINED": "by the rule that stands for its tenant",
}


class Screen:
    """Where the demo is shown: lines, for a log; a context manager."""

    def __init__(self, console: Console, clock: Callable[[], float], total: int) -> None:
        self._console = console
        self._clock = clock
        self._total = total
        self._shown_at = -LINE_EVERY

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def tell(self, text: str) -> None:
        """Say what has happened; it stays on the screen."""
        self._console.print(told(self._clock(), text), soft_wrap=True)

    def note(self, text: str) -> None:
        """Say what is going on for the moment: a log has no use for it."""

    def show(self, look: Look) -> None:
        """Show the figures, now and then."""
        if self._clock() - self._shown_at >= LINE_EVERY:
            self._shown_at = self._clock()
            depths = ", ".join(f"{name} {number}" for name, number in places(look).items())
            settled = f"{min(look.settled, self._total)} of {self._total} settled"
            self.tell(f"{settled}; {depths}; circuits: {', '.join(circuits(look))}")


class LiveScreen(Screen):
    """Figures, a progress bar and a note, drawn in place, below what has been told so far."""

    def __init__(self, console: Console, clock: Callable[[], float], total: int) -> None:
        super().__init__(console, clock, total)
        self._progress = Progress(
            SpinnerColumn(),
            TimeElapsedColumn(),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("settled"),
        )
        self._task = self._progress.add_task("", total=total)
        self._figures: RenderableType = ""
        self._live = Live(self._progress, console=console)

    def __enter__(self) -> Self:
        self._live.start()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def tell(self, text: str) -> None:
        self._console.print(told(self._clock(), text))

    def note(self, text: str) -> None:
        line = Text(text.strip(), style="dim", no_wrap=True, overflow="ellipsis")
        self._live.update(Group(self._figures, self._progress, line))

    def show(self, look: Look) -> None:
        self._progress.update(self._task, completed=min(look.settled, self._total))
        self._figures = figures(look)
        self._live.update(Group(self._figures, self._progress))


def screen(console: Console, clock: Callable[[], float], total: int) -> Screen:
    """Choose what *console* can show.

    *clock* gives seconds since the demo began, *total* is the number of events.
    """
    kind = LiveScreen if console.is_terminal else Screen
    return kind(console, clock, total)


def told(at: float, text: str) -> Text:
    """Put the time before what is told."""
    return Text.assemble((f"{at:6.1f} s  ", "dim"), text)


def places(look: Look) -> Mapping[str, int]:
    """Say how many letters are where."""
    return {
        "main queue": look.main,
        "DLQ": look.dlq,
        "waiting": len(look.seated),
        "parked": look.parked,
    }


def circuits(look: Look) -> Iterator[str]:
    """The state of each endpoint's circuit, and what a state means that holds letters back."""
    for tenant in TENANTS:
        circuit = look.circuit_of(tenant)
        meaning = "" if circuit.is_closed else f": {MEANINGS[circuit.state]}"
        yield f"{named(tenant)} {circuit.state}{meaning}"


def figures(look: Look) -> RenderableType:
    """Draw the letters by place and by decision, and below them the endpoints."""
    row = Table.grid(padding=(0, 4))
    row.add_row(_letters(look), _decisions(look))
    return Padding(Group(row, "", _endpoints(look)), (1, 0))


def _letters(look: Look) -> Table:
    table = _table("messages in", "")
    for name, number in places(look).items():
        table.add_row(name, f"{number:,}")
    return table


def _decisions(look: Look) -> Table:
    """What was decided how often, and what that means."""
    table = _table("decisions", "", "")
    for name, number in look.decisions.items():
        table.add_row(name, f"{number:,}", Text(DECISIONS.get(name.split(":")[0], ""), "dim"))
    return table


def _endpoints(look: Look) -> Table:
    """Each tenant's endpoint: its circuit, and what it answered how often."""
    table = _table("endpoint", "answers", "circuit")
    for tenant in TENANTS:
        circuit = look.circuit_of(tenant)
        answers = sorted(look.answers(tenant).items())
        table.add_row(
            named(tenant),
            "  ".join(f"{status}: {number:,}" for status, number in answers),
            Text.assemble(
                (circuit.state, "green" if circuit.is_closed else "bold red"),
                (f"  {MEANINGS[circuit.state]}", "dim"),
            ),
        )
    return table


def _table(*titles: str) -> Table:
    """A plain table whose second column has numbers."""
    table = Table(*titles, box=None, padding=(0, 2, 0, 0))
    table.columns[1].justify = "right"
    return table


def account(outcome: Reconciliation) -> Table:
    """Draw the reconciliation: every event once, then what has to be zero."""
    table = Table("what became of the events", "", "")
    table.columns[1].justify = "right"
    table.columns[2].style = "dim"
    for name, number, meaning in (
        ("sent", outcome.sent, ""),
        ("delivered", outcome.delivered, "an endpoint took it"),
        ("  of them healed", outcome.healed, "failed first, taken after a re-drive"),
        (
            "  of them recovered",
            outcome.recovered,
            "failed first, by its failure record",
        ),
        ("  of them held", outcome.held, "waited outside SQS meanwhile"),
        *(
            (f"parked as {reason}", number, PARKED_BECAUSE.get(reason, ""))
            for reason, number in outcome.parked_by_reason.items()
        ),
    ):
        table.add_row(name, f"{number:,}", meaning)
    table.add_section()
    for name, number in outcome.must_be_zero.items():
        table.add_row(name, Text(f"{number:,}", style="bold red" if number else "green"), "")
    table.add_section()
    table.add_row("duplicates", f"{outcome.duplicates:,}", "taken twice: SQS may deliver again")
    return table


def comparison(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Draw what other ways of emptying a DLQ come to on the same events, a column each."""
    table = Table(
        Column("the same\nevents under", no_wrap=True),
        *(Column(f"{row['system']}\n{row['how']}", justify="right") for row in rows),
    )
    for key, (title, _meaning) in COUNTED.items():
        table.add_row(title, *(shown(row[key]) for row in rows))
    return table
