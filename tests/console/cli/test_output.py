"""What reaches the terminal: JSON that keeps its promises, text that can't steer it."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.cli import output
from console.cli.exit import Exit
from console.cli.output import Reply, Styled, TextTable, line, said, show
from tests.console.terminal import Terminal
from tests.each_row import each_row


@given(st.text())
def test_printed_text_has_no_control_characters(text: str) -> None:
    assert output.printable(text).isprintable()


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_ordinary_text_is_printed_as_it_is(text: str) -> None:
    assert output.printable(text) == text


@each_row(
    ("hostile", "printed"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b31m", r"\x9b31m"),
        ("a\r\nb", r"a\r\nb"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\ud800", r"\ud800"),
        ("[red]not markup[/red]", "[red]not markup[/red]"),
        (":boom:", ":boom:"),
    ],
)
def test_a_hostile_body_is_shown_as_escapes(hostile: str, printed: str) -> None:
    page = io.StringIO()
    output.show([line(hostile), TextTable(("BODY",), [(hostile,)])], page)
    assert page.getvalue().count(printed) == 2


def test_json_is_plain_ascii_whatever_a_body_holds(capsys: pytest.CaptureFixture[str]) -> None:
    output._write_json({"body": "\x1b]0;title\x07 \x7f \x9b é"})
    text = capsys.readouterr().out
    assert all(character == "\n" or " " <= character <= "~" for character in text)
    assert json.loads(text) == {"body": "\x1b]0;title\x07 \x7f \x9b é"}


def test_a_pipe_gets_whole_lines_and_no_styles() -> None:
    page = io.StringIO()
    output.show([line(Styled("x" * 500, "alarm")), TextTable(("A",), [("y" * 500,)])], page)
    assert "x" * 500 in page.getvalue()
    assert "y" * 500 in page.getvalue()
    assert "\x1b" not in page.getvalue()


@pytest.mark.parametrize(("no_color", "shown"), [("", "\x1b[1;31mOPEN\x1b[0m\n"), ("1", "OPEN\n")])
def test_a_terminal_gets_styles_unless_it_is_told_not_to(
    monkeypatch: pytest.MonkeyPatch, no_color: str, shown: str
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("NO_COLOR", no_color)):
        monkeypatch.setenv(name, value)
    page = io.StringIO()
    output.show([line(Styled("OPEN", "alarm"))], page)
    assert page.getvalue() == shown
    output.show([TextTable(("A",), [(Styled("b", "good"),)])], page)
    assert not no_color or "\x1b" not in page.getvalue()


def test_a_table_that_is_too_wide_for_the_terminal_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = TextTable(
        ("QUEUE", ">VISIBLE", ">EXPIRES IN"),
        [("parking queue default", "128,400", "10 d 23 h"), ("DLQ", "12", "")],
    )
    for width, lines in ((60, 3), (40, 6)):
        monkeypatch.setenv("COLUMNS", str(width))
        screen = Terminal()
        show([table], screen)
        text = screen.getvalue()
        assert all(cell in text for row in table.rows for cell in row)
        assert len(text.splitlines()) == lines


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_command_to_be_typed_is_neither_cut_nor_broken(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    command = "dlq retry 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --pipeline orders --edit --hold"
    monkeypatch.setenv("COLUMNS", str(width))
    screen = Terminal()
    show(said(f"It is sent again by\n  {command}"), screen)
    assert screen.getvalue() == f"It is sent again by\n  {command}\n"


def test_a_long_word_is_folded_and_a_wide_one_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for headings in ((), ("NAME", "VALUE")):
        screen = Terminal()
        show([TextTable(headings, [("type", "x" * 60)])], screen)
        assert screen.getvalue().count("x") == 60
    screen = Terminal()
    show([TextTable(("A", "B", "C"), [("界" * 12, "界" * 12, "x")])], screen)
    assert screen.getvalue().count("界") == 24


@pytest.mark.parametrize("rows", [1, 20_000])
@pytest.mark.parametrize("form", [{}, {"as_json": True}, {"as_lines": True}])
def test_a_reader_that_closes_the_pipe_early_is_no_failure(
    form: dict[str, bool], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`dlq groups | head -1` ends with the status of the command, also with pipefail."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr("sys.stdout", pipe)
        reply = Reply(Rows(["row"] * rows), lambda answer: map(line, answer.rows), Exit.ATTENTION)
        output.write(reply, **form)


@dataclass(frozen=True)
class Rows:
    """An answer of many rows."""

    rows: list[str]


@pytest.mark.parametrize(
    ("screen", "written"),
    [(Terminal(), "\r\x1b[KAsking about \\x1b[2J\r\x1b[K"), (io.StringIO(), "")],
    ids=["terminal", "log"],
)
def test_a_person_at_a_terminal_sees_what_is_waited_for_and_then_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, screen: io.StringIO, written: str
) -> None:
    """A log gets no line, and no text controls the terminal."""
    monkeypatch.setattr(sys, "stderr", screen)
    output.say("Asking about \x1b[2J")
    output.end_progress()
    output.end_progress()
    assert screen.getvalue() == written
