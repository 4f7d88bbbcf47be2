"""What a command prints: JSON for programs, lines and tables for people.

Text from messages is never trusted: `printable` is applied to every line and cell, and
JSON is written in ASCII, so that no body can control a terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ..operations.errors import Cause, Problem
from ..operations.words import here, printable
from .exit import Exit

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_STYLES = {"alarm": "bold red", "good": "green", "faint": "dim", "strong": "bold"}


class Styled(NamedTuple):
    """Text in a style: alarm, good, faint or strong."""

    text: str
    style: str


Part = str | Styled


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text; on a terminal it wraps at its indentation.

    A `typed` line is a command: the terminal itself wraps it, so a copy of it has no line break.
    """

    parts: tuple[Part, ...] = ()
    indent: int = 0
    typed: bool = False


def line(*parts: Part, indent: int = 0) -> Line:
    return Line(parts, indent)


def typed(command: str, indent: int = 2) -> Iterator[Line]:
    """A command to copy, alone on its line; one that is continued by `\\` has several."""
    return (Line((each,), indent, typed=True) for each in _CONTINUED.split(here(command)))


_CONTINUED = re.compile(r"(?<=\\)\n")


_COMMAND = re.compile(r"(?:^|\n) *(?=(?:dlq|aws|npx) )")


def said(text: str, indent: int = 0) -> Iterator[Line]:
    """A sentence, and each command that stands below it on a line of its own."""
    sentence, *commands = _COMMAND.split(text)
    if sentence:
        yield line(sentence, indent=indent)
    for command in commands:
        yield from typed(command, indent + 2)


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows with optional headings; a heading that starts with ">" aligns its column right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Part]]


Block = Line | TextTable

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Reply(Generic[A]):
    """A command's answer, how to show it to a person, and the exit status."""

    answer: A
    show: Callable[[A], Iterable[Block]]
    exit_status: Exit = Exit.DONE


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
        raise Problem(f"--query is not JMESPath ({why}): see jmespath.org.", Cause.INPUT) from error


SCHEMA = 1
"""The version of all answers. Keys are added without a new one; it grows if a key changes."""


def write(
    reply: Reply[Any], *, as_json: bool = False, as_lines: bool = False, query: Any = None
) -> None:
    """Prints the reply to standard output.

    If the query can't be applied, the whole answer is printed and Problem raised. A reader that
    closes the pipe early, as `head` does, has what it wants: the rest is dropped.
    """
    try:
        _print(reply, as_json=as_json, as_lines=as_lines, query=query)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered is flushed at the end of the process, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(reply: Reply[Any], *, as_json: bool, as_lines: bool, query: Any) -> None:
    if not (as_json or as_lines or query):
        show(reply.show(reply.answer))
        return
    data = {"schema": SCHEMA, **plain(reply.answer)}
    if query is None:
        _write_lines(_rows(data)) if as_lines else _write_json(data)
        return
    from jmespath.exceptions import JMESPathError

    try:
        chosen = query.search(data)
    except JMESPathError as error:
        _write_json(data)
        why = printable(str(error)).rstrip(".")
        raise Problem(
            f"--query does not fit the answer ({why}): all of it is printed.", Cause.INPUT
        ) from error
    _write_lines(chosen) if as_lines else _write_json(chosen)


def _rows(data: Mapping[str, Any]) -> Any:
    """The first list of rows in an answer; the answer if it has none.

    A list of names is about the answer, and not its rows, unless it has no other list.
    """
    lists = [value for value in data.values() if isinstance(value, list)]
    rows = [value for value in lists if not value or isinstance(value[0], Mapping)]
    return next(iter([*rows, *lists]), data)


def _write_lines(data: Any) -> None:
    """A line for each member of a list; else one line."""
    for row in data if isinstance(data, list) else [data]:
        sys.stdout.write(json.dumps(row, ensure_ascii=True) + "\n")


_TYPED = ("command", "fix", "repair", "type")
"""The fields of answers that hold a command."""


def plain(value: Any) -> Any:
    """A value as JSON-ready data: dataclasses by field, times in ISO 8601 UTC."""
    if is_dataclass(value):
        data = {key.name: plain(getattr(value, key.name)) for key in fields(value)}
        return data | {name: here(data[name]) for name in _TYPED if data.get(name)}
    if isinstance(value, Mapping):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, tuple | list):
        return [plain(member) for member in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return value


def _write_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=True) + "\n")


def show(blocks: Iterable[Block], file: IO[str] | None = None) -> None:
    """Prints blocks: styled on a terminal, plain and unwrapped anywhere else."""
    console = _console(file or sys.stdout)
    for block in _laid_out(blocks, console.width):
        typed = isinstance(block, Line) and block.typed
        console.print(_renderable(block, console.width), soft_wrap=typed)


@contextmanager
def live() -> Iterator[Callable[[Iterable[Block]], None]]:
    """A picture on the terminal that each call paints anew, in place; the last one stays."""
    from rich.console import Group
    from rich.live import Live

    console = _console(sys.stdout)
    with Live(console=console, auto_refresh=False) as picture:

        def paint(blocks: Iterable[Block]) -> None:
            laid_out = _laid_out(blocks, console.width)
            painted = (_renderable(block, console.width) for block in laid_out)
            picture.update(Group(*painted), refresh=True)

        yield paint


def _console(file: IO[str]) -> Console:
    from rich.console import Console as RichConsole

    class Console(RichConsole):
        def on_broken_pipe(self) -> None:
            # Rich would end the process with 1, which says that a person is needed.
            self.quiet = True
            raise BrokenPipeError

    console = Console(file=file, highlight=False, markup=False, emoji=False)
    if os.environ.get("NO_COLOR") or not console.is_terminal:
        # Not even bold: no colour means no escape sequences.
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


def _laid_out(blocks: Iterable[Block], width: int) -> Iterator[Block]:
    """The blocks; a table without headings that would be cut off becomes lines."""
    for block in blocks:
        if isinstance(block, TextTable) and not block.headings and _too_wide(block, width):
            for first, *others in block.rows:
                yield line(first)
                yield from (line(cell, indent=6) for cell in others if _plain(cell))
        else:
            yield block


def _renderable(block: Block, width: int) -> RenderableType:
    if isinstance(block, Line):
        return _line(block)
    return _stacked(block) if _too_wide(block, width) else _table(block)


# The last column wraps; narrower than this it is hard to read.
_LEAST_LAST_COLUMN = 12


def _too_wide(block: TextTable, width: int) -> bool:
    """Whether columns that don't wrap would be cut off at this width."""
    from rich.cells import cell_len

    lines = [block.headings] if block.headings else []
    lines += [tuple(map(_plain, row)) for row in block.rows]
    columns = list(zip(*lines, strict=True))
    if not columns:
        return False
    widths = [max(map(cell_len, column)) for column in columns]
    last = min(widths[-1], _LEAST_LAST_COLUMN)
    return sum(widths[:-1]) + last + 2 * (len(widths) - 1) > width


def _plain(cell: Part) -> str:
    return printable(cell.text if isinstance(cell, Styled) else cell)


def _stacked(block: TextTable) -> RenderableType:
    """The table for a narrow terminal: each row as lines, a heading and its cell on each."""
    from rich.console import Group
    from rich.table import Table as RichTable

    names = [heading.lstrip(">") for heading in block.headings]
    rows: list[RenderableType] = []
    for row in block.rows:
        grid = RichTable.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True, style="bold")
        grid.add_column(overflow="fold")
        for name, cell in zip(names, row, strict=True):
            if _plain(cell):
                grid.add_row(name, _text((cell,)))
        rows += [grid, ""]
    return Group(*rows[:-1])


def _line(block: Line) -> RenderableType:
    from rich.padding import Padding

    if block.typed:
        # Padding would cut it off.
        return _text((" " * block.indent, *block.parts))
    text = _text(block.parts)
    return Padding(text, (0, 0, 0, block.indent), expand=False) if block.indent else text


def _table(block: TextTable) -> RenderableType:
    from rich.table import Table as RichTable

    table = RichTable(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
        show_header=bool(block.headings),
    )
    headings = block.headings or [""] * max(map(len, block.rows), default=0)
    for number, heading in enumerate(headings, 1):
        table.add_column(
            heading.lstrip(">"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=number < len(headings),
            overflow="fold",
        )
    for row in block.rows:
        table.add_row(*(_text((cell,)) for cell in row))
    return table


# A line on standard error that shows that `dlq` waits, and for what.


def pause(seconds: float) -> None:
    """Waits between two looks; tests do not."""
    time.sleep(seconds)


_SHOWN: list[str] = []


def say(says: str) -> None:
    """Shows how far a long look is, on a terminal alone."""
    if sys.stderr.isatty():
        _SHOWN[:] = [says]
        sys.stderr.write(f"\r\x1b[K{printable(says)}")
        sys.stderr.flush()


def end_progress() -> None:
    """Takes the line of `say` away, if there is one."""
    if _SHOWN and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
    _SHOWN.clear()
