"""Policies of people on call reach what the app makes by its names, and what you bring by a tag."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase

import aws_cdk as cdk

from infra.context import read
from infra.names import Names
from infra.permissions import Permissions
from infra.tagged import QUEUES, allow_brought, dead_letter_queues, warn_of_unnamed
from tests.infra.templates import Synthesis, filled
from tests.infra.test_permissions import PEOPLE, listed, managed, noun


def test_policies_of_people_do_not_grow_with_the_pipelines(thirty: Synthesis) -> None:
    for policy in PEOPLE:
        text = json.dumps(filled(managed(thirty)[policy]))
        assert not re.search(r"deadletter-p\d", text), policy


def test_who_looks_at_letters_can_look_into_no_main_queue(app: Synthesis) -> None:
    looks = [
        filled(resource).rpartition(":")[2]
        for statement in managed(app)["BodyReader"]
        if statement["Sid"] == "Looks"
        for resource in listed(statement["Resource"])
    ]
    for pipeline in ("orders", "a-dlq", "dlq-b-parking", "parking", "x-dlq-main"):
        for fifo in (False, True):
            names = Names("deadletter", pipeline, fifo)
            letters = [names.dlq(), names.dlq("vip"), names.parking(), names.parking("main")]
            for name, seen in (*((name, True) for name in letters), (names.main, False)):
                assert any(fnmatchcase(name, pattern) for pattern in looks) == seen, name


def test_what_you_bring_is_reached_by_the_tag_with_the_name_of_the_app(app: Synthesis) -> None:
    tag = {"aws:ResourceTag/deadletter:app": "deadletter"}
    by_tag = {
        statement["Sid"]: statement["Condition"]
        for policy in PEOPLE
        for statement in managed(app)[policy]
        if any(" with the tag" in noun(filled(each)) for each in listed(statement["Resource"]))
    }
    assert by_tag == {
        "ConsumersByTag": {"StringEquals": tag},
        "ConsumerLogsByTag": {"StringEquals": tag},
        "DepthsOfYoursByTag": {"StringEquals": tag},
        # Of the queues with the tag, only those that hold letters.
        "LooksIntoYoursByTag": {
            "StringEquals": {**tag, "aws:ResourceTag/deadletter:holds": "messages"}
        },
    }


def test_ten_of_a_kind_are_named_and_synth_says_which_ones_take_the_tag() -> None:
    queue = "arn:aws:sqs:eu-west-1:111122223333:theirs-"
    pipelines = [{"name": f"p{n}", "dlq": {"arn": f"{queue}{n}"}} for n in range(12)]
    settings = read({"pipelines": pipelines})
    permissions = Permissions()
    allow_brought(
        permissions,
        "Looks",
        ["sqs:ReceiveMessage"],
        dead_letter_queues(settings),
        kind=QUEUES,
        app=settings,
    )
    named, by_tag = permissions.grants
    assert named.resources == [f"{queue}{n}" for n in range(10)]
    assert by_tag.conditions == {"StringEquals": {"aws:ResourceTag/deadletter:app": "deadletter"}}
    stack = cdk.Stack()
    warn_of_unnamed(stack, settings)
    warnings = [str(entry.data) for entry in stack.node.metadata if "warning" in entry.type]
    assert [re.findall(r"not (\S+):", warning) for warning in warnings] == [
        [f"{queue}10"],
        [f"{queue}11"],
    ]
