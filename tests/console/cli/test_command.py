"""The options that all commands share, and how a command ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore import exceptions
from botocore.client import BaseClient

from console.cli.commands import BESIDE_READER, policies_of
from console.cli.commands import COMMANDS as TABLE
from console.cli.exit import Exit, exit_status
from console.cli.help import TOPICS
from console.operations import app, aws, errors, queue
from console.operations.errors import Cause, Problem
from tests.console.conftest import refusing
from tests.each_row import each_row
from tests.infra.test_permissions import COMMANDS
from tools import commands_page

ROOT = Path(__file__).parents[3]


def test_the_app_is_named_by_an_option_before_or_after_the_command_or_by_dlq_app(
    cloud: Any, dlq: Any
) -> None:
    cloud.app = "billing"
    cloud.deploy("orders")
    before = dlq("--app billing --json --query app status")
    after = dlq("status --app billing --json --query app")
    assert before.stdout == after.stdout == '"billing"\n'
    # The later of two counts.
    dlq("--app another status --app billing", env={"DLQ_APP": "third"}, ends=Exit.DONE)
    # What it prints to type is about the same app, account and region.
    cloud.park("orders", "POISON")
    typed = dlq("status --app billing --region eu-west-1").stdout
    assert "  dlq --region eu-west-1 --app billing retry --in parked --all -p orders" in typed
    assert "  dlq --app billing retry" in dlq("status", env={"DLQ_APP": "billing"}).stdout
    dlq("status", env={"DLQ_APP": "billing"}, ends=Exit.DONE)
    dlq("status", env={"DLQ_APP": ""}, ends=Exit.ABSENT)


def test_the_region_option_beats_aws_region_which_beats_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("[profile prod]\nregion = us-west-2\n")
    assert aws.connect("prod", "ap-south-1").region == "ap-south-1"
    assert aws.connect("prod", None).region == "eu-west-1"
    monkeypatch.setenv("AWS_REGION", "")
    assert aws.connect("prod", None).region == "us-west-2"


def test_a_profile_beats_credentials_in_the_environment_only_if_it_is_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the AWS CLI."""
    (tmp_path / "credentials").write_text(
        "[prod]\naws_access_key_id = prods\naws_secret_access_key = secret\n"
    )
    assert _key(aws.connect("prod", None)) == "prods"
    monkeypatch.setenv("AWS_PROFILE", "prod")
    assert _key(aws.connect(None, None)) == "testing"


def _key(clients: aws.Aws) -> str:
    return str(clients._session.get_credentials().access_key)  # type: ignore[union-attr]


def test_a_run_is_never_started_twice_by_the_sdk() -> None:
    config: Any = aws.connect(None, None).lambda_.meta.config
    assert config.retries == {"total_max_attempts": 1, "mode": "legacy"}
    assert config.read_timeout > 900


def test_query_implies_json_and_cuts_it(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "invoices")
    assert json.loads(dlq("status --query 'pipelines[].name'").stdout) == ["invoices", "orders"]


def test_a_bad_query_is_refused_before_anything_is_done(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders")
    done = dlq("retry --auto --reason x --yes --query 'report['", ends=Exit.USAGE)
    assert done.stderr.startswith("Error: --query is not JMESPath")
    assert functions.invoked == []


def test_a_query_that_does_not_fit_prints_the_whole_answer(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    done = dlq("status --query 'length(pipelines[0].last_run)'", ends=Exit.USAGE)
    assert json.loads(done.stdout)["app"] == "deadletter"
    assert "--query does not fit" in done.stderr


def test_without_a_region_it_says_so(dlq: Any) -> None:
    done = dlq("status", env={"AWS_REGION": ""}, ends=Exit.UNREACHABLE)
    assert done.output == "Error: No AWS region is set: pass --region, or set AWS_REGION.\n"


def test_without_credentials_it_says_so(dlq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    done = dlq("status", ends=Exit.UNREACHABLE)
    assert done.output == "Error: No AWS credentials found: pass --profile, or set AWS_PROFILE.\n"


def test_an_unknown_profile_is_named(dlq: Any) -> None:
    refuses = ("(nope)", "--profile")
    done = dlq("status --json --profile nope", ends=Exit.UNREACHABLE, refuses=refuses)
    assert done.stdout == ""


def _answer(code: str, message: str = "details") -> exceptions.ClientError:
    return exceptions.ClientError({"Error": {"Code": code, "Message": message}}, "ReceiveMessage")


@each_row(
    ("error", "says", "status"),
    [
        (_answer("ExpiredTokenException"), "have expired: sign in again", Exit.UNREACHABLE),
        (_answer("InvalidClientTokenId"), "does not accept these", Exit.UNREACHABLE),
        (_answer("AccessDenied", "who may not"), "ReceiveMessage: who may not", Exit.UNREACHABLE),
        (_answer("ThrottlingException"), "throttling", Exit.UNREACHABLE),
        (_answer("AWS.SimpleQueueService.NonExistentQueue"), "finds nothing there", Exit.ABSENT),
        (_answer("ResourceNotFoundException"), "finds nothing there", Exit.ABSENT),
        (_answer("Novelty"), "answered ReceiveMessage with Novelty: details", Exit.UNREACHABLE),
        (exceptions.EndpointConnectionError(endpoint_url="x"), "Can't reach", Exit.UNREACHABLE),
        (exceptions.ReadTimeoutError(endpoint_url="x"), "Can't reach", Exit.UNREACHABLE),
        (exceptions.UnauthorizedSSOTokenError(), "aws sso login", Exit.UNREACHABLE),
        (
            exceptions.TokenRetrievalError(provider="sso", error_msg="x"),
            "renewed",
            Exit.UNREACHABLE,
        ),
        (exceptions.DataNotFoundError(data_path="x"), "The AWS SDK gave up", Exit.UNREACHABLE),
    ],
)
def test_an_error_of_aws_becomes_a_sentence(error: Exception, says: str, status: Exit) -> None:
    problem = errors.explain(error)
    assert problem is not None
    assert says in problem.says
    assert exit_status(problem) == status
    assert problem.says.endswith((".", "?"))


def test_a_refusal_names_the_policies_of_the_app_that_the_command_takes(
    cloud: Any, dlq: Any, functions: Any
) -> None:
    cloud.deploy("orders")
    functions.raises = _answer("AccessDeniedException", "who may not")
    refuses = (
        "dlq retry takes the app's managed policies deadletter-DlqReader-… and "
        "deadletter-BodyReader-… and deadletter-CircuitOperator-… and "
        "deadletter-RunOperator-…"
    )
    dlq("retry --auto --reason x --yes", ends=Exit.UNREACHABLE, refuses=refuses)


A_LOOK = "--in queue:billing-dlq --look"
AT_QUEUE = {"list": A_LOOK, "groups": A_LOOK, "doctor": "queue:billing-dlq"}


@pytest.mark.parametrize("command", [name for name, each in TABLE.items() if each.at_queue])
def test_a_refusal_at_a_queue_of_no_app_names_actions_and_no_policy_of_an_app(
    cloud: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(queue, "_url", refusing("GetQueueUrl"))
    refuses = f"dlq {command} of a queue needs no app, but sqs:GetQueueUrl"
    done = dlq(f"{command} {AT_QUEUE[command]}", ends=Exit.UNREACHABLE, refuses=refuses)
    assert "managed polic" not in done.stderr


@pytest.mark.parametrize("command", ["list", "groups"])
def test_the_actions_at_a_queue_of_no_app_are_those_that_are_called(
    cloud: Any, dlq: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.queue("billing-dlq")
    cloud.letter("{}", queue="billing-dlq")
    called: set[str] = set()
    real = BaseClient._make_api_call

    def noted(client: BaseClient, operation: str, members: dict[str, Any]) -> Any:
        if (service := client.meta.service_model.service_name) == "sqs":
            called.add(f"{service}:{operation.removesuffix('Batch')}")
        return real(client, operation, members)

    monkeypatch.setattr(BaseClient, "_make_api_call", noted)
    dlq(f"{command} {A_LOOK}", ends=Exit.DONE)
    assert called == set(TABLE[command].at_queue)


def test_the_policies_of_a_command_are_those_of_the_permissions_table() -> None:
    """With those that a command takes with one of its options alone."""
    for command, policies in COMMANDS.items():
        words = command.partition(" ")[2]
        keys = [words, *(key for key in BESIDE_READER if key.startswith(f"{words} --"))]
        taken = dict.fromkeys(policy for key in keys for policy in policies_of(key))
        assert list(taken) == list(policies), command


def test_a_refusal_names_the_policies_of_the_option_that_was_typed(
    cloud: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("orders")
    for operation in ("console.operations.pager.publish", "console.operations.removal.read"):
        monkeypatch.setattr(operation, refusing("ReceiveMessage"))
    assert "deadletter-CircuitOperator-…" in dlq("doctor --send-page").stderr
    assert "CircuitOperator" not in dlq("doctor --removal").stderr


def test_json_lines_are_the_rows_of_the_first_list(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "invoices")
    rows = dlq("circuit list --jsonl").stdout.splitlines()
    assert [json.loads(row)["pipeline"] for row in rows] == ["invoices", "orders"]
    names = dlq("status --jsonl --query 'pipelines[].name'").stdout
    assert names == '"invoices"\n"orders"\n'
    assert len(dlq("--jsonl status --query 'pipelines[0]'").stdout.splitlines()) == 1


def _fails_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "find", Mock(side_effect=error))


def test_a_bug_is_called_a_bug_and_quotes_nothing_but_for_debug(
    dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fails_with(KeyError("a customer's name"), monkeypatch)
    done = dlq("status", ends=Exit.BUG, refuses="dlq itself failed (KeyError), which is a bug")
    assert not [text for text in ("customer", "Traceback") if text in done.output]
    dlq("--debug status", ends=Exit.BUG, refuses="Traceback")


def test_an_error_can_not_control_the_terminal(dlq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _fails_with(_answer("Novelty", "\x1b[2J"), monkeypatch)
    assert "\x1b" not in dlq("status").output


def test_ctrl_c_ends_with_130(dlq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _fails_with(KeyboardInterrupt(), monkeypatch)
    dlq("status", ends=Exit.STOPPED)


def test_a_wrong_option_is_a_usage_error_that_points_to_help(dlq: Any) -> None:
    dlq("status --pipelin orders", ends=Exit.USAGE, refuses="Try 'dlq status --help'")


def test_a_closed_pipe_is_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "console", "--help"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "lambdas")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=30)
    assert process.returncode != -signal.SIGABRT


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "console", "--help"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "lambdas")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Usage: dlq ")


def test_every_cause_has_an_exit_status_of_its_own() -> None:
    statuses = [exit_status(Problem("", cause)) for cause in Cause]
    assert len(set(statuses)) == len(Cause)
    assert Exit.DONE not in statuses


def test_version_is_that_of_the_installed_distribution(
    dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", {"deadletter": "1.2.3"}.__getitem__)
    done = dlq("--version")
    assert (done.exit_code, done.output) == (Exit.DONE, "dlq 1.2.3\n")


def test_version_says_so_if_nothing_is_installed(dlq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    done = dlq("--version", ends=Exit.DONE)
    assert "the distribution 'deadletter' is not installed" in done.output


def test_clients_are_made_once() -> None:
    client = aws.connect(None, "eu-west-1")
    assert client.sqs is client.sqs


@pytest.mark.parametrize("words", [("doctor", "--removal"), ("circuit", "list"), ("run", "list")])
def test_a_pipeline_is_named_behind_the_command_or_by_an_option_before_or_after_it(
    cloud: Any, dlq: Any, words: tuple[str, ...]
) -> None:
    for name in ("orders", "refunds"):
        cloud.deploy(name)
    for line in ((*words, "refunds"), (*words, "-p", "refunds"), ("--pipeline", "refunds", *words)):
        done = dlq(*line)
        assert done.exit_code in (Exit.DONE, Exit.ATTENTION), done.output
        assert "orders" not in done.output
    for line in ((*words, "refund"), ("-p", "refund", *words)):
        dlq(*line, ends=Exit.ABSENT, refuses="refund")


def test_a_command_about_one_pipeline_refuses_two(cloud: Any, dlq: Any) -> None:
    for line in (("mute", "orders", "-p", "refunds"), ("mute", "-p", "orders", "-p", "refunds")):
        dlq(*line, ends=Exit.USAGE, refuses="Two pipelines, orders and refunds: name one of them.")
    cloud.deploy("orders", "refunds")
    both = dlq("circuit list orders -p refunds --query 'circuits[].key'")
    assert json.loads(both.stdout) == ["orders", "refunds"]


@pytest.mark.parametrize("words", [("help",), ("endpoint", "list"), ("init",)])
def test_a_command_about_no_pipeline_takes_none(dlq: Any, words: tuple[str, ...]) -> None:
    after, before = dlq(*words, "-p", "orders"), dlq("-p orders", *words)
    assert (after.exit_code, before.exit_code) == (Exit.USAGE, Exit.USAGE)
    assert f"dlq {' '.join(words)} is about no pipeline" in before.stderr


def test_the_option_for_pipelines_is_the_same_wherever_there_is_one() -> None:
    said = {
        (option.opts[0], option.metavar, option.help, option.multiple)
        for command in commands_page.commands().values()
        for option in command.params
        if "--pipeline" in option.opts
    }
    assert len(said) == 1


def test_the_topics_are_listed(dlq: Any) -> None:
    shown = dlq("help").stdout
    assert all(topic in shown for topic in TOPICS)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_asks_aws_nothing(dlq: Any, topic: str) -> None:
    done = dlq("help", topic, env={"AWS_REGION": ""}, ends=Exit.DONE)
    assert done.stdout.startswith(TOPICS[topic][0])


def test_the_exit_statuses_are_a_topic(dlq: Any) -> None:
    rows = json.loads(dlq("help exit --json").stdout)["rows"]
    assert [int(row[0]) for row in rows] == [int(status) for status in Exit]


def test_an_unknown_topic_is_refused_with_the_known_ones(dlq: Any) -> None:
    dlq("help me", ends=Exit.USAGE, refuses="it is words, exit, environment, json, policies")
