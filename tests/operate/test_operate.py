"""docs/operate.md, typed from top to bottom by a platform team with one account.

Each section goes on where the one before ended, and all of them share one sandbox. Two letters, one
parked and one that waits, are put in after the first deployment and have to be there until the
team itself lets them go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sandbox.progress import until
from sandbox.server import ACCOUNT, REGION, ROOT, Sandbox
from tests.e2e.receiver import Receiver
from tests.operate.procedures import Fence, gone, procedures, read, stands_in
from tests.operate.team import GOOD, ORDERS, PARKED, THERE, WAITING, PlatformTeam

PROCEDURES = read()

KEPT = {PARKED: 1, WAITING: 1}

HOLD = "hold-cedar"

LETTERS = "deadletter-messages"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformTeam]:
    """A team with an empty account and a clone of the project."""
    with Sandbox(ROOT / "build" / "operate") as sandbox, Receiver() as receiver:
        team = PlatformTeam(sandbox, tmp_path_factory.mktemp("operate"), receiver)
        team.change(pipelines=[ORDERS])
        yield team


def type_fence(team: PlatformTeam, fence: Fence) -> str:
    """Type what the page says; it has to succeed, and to say what the page says."""
    typed = team.type(fence.script)
    missing = [line for line in fence.expected if not stands_in(line, typed.output)]
    said = f"$ {fence.script}\n{typed.output}\n(exit status {typed.status})"
    assert typed.status == 0, said
    assert not missing, f"{said}\nnot there: {missing}"
    return typed.output


def register(team: PlatformTeam, account: str = "") -> None:
    """Give each tenant an endpoint on this machine."""
    for tenant in (GOOD, PARKED, WAITING):
        url = team.receiver.url(tenant)
        words = ("endpoint", "add", tenant, "--url", url, "--reason", "a test", "--yes")
        team.dlq(*words, account=account)


def heals(team: PlatformTeam, account: str = "") -> None:
    """A new letter goes back and is delivered."""
    delivered = len(team.receiver.bodies[GOOD])
    team.letter(GOOD, account)

    def arrives() -> bool:
        team.dlq("retry", "--auto", "-p", "orders", "--reason", "a test", "--yes", account=account)
        return len(team.receiver.bodies[GOOD]) > delivered

    until(arrives, "a letter goes back and is delivered")


def decides(team: PlatformTeam, decision: str) -> bool:
    """Whether a run would decide so on a letter."""
    return decision in team.dlq("retry", "--auto", "--dry-run", "-p", "orders")


def put_letters(team: PlatformTeam, _: str) -> None:
    """One letter is parked by a rule, one is held by another."""
    register(team)
    for rule, tenant, action, decision in (
        ("stop-acme", PARKED, "quarantine", "PARK:QUARANTINED"),
        (HOLD, WAITING, "hold", "HOLD"),
    ):
        why = ["--reason", "half a body", "--expires", "never", "--yes"]
        team.dlq("rules", "add", rule, "-f", f"tenant={tenant}", "--action", action, *why)
        team.letter(tenant)
        # A rule is in effect within a minute: a run before would send the letter.
        until(partial(decides, team, decision), f"{rule} is in effect")

    def kept() -> bool:
        team.dlq("retry", "--auto", "-p", "orders", "--reason", "a test", "--yes")
        return team.kept() == KEPT

    until(kept, "one letter is parked, and one waits")


def still_works(team: PlatformTeam, _: str) -> None:
    """Nothing that waited is lost, and a new letter goes back and is delivered."""
    assert team.kept() == KEPT
    heals(team)


def change_an_alarm(team: PlatformTeam, _: str) -> None:
    team.change(pipelines=[{**ORDERS, "owner": "the orders team"}])


def bring_queues(team: PlatformTeam, _: str) -> None:
    """The queues of another team, which nobody heals yet."""
    sqs = team.sandbox.client("sqs")
    dead = sqs.create_queue(QueueName="legacy-dlq")["QueueUrl"]
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:legacy-dlq"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 5})
    sqs.create_queue(QueueName="legacy", Attributes={"RedrivePolicy": policy})
    sqs.send_message(QueueUrl=dead, MessageBody="{}")


def nothing_is_replaced(team: PlatformTeam, output: str) -> None:
    """A release changes the code of functions: nothing goes, and nothing is made anew."""
    assert "[~] AWS::Lambda::Function" in output
    assert gone(output) == []
    still_works(team, output)


def lose_the_waiting_letter(team: PlatformTeam, _: str) -> None:
    """A person deletes the row of the letter by hand."""
    dynamodb = team.sandbox.client("dynamodb")
    rows = dynamodb.scan(TableName=LETTERS)["Items"]
    lost = [row for row in rows if row["pk"]["S"].startswith("orders#message#")]
    assert len(lost) == 1
    for row in lost:
        dynamodb.delete_item(TableName=LETTERS, Key={"pk": row["pk"], "sk": row["sk"]})


def table_is_whole(team: PlatformTeam, output: str) -> None:
    table = team.sandbox.client("dynamodb").describe_table(TableName=LETTERS)["Table"]
    assert table["DeletionProtectionEnabled"]
    assert {index["IndexName"] for index in table["GlobalSecondaryIndexes"]} >= {"lanes"}
    still_works(team, output)


def legacy_is_as_it_was(team: PlatformTeam, _: str) -> None:
    """Their queues are as they were made, and nothing of the pipeline is left."""
    assert {"legacy", "legacy-dlq"} <= team.left()
    assert len(team.sandbox.queues()["legacy-dlq"]) == 1
    assert not [name for name in team.left() if name.startswith("deadletter-legacy")]
    assert not [stack for stack in team.stacks() if "Legacy" in stack]
    assert [entry["name"] for entry in team.settings()["context"]["pipelines"]] == ["orders"]


def only_data_is_left(team: PlatformTeam, _: str) -> None:
    assert team.stacks() == {"CDKToolkit"}
    tables = {f"deadletter-{name}" for name in ("messages", "rules", "audit", "circuits")}
    queues = {f"deadletter-orders-{name}" for name in ("main", "dlq", "parking")}
    assert tables | queues <= team.left()


def stacks_are_protected(team: PlatformTeam, output: str) -> None:
    stacks = team.sandbox.client("cloudformation").describe_stacks()["Stacks"]
    protected = {stack["StackName"] for stack in stacks if stack.get("EnableTerminationProtection")}
    assert protected == {"Deadletter-Shared", "Deadletter-Orders-Queues"}
    still_works(team, output)


def letters_have_left(team: PlatformTeam, _: str) -> None:
    until(lambda: team.kept() == {PARKED: 0, WAITING: 0}, "nothing is parked, and nothing waits")


def nothing_is_left(team: PlatformTeam, _: str) -> None:
    assert team.stacks() == {"CDKToolkit"}
    assert team.left() == {"legacy", "legacy-dlq"}


def lives_in_both_accounts(team: PlatformTeam, output: str) -> None:
    rules = json.loads(team.dlq("rules", "list", "--yaml", "--json", account=THERE))["file"]
    assert {rule["rule_id"] for rule in rules} == {"stop-acme", HOLD}
    register(team, THERE)
    heals(team, THERE)
    still_works(team, output)


Hook = Callable[[PlatformTeam, str], None]

# What happens before and after the fences of a section, by its title and the fence's number.
BEFORE: dict[tuple[str, int], Hook] = {
    ("Deploy in CI", 0): change_an_alarm,
    ("Add a pipeline", 0): bring_queues,
    ("Restore from a backup", 1): lose_the_waiting_letter,
}
AFTER: dict[tuple[str, int], Hook] = {
    ("Deploy by hand", 0): put_letters,
    ("Deploy in CI", 1): still_works,
    ("Upgrade", 0): nothing_is_replaced,
    ("Roll back", 0): nothing_is_replaced,
    ("Restore from a backup", 1): still_works,
    ("Restore from a backup", 2): table_is_whole,
    ("Move to another account", 1): lives_in_both_accounts,
    ("Remove a pipeline", 2): legacy_is_as_it_was,
    ("Destroy", 0): only_data_is_left,
    ("Deploy again over what stayed", 0): stacks_are_protected,
    ("Uninstall", 0): letters_have_left,
    ("Uninstall", 1): nothing_is_left,
}


@pytest.mark.sandbox
@pytest.mark.nightly
@pytest.mark.parametrize("title", PROCEDURES)
def test_a_procedure_works_as_it_stands_on_the_page(team: PlatformTeam, title: str) -> None:
    for number, fence in enumerate(PROCEDURES[title]):
        BEFORE.get((title, number), lambda *_: None)(team, "")
        output = type_fence(team, fence)
        AFTER.get((title, number), lambda *_: None)(team, output)


def test_what_is_checked_are_fences_of_the_page() -> None:
    there = {(title, number) for title, steps in PROCEDURES.items() for number in range(len(steps))}
    assert {*BEFORE, *AFTER} <= there


def test_each_section_of_the_page_is_typed_or_says_that_it_was_not() -> None:
    page = Path(ROOT / "docs" / "operate.md").read_text()
    for section in page.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        assert title in PROCEDURES or "Not executed" in section, title


def test_a_section_is_read_with_its_fences_and_what_they_have_to_say() -> None:
    page = "## One\n```sh operate\na\n> A … B\nb\n```\n```sh\nc\n```\n## Two\nNot executed.\n"
    assert procedures(page) == {"One": [Fence("a\nb", ("A … B",))]}
    assert stands_in("A … B", "x A  1 B")
    assert not stands_in("A … B", "B A")


def test_a_diff_that_removes_or_replaces_something_is_told() -> None:
    harmless = "[~] AWS::Lambda::Function Watch\n └─ [~] Code\n     ├─ [-] one.zip"
    removed = "[-] AWS::DynamoDB::Table Letters destroy"
    maybe = "[~] AWS::SQS::Queue Main may be replaced"
    replaced = "[~] AWS::IAM::Role Role replace"
    words = "Hold on for accurate replacement information"
    diff = "\n".join([words, harmless, removed, maybe, replaced])
    assert gone(harmless) == []
    assert gone(diff) == [removed, maybe, replaced]
