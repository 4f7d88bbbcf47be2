"""The generated pages of commands and words are what the commands say."""

from __future__ import annotations

from tools import commands_page


def test_the_pages_are_what_the_commands_say_now() -> None:
    assert commands_page.PAGE.read_text() == commands_page.page(), "run `make docs`"
    assert commands_page.ANSWERS.read_text() == commands_page.answers_text(), "run `make docs`"


def test_each_command_is_a_row_of_a_short_page() -> None:
    assert [
        path for path in commands_page.commands() if f"\n| `{path}` |" not in commands_page.page()
    ] == []
    assert len(commands_page.page().split()) <= 1_500
