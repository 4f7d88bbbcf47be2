"""`dlq init`: the DLQs of an account, and their entries in `cdk.json`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations.dlqs import pipeline_name
from deadletter.settings.setting import ValueKind
from infra import context
from infra.kinds import PIPELINE_LENGTH, TEXTS
from tests.console.conftest import redrive_policy
from tests.each_row import each_row

ROOT = Path(__file__).parents[3]
REGION = "eu-west-1"
ARN = f"arn:aws:sqs:{REGION}:123456789012"


@pytest.fixture
def account(cloud: Any) -> Any:
    """Two DLQs, one of them shared, and a queue without one."""
    for dlq in ("orders-dlq", "shared-dlq"):
        cloud.queue(dlq)
    for name, dlq in (
        ("orders-main", "orders-dlq"),
        ("invoices", "shared-dlq"),
        ("mails", "shared-dlq"),
    ):
        cloud.queue(name, RedrivePolicy=redrive_policy(dlq))
    cloud.queue("alone")
    for _ in range(2):
        cloud.letter("{}")
    age = "ApproximateAgeOfOldestMessage"
    cloud.figure(age, 7_500, datetime.now(UTC), QueueName="orders-dlq")
    return cloud


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings, in the folder where commands are typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cdk.json"


def test_the_account_s_dlqs_are_listed_with_depth_age_sources_and_encryption(
    account: Any, dlq: Any, file: Path
) -> None:
    done = dlq("init --json", ends=Exit.DONE)
    orders, shared = json.loads(done.stdout)["dlqs"]
    assert (orders["name"], orders["messages"], orders["oldest_seconds"]) == ("orders-dlq", 2, 7500)
    assert orders["sources"] == ["orders-main"]
    assert shared["sources"] == ["invoices", "mails"]
    assert {orders["encryption"], shared["encryption"]} <= {"SSE-SQS", "none"}
    dlq("init", says=("2 h 05 min", "  dlq doctor queue:orders-dlq\n  dlq init orders-dlq\n"))
    assert not file.exists()


def test_a_chosen_dlq_becomes_pipelines_that_the_schema_accepts(
    account: Any, dlq: Any, file: Path
) -> None:
    before = {
        "$schema": "./docs/cdk.schema.json",
        "app": "python3 app.py",
        "context": {"@aws-cdk/x": True, "app": "shop", "pipelines": [{"name": "mine"}]},
    }
    file = file.with_name("other.json")
    file.write_text(json.dumps(before))
    done = dlq("init shared-dlq --file other.json --yes --json", ends=Exit.DONE)
    assert json.loads(done.stdout)["validated"] is True
    after = json.loads(file.read_text())
    kept, *added = after["context"]["pipelines"]
    others = {**after, "context": {**after["context"], "pipelines": [kept]}}
    assert (others, list(after)) == (before, list(before))
    assert [entry["name"] for entry in added] == ["invoices", "mails"]
    settings = context.read(after["context"])
    assert {pipeline.mode for pipeline in settings.pipelines[1:]} == {"observe"}
    assert settings.pipelines[1].dlq.arn == f"{ARN}:shared-dlq"
    categories = {"transient", "schema", "business", "integration"}
    for pipeline in settings.pipelines[1:]:
        assert pipeline.parking == {category: category for category in categories}
    listed = json.loads(dlq("init --file other.json --json").stdout)["dlqs"]
    pipelines = {entry["name"]: entry["pipelines"] for entry in listed}
    assert pipelines == {"orders-dlq": [], "shared-dlq": ["invoices", "mails"]}


def test_the_sample_of_a_fresh_clone_makes_room(account: Any, dlq: Any, file: Path) -> None:
    fresh = json.loads((ROOT / "cdk.json").read_text())
    file.write_text(json.dumps(fresh))
    dlq("init orders-dlq --yes", ends=Exit.DONE, says="The sample pipeline is gone.")
    after = json.loads(file.read_text())
    [added] = after["context"].pop("pipelines")
    assert added["main_queue"] == {"arn": f"{ARN}:orders-main"}
    del fresh["context"]["pipelines"]
    assert after == fresh


def test_a_sample_that_was_changed_stays(account: Any, dlq: Any, file: Path) -> None:
    fresh = json.loads((ROOT / "cdk.json").read_text())
    fresh["context"]["pipelines"][0]["name"] = "sample"
    file.write_text(json.dumps(fresh))
    done = dlq("init orders-dlq --yes", ends=Exit.DONE)
    assert "The sample pipeline is gone" not in done.stdout
    names = [each["name"] for each in json.loads(file.read_text())["context"]["pipelines"]]
    assert names == ["sample", "orders"]


@each_row(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"context": {"pipelines": {}}}', "context.pipelines is not a list"),
        ('{"context": {"pipelines": [{"name": "x", "colour": 1}]}}', "there is no setting"),
        ('{"context": {"pipelines": [{"name": "orders"}]}}', "has a pipeline orders already"),
    ],
)
def test_a_file_that_is_broken_or_has_the_pipeline_is_refused_and_stays(
    account: Any, dlq: Any, file: Path, text: str, says: str
) -> None:
    file.write_text(text)
    dlq("init orders-dlq --yes", ends=Exit.USAGE, refuses=says)
    assert file.read_text() == text


@pytest.mark.usefixtures("at_a_terminal")
def test_it_asks_and_shows_what_it_would_add(account: Any, dlq: Any, file: Path) -> None:
    refuses = ('"mode": "observe"', "in account 123456789012, eu-west-1")
    dlq("init orders-dlq", answers="n\n", ends=Exit.ATTENTION, refuses=refuses)
    assert not file.exists()
    dlq("init orders-dlq", answers="y\n", ends=Exit.DONE)
    assert json.loads(file.read_text())["app"] == "python3 app.py"


@pytest.mark.parametrize("is_clone", [True, False])
def test_a_new_file_names_the_schema_for_editors_if_that_lies_beside_it(
    account: Any, dlq: Any, file: Path, is_clone: bool
) -> None:
    schema = file.parent / "docs" / "cdk.schema.json"
    schema.parent.mkdir()
    if is_clone:
        schema.write_text("{}")
    dlq("init orders-dlq --yes", ends=Exit.DONE)
    written = json.loads(file.read_text())
    assert ("$schema" in written) == is_clone
    assert not is_clone or (file.parent / written["$schema"]).resolve() == schema.resolve()


def test_an_unknown_dlq_is_refused_with_the_known_ones(account: Any, dlq: Any, file: Path) -> None:
    dlq("init alone --yes", ends=Exit.ABSENT, refuses="it has orders-dlq, shared-dlq")


@pytest.mark.parametrize(
    ("queue", "name"),
    [("orders", "orders"), ("Orders_Main.fifo", "orders"), ("orders-queue", "orders"),
     ("2024-orders", "q-2024-orders")],
)  # fmt: skip
def test_a_pipeline_is_named_after_its_main_queue(queue: str, name: str) -> None:
    assert pipeline_name(queue) == name


@pytest.mark.parametrize(
    "queue", ["a" * 80, "2024-" + "b" * 75, "team0-service-with-a-rather-long"]
)
def test_the_name_of_a_pipeline_is_cut_to_what_the_settings_allow(queue: str) -> None:
    name = pipeline_name(queue)
    assert PIPELINE_LENGTH - 1 <= len(name) <= PIPELINE_LENGTH
    assert TEXTS[ValueKind.PIPELINE_NAME][1](name)


def test_queues_whose_names_are_cut_alike_become_pipelines_of_two_names(
    cloud: Any, dlq: Any, file: Path
) -> None:
    cloud.queue("orders-dlq")
    for colour in ("blue", "green"):
        name = f"a-service-with-a-rather-long-name-{colour}"
        cloud.queue(name, RedrivePolicy=redrive_policy("orders-dlq"))
    done = dlq("init orders-dlq --yes --json", ends=Exit.DONE)
    blue, green = (entry["name"] for entry in json.loads(done.stdout)["added"])
    assert blue != green
    assert blue.startswith("a-service-with-a-rather-")


def test_a_deep_dlq_is_told_with_what_will_become_of_its_messages(
    account: Any, dlq: Any, file: Path
) -> None:
    for _ in range(98):
        account.letter("{}")
    assert "In mode observe" not in dlq("init orders-dlq --yes").stdout
    file.unlink()
    account.letter("{}")
    says = "orders-dlq: it holds about 101 messages, the oldest 2 h 05 min old. In mode observe"
    dlq("init orders-dlq --yes", says=(says, "dlq groups --look --in queue:orders-dlq"))
    answer = json.loads(dlq("init --json").stdout)
    deep = {item["name"]: bool(item["backlog"]) for item in answer["dlqs"]}
    assert deep == {"orders-dlq": True, "shared-dlq": False}
    assert json.loads(file.read_text())["context"]["pipelines"][0]["mode"] == "observe"
