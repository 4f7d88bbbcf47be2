"""What a command prints: JSON for programs, lines and tables for people.

Text that comes from messages is never trusted: `printable` is applied to every line
and cell, and JSON is written in ASCII, so that no body can steer a terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeVar

from ..operations.problem import Exit, Problem

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_STYLES = {"alarm": "bold red", "good": "green", "faint": "dim", "strong": "bold"}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command found, and where. Its fields are the keys of the JSON: a promise."""

    account: Annotated[str, "AWS account id"]
    region: Annotated[str, "AWS region"]
    app: Annotated[str, "name of the app"]


class Styled(NamedTuple):
    """Text that stands out, or steps back: `style` is alarm, good, faint or strong."""

    text: str
    style: str


Part = str | Styled


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text; on a terminal it wraps at its indentation."""

    parts: tuple[Part, ...] = ()
    indent: int = 0


def line(*parts: Part, indent: int = 0) -> Line:
    return Line(parts, indent)


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows, under headings or none; a column whose heading starts with ">" is set right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Part]]


Block = Line | TextTable

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Reply(Generic[A]):
    """A command's answer, how a person reads it, and the exit status it leads to."""

    answer: A
    show: Callable[[A], Iterable[Block]]
    exit_status: Exit = Exit.DONE


def printable(text: str) -> str:
    """The text with every character that is not plainly visible written as an escape.

    That covers terminal escapes, line breaks, bidirectional overrides and characters
    of no width.
    """
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode()
        for one in text
    )


def compiled(query: str | None) -> Any:
    """The JMESPath expression of --query, checked before the command does anything."""
    if query is None:
        return None
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.compile(query)
    except JMESPathError as error:
        why = printable(str(error).partition("\n")[0]).rstrip(": ")
        raise Problem(f"--query is not JMESPath ({why}): see jmespath.org.", Exit.USAGE) from error


def write(reply: Reply[Any], *, as_json: bool, query: Any) -> None:
    """Prints the reply to standard output.

    A query that can't be applied to the answer does not cost the answer: all of it is
    printed, and Problem raised.
    """
    if not (as_json or query):
        show(reply.show(reply.answer))
        return
    data = plain(reply.answer)
    if query is None:
        _write_json(data)
        return
    from jmespath.exceptions import JMESPathError

    try:
        chosen = query.search(data)
    except JMESPathError as error:
        _write_json(data)
        why = printable(str(error)).rstrip(".")
        raise Problem(
            f"--query does not fit the answer ({why}): all of it is printed.", Exit.USAGE
        ) from error
    _write_json(chosen)


def plain(value: Any) -> Any:
    """A value of ours as JSON-ready data: dataclasses by field, times in ISO 8601 UTC."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return value


def _write_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=True) + "\n")


def show(blocks: Iterable[Block], file: IO[str] | None = None) -> None:
    """Prints blocks: styled on a terminal, plain and unwrapped anywhere else."""
    console = _console(file or sys.stdout)
    for block in blocks:
        if isinstance(block, Line):
            _show_line(console, block)
        else:
            _show_table(console, block)


def _console(file: IO[str]) -> Console:
    from rich.console import Console

    console = Console(file=file, highlight=False, markup=False, emoji=False)
    if os.environ.get("NO_COLOR") or not console.is_terminal:
        # Not even bold: whoever asks for no colour wants no escape sequences.
        return Console(
            file=file,
            highlight=False,
            markup=False,
            emoji=False,
            color_system=None,
            force_terminal=False,
            # A pipe has no width: grep wants a row on one line.
            width=console.width if console.is_terminal else 100_000,
        )
    return console


def _text(parts: Iterable[Part]) -> Text:
    from rich.text import Text

    text = Text()
    for part in parts:
        styled = part if isinstance(part, Styled) else Styled(part, "")
        text.append(printable(styled.text), _STYLES.get(styled.style, ""))
    return text


def _show_line(console: Console, block: Line) -> None:
    from rich.padding import Padding

    text = _text(block.parts)
    console.print(Padding(text, (0, 0, 0, block.indent), expand=False) if block.indent else text)


def _show_table(console: Console, block: TextTable) -> None:
    from rich.table import Table as RichTable

    table = RichTable(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
        show_header=bool(block.headings),
    )
    for heading in block.headings:
        right = heading.startswith(">")
        last = heading is block.headings[-1]
        table.add_column(
            heading.lstrip(">"), justify="right" if right else "left", no_wrap=not last
        )
    for row in block.rows:
        table.add_row(*(_text((cell,)) for cell in row))
    console.print(table)


def count(number: int, noun: str) -> str:
    """A number and its noun: "1 letter", "1,204 letters"."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def duration(seconds: float) -> str:
    """A span of time in its two largest units: "45 s", "58 min", "2 h 05 min", "3 d 4 h"."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60:02} min"
    return f"{minutes} min" if minutes else f"{whole} s"


def size(number: int) -> str:
    """A number of bytes: "812 B", "1.2 KiB", "1.0 MiB"."""
    if number < 1024:
        return f"{number} B"
    if number < 1024 * 1024:
        return f"{number / 1024:.1f} KiB"
    return f"{number / 1024 / 1024:.1f} MiB"


def clock(at: datetime, now: datetime) -> str:
    """A time of day, with its date unless that is today's: "03:40 UTC", "19 Nov 03:40 UTC"."""
    when = at.astimezone(UTC)
    today = when.date() == now.astimezone(UTC).date()
    return when.strftime("%H:%M UTC" if today else "%d %b %H:%M UTC")


def moment(epoch: object) -> datetime | None:
    """The time that epoch seconds stand for; None if they are no time anybody lives in."""
    if not isinstance(epoch, int | float) or isinstance(epoch, bool):
        return None
    try:
        return datetime.fromtimestamp(epoch, UTC)
    except (ValueError, OverflowError, OSError):
        return None
