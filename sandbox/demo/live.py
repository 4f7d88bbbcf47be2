"""What the person at the terminal sees: a live display, or plain lines without a terminal."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

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
from rich.table import Table
from rich.text import Text

from sandbox.demo.events import RECOVERING, TENANTS
from sandbox.demo.look import Look
from sandbox.demo.reconcile import Reconciliation

# Seconds between two lines of figures where nothing can be drawn again.
LINE_EVERY = 5.0


class Screen(Protocol):
    """Where the demo is shown; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def tell(self, text: str) -> None:
        """Say what has happened; it stays on the screen."""

    def note(self, text: str) -> None:
        """Say what is going on for the moment."""

    def show(self, look: Look) -> None:
        """Show the figures."""


def screen(console: Console, clock: Callable[[], float], total: int) -> Screen:
    """Choose what *console* can show.

    *clock* gives seconds since the demo began, *total* is the number of events.
    """
    kind = LiveScreen if console.is_terminal else PlainScreen
    return kind(console, clock, total)


class PlainScreen:
    """Lines, for a log."""

    def __init__(self, console: Console, clock: Callable[[], float], total: int) -> None:
        self._console = console
        self._clock = clock
        self._total = total
        self._shown_at = -LINE_EVERY

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return

    def tell(self, text: str) -> None:
        self._console.print(told(self._clock(), text), soft_wrap=True)

    def note(self, text: str) -> None:
        """A log has no use for what passes."""

    def show(self, look: Look) -> None:
        if self._clock() - self._shown_at >= LINE_EVERY:
            self._shown_at = self._clock()
            depths = ", ".join(f"{name} {number}" for name, number in places(look).items())
            circuit = f"{RECOVERING}'s circuit {look.circuit.state}"
            settled = f"{min(look.settled, self._total)} of {self._total} settled"
            self.tell(f"{settled}; {depths}; {circuit}")


class LiveScreen:
    """Figures, a progress bar and a note, drawn in place, below what has been told so far."""

    def __init__(self, console: Console, clock: Callable[[], float], total: int) -> None:
        self._clock = clock
        self._total = total
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
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def tell(self, text: str) -> None:
        self._live.console.print(told(self._clock(), text))

    def note(self, text: str) -> None:
        line = Text(text.strip(), style="dim", no_wrap=True, overflow="ellipsis")
        self._live.update(Group(self._figures, self._progress, line))

    def show(self, look: Look) -> None:
        self._progress.update(self._task, completed=min(look.settled, self._total))
        self._figures = figures(look)
        self._live.update(Group(self._figures, self._progress))


def told(at: float, text: str) -> Text:
    """Put the time before what is told."""
    return Text.assemble((f"{at:6.1f} s  ", "dim"), text)


def places(look: Look) -> Mapping[str, int]:
    """Say how many letters are where."""
    return {
        "main queue": look.main,
        "DLQ": look.dlq,
        "waiting room": len(look.seated),
        "parking lot": look.parked,
    }


def figures(look: Look) -> RenderableType:
    """Draw three small tables side by side: letters by place, decisions, answers by endpoint."""
    answers = {
        f"{tenant} {status}": number
        for tenant in TENANTS
        for status, number in sorted(look.answers(tenant).items())
    }
    row = Table.grid(padding=(0, 4))
    row.add_row(
        _table("letters", places(look)),
        _table("decisions", look.decisions),
        _state(look),
        _table("endpoint answers", answers),
    )
    return Padding(row, (1, 0))


def _state(look: Look) -> Table:
    """The circuit of the endpoint that is down."""
    closed = look.circuit.is_closed
    table = Table("circuit", box=None, padding=(0, 1, 0, 0))
    table.add_row(Text(look.circuit.state, style="green" if closed else "bold red"))
    return table


def _table(title: str, numbers: Mapping[str, int]) -> Table:
    table = Table(title, "", box=None, padding=(0, 1, 0, 0))
    table.columns[1].justify = "right"
    for name, number in numbers.items():
        table.add_row(name, f"{number:,}")
    return table


def account(outcome: Reconciliation) -> Table:
    """Draw the reconciliation: every event once, then what has to be zero."""
    table = Table("what became of the events", "")
    table.columns[1].justify = "right"
    for name, number in (
        ("sent", outcome.sent),
        ("delivered", outcome.delivered),
        ("  of them healed by a re-drive", outcome.healed),
        ("  of them recovered, by the ledger", outcome.recovered),
        ("  of them through the waiting room", outcome.held),
        *((f"parked as {reason}", number) for reason, number in outcome.parked_by_reason.items()),
    ):
        table.add_row(name, f"{number:,}")
    table.add_section()
    for name, number in outcome.must_be_zero.items():
        table.add_row(name, Text(f"{number:,}", style="bold red" if number else "green"))
    table.add_section()
    table.add_row("duplicates", f"{outcome.duplicates:,}")
    return table
