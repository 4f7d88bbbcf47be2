"""Edits that a person asks the redriver's function for: what it believes, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deadletter.message.letter import Attribute, Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.waiting_room import WaitingRoomEntry
from deadletter.replay.edit_request import EditRequest, accepted, answer, names_in, request_from
from deadletter.replay.edits import EditRefused
from deadletter.replay.run import ReplayRun, RunState
from tests.each_row import each_row

SECRET = "4111-x"
BEFORE = Letter("copy", json.dumps({"card": SECRET}), {"n": Attribute("Binary", b"\x00\xff")})
AFTER = replace(BEFORE, body='{"card":"mended"}')
REQUEST = EditRequest(
    run="4f0c", generation=3, place=("orders#message#copy", "message"), shard=1, origin="first",
    before=BEFORE, after=AFTER, accept=False, by="ann", because="a test", at=1.5,
)  # fmt: skip
RUN = ReplayRun(id="4f0c", pipeline="orders", state=RunState.HELD, generation=3)
STAMP = Stamp("first", run="4f0c")
RECEIVED = ReceivedLetter(BEFORE, "", 0.0, stamp=STAMP)


def test_a_request_is_read_as_it_was_written() -> None:
    assert request_from(REQUEST.to_bytes(), "4f0c", "orders") == REQUEST
    assert REQUEST.record == "edits/copy-1500.json"
    for shard in range(8):
        request = replace(REQUEST, shard=shard, accept=True)
        assert request_from(request.to_bytes(), "4f0c", "orders") == request


def test_the_letter_of_a_request_is_looked_for_in_the_lane_of_its_run() -> None:
    place = '["orders#message#copy", "message"]'
    assert REQUEST.entry == WaitingRoomEntry("copy", place, "run:4f0c", 1, 0.0)


def test_an_event_names_up_to_fifty_records_of_edits() -> None:
    names = ["edits/a-1.json"] * 50
    assert names_in({"run": "4f0c", "records": names}) == ("4f0c", names)


def test_the_answer_says_what_took_effect_and_why_the_rest_did_not() -> None:
    said = {"edited": ["a"], "refused": {"b": "it changes nothing"}}
    assert answer(["a"], {"b": "it changes nothing"}, "") == said
    assert answer(["a"], {"b": "it changes nothing"}, "throttled") == {
        **said,
        "trouble": "throttled",
    }


def test_an_edit_of_the_body_is_accepted_with_the_stamp_of_the_item() -> None:
    assert accepted(REQUEST, RUN, RECEIVED) == STAMP
    assert accepted(replace(REQUEST, accept=True), RUN, RECEIVED).accept == "collision"
    waits = replace(RUN, state=RunState.WAITING_APPROVAL)
    assert accepted(REQUEST, waits, RECEIVED) == STAMP


def test_an_edit_of_attributes_is_accepted_and_never_that_of_ours() -> None:
    ours = Attribute("String", "{}")
    stamped = replace(BEFORE, attributes={**BEFORE.attributes, "Redrive": ours})
    for attributes in ({"Redrive": ours}, {"Redrive": ours, "x": Attribute("Number.int", "7")}):
        request = replace(REQUEST, before=stamped, after=replace(stamped, attributes=attributes))
        assert accepted(request, RUN, replace(RECEIVED, letter=stamped)) == STAMP
        read = request_from(request.to_bytes(), "4f0c", "orders")
        assert read.after.attributes == attributes
    gone = replace(REQUEST, before=stamped, after=replace(stamped, attributes={}))
    with pytest.raises(EditRefused, match="Redrive is ours"):
        accepted(gone, RUN, replace(RECEIVED, letter=stamped))


def test_an_edit_leaves_room_for_the_new_key_of_a_letter_that_is_sent_once_more() -> None:
    full = {str(number): Attribute("String", "x") for number in range(10)}
    request = replace(REQUEST, after=replace(AFTER, attributes=full))
    assert accepted(request, RUN, RECEIVED) == STAMP
    again = replace(STAMP, accept="again:4f0c")
    with pytest.raises(EditRefused, match="no room for the message's new idempotency key"):
        accepted(request, RUN, replace(RECEIVED, stamp=again))
    for accept in (False, True):
        request = replace(REQUEST, accept=accept)
        assert accepted(request, RUN, replace(RECEIVED, stamp=again)) == again


@each_row(
    ("request_", "run", "received", "says"),
    [
        (REQUEST, None, RECEIVED, "was changed meanwhile"),
        (REQUEST, replace(RUN, generation=4), RECEIVED, "was changed meanwhile"),
        *(
            (REQUEST, replace(RUN, state=state), RECEIVED, f"is {state}: its messages")
            for state in RunState
            if state not in (RunState.HELD, RunState.WAITING_APPROVAL)
        ),
        (REQUEST, RUN, None, "has left the run"),
        (REQUEST, RUN, replace(RECEIVED, stamp=None), "has left the run"),
        (REQUEST, RUN, replace(RECEIVED, letter=AFTER), "was edited meanwhile"),
        (replace(REQUEST, origin="other"), RUN, RECEIVED, "was edited meanwhile"),
        # A record that says more, or less, than was done.
        *(
            (replace(REQUEST, after=replace(AFTER, attributes=attributes)), RUN, RECEIVED, says)
            for attributes, says in (
                ({"Redrive": Attribute("String", SECRET)}, "is ours"),
                ({"AWS.x": Attribute("String", SECRET)}, "does not begin with AWS"),
                ({"n": Attribute("Text", SECRET)}, "String, Number or Binary"),
                ({"n": Attribute("Binary", SECRET)}, "bytes are the value"),
                ({"n": Attribute("Number", SECRET)}, "no number"),
                ({str(n): Attribute("String", SECRET) for n in range(11)}, "SQS takes 10"),
            )
        ),
        (replace(REQUEST, after=replace(AFTER, system={"a": "b"})), RUN, RECEIVED, "more than"),
        (replace(REQUEST, after=replace(AFTER, message_id="other")), RUN, RECEIVED, "more than"),
        (replace(REQUEST, after=BEFORE), RUN, RECEIVED, "it changes nothing"),
        (replace(REQUEST, after=replace(AFTER, body="{")), RUN, RECEIVED, "JSON no longer"),
        (replace(REQUEST, after=replace(AFTER, body="")), RUN, RECEIVED, "no empty body"),
    ],
)
def test_an_edit_that_would_not_be_true_is_refused_without_a_word_of_the_letter(
    request_: EditRequest, run: ReplayRun | None, received: ReceivedLetter | None, says: str
) -> None:
    with pytest.raises(EditRefused, match=says) as refused:
        accepted(request_, run, received)
    assert SECRET not in str(refused.value)


WRITTEN = json.loads(REQUEST.to_bytes())


@each_row(
    "data",
    [
        *(b"", b"{", b"[]", b"null", b"\xff", b"[" * 90_000, json.dumps(SECRET).encode()),
        *(
            json.dumps({**WRITTEN, name: SECRET}).encode()
            for name in set(WRITTEN) - {"because", "by", "origin"}
        ),
        *(
            json.dumps({key: value for key, value in WRITTEN.items() if key != name}).encode()
            for name in WRITTEN
        ),
        json.dumps({**WRITTEN, "run": "other"}).encode(),
        *(json.dumps({**WRITTEN, "shard": shard}).encode() for shard in (-1, 8)),
        *(
            json.dumps({**WRITTEN, "place": [partition, "message"]}).encode()
            for partition in ("theirs#message#copy", "orders#ledger#copy", "orders#runs")
        ),
        json.dumps({**WRITTEN, "before": {"body": SECRET}}).encode(),
    ],
)
def test_what_is_no_request_is_refused_without_a_word_of_the_letter(data: bytes) -> None:
    with pytest.raises(EditRefused) as refused:
        request_from(data, "4f0c", "orders")
    assert SECRET not in str(refused.value)


@each_row(
    "asked",
    [
        *(None, [], "x", {}),
        {"run": "4f0c"},
        {"run": "4f0c", "records": []},
        {"run": 4, "records": ["edits/a-1.json"]},
        {"run": "4f0c", "records": ["edits/a-1.json"] * 51},
        *(
            {"run": "4f0c", "records": [name]}
            for name in (7, "", "a", "report.json", "edits/", "edits/a/../b.json", "xedits/a.json")
        ),
    ],
)
def test_an_event_names_a_run_and_its_records_of_edits(asked: Any) -> None:
    with pytest.raises(EditRefused):
        names_in(asked)
