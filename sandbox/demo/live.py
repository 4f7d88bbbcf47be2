"""What the person at the terminal sees: a live display, or plain lines where there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from sandbox.demo.reconcile import Reconciliation

# Seconds between two lines of figures where nothing can be redrawn.
LINE_EVERY = 5.0


@dataclass(frozen=True, slots=True)
class View:
    """The state of things at *at*, seconds since the demo began."""

    at: float
    sent: int
    settled: int
    places: Mapping[str, int] = field(default_factory=dict)
    decisions: Mapping[str, int] = field(default_factory=dict)
    answers: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


class Screen(Protocol):
    """Where the demo tells its story; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def tell(self, at: float, text: str) -> None:
        """Say what happens, *at* seconds since the demo began; it stays to be read."""

    def note(self, text: str) -> None:
        """Say what is going on for the moment."""

    def show(self, view: View) -> None:
        """Show the figures."""


def screen(console: Console) -> Screen:
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)


class PlainScreen:
    """Lines for a log file."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_figures = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing has to be put back."""

    def tell(self, at: float, text: str) -> None:
        self._line(f"{at:6.1f} s  {text}")

    def note(self, text: str) -> None:
        """A moment's note is not worth a line."""

    def show(self, view: View) -> None:
        if view.at - self._last_figures >= LINE_EVERY:
            self._last_figures = view.at
            places = ", ".join(f"{name} {number}" for name, number in view.places.items())
            self._line(f"{view.at:6.1f} s  settled {view.settled} of {view.sent}; {places}")

    def _line(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


class LiveScreen:
    """A display that is drawn again and again in place, below the story so far."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", style="dim"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task("", total=None)
        self._live = Live(self._progress, console=console, refresh_per_second=8)

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

    def tell(self, at: float, text: str) -> None:
        line = Text.assemble((f"{at:6.1f} s  ", "dim"), text)
        self._live.console.print(line)

    def note(self, text: str) -> None:
        width = self._live.console.width // 2
        line = Text(" ".join(text.split()))
        line.truncate(width, overflow="ellipsis")
        self._progress.update(self._task, description=line.plain.replace("[", r"\["))

    def show(self, view: View) -> None:
        self._progress.update(
            self._task, description="settled", completed=view.settled, total=view.sent
        )
        self._live.update(Group(figures(view), self._progress))


def figures(view: View) -> RenderableType:
    """Three small tables side by side: where letters are, what was decided, who answers what."""
    row = Table.grid(padding=(0, 4))
    row.add_row(
        _table("letters", view.places),
        _table("decisions", view.decisions),
        _table(
            "endpoint answers",
            {
                f"{tenant} {status}": number
                for tenant, statuses in view.answers.items()
                for status, number in statuses.items()
            },
        ),
    )
    return Padding(row, (1, 0))


def _table(title: str, numbers: Mapping[str, int]) -> Table:
    table = Table(title, "", box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.columns[1].justify = "right"
    for name, number in numbers.items():
        table.add_row(name, f"{number:,}")
    return table


def verdict(outcome: Reconciliation) -> Table:
    """The reconciliation as a table: every event once, and what must be zero."""
    table = Table("reconciliation", "events", title_justify="left")
    table.columns[1].justify = "right"
    for name, number in (
        ("sent", outcome.sent),
        ("delivered", outcome.delivered),
        *((f"parked as {reason}", number) for reason, number in outcome.parked_by_reason.items()),
    ):
        table.add_row(name, f"{number:,}")
    table.add_section()
    for name, number in (
        ("waiting", outcome.waiting),
        ("lost", len(outcome.lost)),
        ("changed on the way", outcome.strangers + len(outcome.altered)),
        ("ended otherwise than planned", len(outcome.astray)),
    ):
        table.add_row(name, Text(f"{number:,}", style="bold red" if number else "green"))
    table.add_section()
    table.add_row("duplicates", f"{outcome.duplicates:,}")
    return table
