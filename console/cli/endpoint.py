"""`dlq endpoint`: where tenants want their events, and which endpoints get none."""

from __future__ import annotations

from collections.abc import Iterator

from ..operations.endpoint_check import in_words
from ..operations.endpoints import CHANGES, LIST, EndpointChange, EndpointList
from ..operations.words import count
from .output import Block, Line, Styled, TextTable, line
from .verb import VerbView


def _show_list(answer: EndpointList) -> Iterator[Block]:
    yield line(
        Styled(count(len(answer.endpoints), "endpoint"), "strong"),
        f" of app {answer.app} in account {answer.account}, {answer.region}",
    )
    if answer.endpoints:
        yield Line()
        rows = [
            (
                each.tenant,
                each.endpoint,
                each.url,
                each.standing if each.standing == "enabled" else Styled(each.standing, "alarm"),
                str(len(each.secrets)),
                each.because,
            )
            for each in answer.endpoints
        ]
        yield TextTable(("TENANT", "ENDPOINT", "URL", "STANDING", ">SECRETS", "BECAUSE"), rows)


def _show_change(answer: EndpointChange) -> Iterator[Block]:
    each = answer.endpoint
    because = f": {each.because}" if each.because else ""
    yield line(f"Endpoint {each.tenant}/{each.endpoint} ({each.url}) is {each.standing}{because}.")
    if answer.check is not None:
        yield from (line(text, indent=2) for text in in_words(answer.check))


VIEWS = (
    VerbView(LIST, _show_list),
    *(VerbView(verb, _show_change, attention=lambda answer: answer.complaints) for verb in CHANGES),
)
