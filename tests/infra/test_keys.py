"""Who may use a queue may use its keys, through SQS and for nothing else.

The policies of the templates are judged by the evaluator of the sandbox's IAM. What SQS asks KMS
for, in the name of its caller, is in `sandbox.queue_keys`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from ministack.core.iam_evaluator import (
    EvalContext,
    ParsedStatement,
    evaluate,
    parse_policy_document,
)

from console.operations.key_policy import key_uses, lacking
from infra import DeadletterApp, brought
from infra.keys import service_statements
from infra.permissions import Permissions
from infra.queues import Queues
from infra.refusal import Refused
from infra.settings import AppDeployment
from sandbox.queue_keys import QueueKeys, key_calls, via_sqs
from tests.examples.test_apps import synthesized
from tests.infra.conftest import ARN, KEYED, Synthesize
from tests.infra.templates import Synthesis, filled, read

REGION = "eu-west-1"

APP_KEY, MAIN_KEY, DLQ_KEY = (
    ARN.format("kms", f"key/{name}") for name in ("1234abcd", "their-main", "their-dlq")
)

Statements = Sequence[ParsedStatement]

# Which of the brought queues' keys each policy may use for what, in the pipeline KEYED.
USES = {
    "redrive": {("Decrypt", MAIN_KEY), ("GenerateDataKey", MAIN_KEY), ("Decrypt", DLQ_KEY)},
    "replay": {("Decrypt", MAIN_KEY), ("GenerateDataKey", MAIN_KEY), ("Decrypt", DLQ_KEY)},
    # It takes a canary out of either queue, and hands it to the function.
    "probe": {("Decrypt", MAIN_KEY), ("Decrypt", DLQ_KEY)},
    "consumer policy": {("Decrypt", MAIN_KEY)},
    "BodyReader": {("Decrypt", MAIN_KEY), ("Decrypt", DLQ_KEY)},
}

# The statements about keys without which a call of these to SQS fails.
NEEDED = {
    *((policy, "MainKey") for policy in ("redrive", "replay", "consumer policy")),
    *((policy, "LetterKeys") for policy in ("redrive", "replay", "probe", "BodyReader")),
    # For the parking lot. The probe sends to none of the app's queues.
    *((policy, "Key") for policy in ("redrive", "replay", "consumer policy", "BodyReader")),
}


def policies(synthesis: Synthesis) -> Iterator[tuple[str, Statements]]:
    """The statements of each function's role and of each managed policy, by what it is called."""
    for stack in synthesis.stacks.values():
        for function in stack.of("AWS::Lambda::Function").values():
            properties = function["Properties"]
            role = stack.resources[properties["Role"]["Fn::GetAtt"][0]]["Properties"]
            [inline] = role["Policies"]
            document = filled(inline["PolicyDocument"])
            yield filled(properties["FunctionName"]), parse_policy_document(document)
        for key, policy in stack.of("AWS::IAM::ManagedPolicy").items():
            document = filled(policy["Properties"]["PolicyDocument"])
            yield f"{stack.name}/{key}", parse_policy_document(document)


def may(said: Statements, action: str, resource: str, **context: str) -> bool:
    asked = EvalContext(
        principal_arn="arn:aws:sts::111122223333:assumed-role/role/session",
        principal_type="AssumedRole",
        principal_account="111122223333",
        action=action,
        resource_arn=resource,
        region=REGION,
        service_context={key.lower(): value for key, value in context.items()},
    )
    return bool(evaluate(asked, [list(said)]).decision == "Allow")


def queues(synthesis: Synthesis, brought: Mapping[str, QueueKeys]) -> dict[str, QueueKeys]:
    """The keys of each queue, by its ARN: the app's for those that are made."""
    made = {
        ARN.format("sqs", filled(queue["Properties"]["QueueName"])): QueueKeys(APP_KEY)
        for _, queue in synthesis.of("AWS::SQS::Queue")
    }
    return {**made, **brought}


def refused(said: Statements, at: Mapping[str, QueueKeys]) -> list[tuple[str, str, str]]:
    """The calls to SQS that this policy allows and that fail for want of a key."""
    return [
        (action, queue, f"{key_action} {key}")
        for queue, keys in at.items()
        for action in ("sqs:SendMessage", "sqs:ReceiveMessage")
        for key_action, key in key_calls(action, keys)
        if may(said, action, queue) and not may(said, key_action, key, **via_sqs(REGION))
    ]


def uses(said: Statements, *keys: str) -> set[tuple[str, str]]:
    return {
        (action, key)
        for key in keys
        for action in ("Decrypt", "GenerateDataKey", "Encrypt", "ReEncryptFrom", "CreateGrant")
        if may(said, f"kms:{action}", key, **via_sqs(REGION))
    }


def short(name: str) -> str:
    """What USES calls a policy."""
    if "ConsumerPolicy" in name:
        return "consumer policy"
    return "BodyReader" if "BodyReader" in name else name.rpartition("-")[2]


BROUGHT = {
    KEYED["main_queue"]["arn"]: QueueKeys(MAIN_KEY),
    # What SQS moved there is under the key that it was sent under.
    KEYED["dlq"]["arn"]: QueueKeys(DLQ_KEY, moved=[MAIN_KEY]),
}


def test_who_may_use_a_queue_may_use_its_keys(sandboxed: Synthesis) -> None:
    at = queues(sandboxed, BROUGHT)
    assert len(at) > 10
    for name, said in policies(sandboxed):
        assert refused(said, at) == [], name


def test_the_keys_of_queues_are_for_those_who_use_these_queues_and_for_nothing_else(
    sandboxed: Synthesis,
) -> None:
    found = {
        short(name): used
        for name, said in policies(sandboxed)
        if (used := uses(said, MAIN_KEY, DLQ_KEY))
    }
    assert found == USES
    for name, said in policies(sandboxed):
        for action, key in (("kms:Decrypt", MAIN_KEY), ("kms:GenerateDataKey", MAIN_KEY)):
            assert not may(said, action, key), f"{name} calls KMS itself"
            other = {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}
            assert not may(said, action, key, **other), f"{name} uses it for S3"


def test_without_any_one_of_the_statements_about_keys_a_call_fails(sandboxed: Synthesis) -> None:
    at, needed = queues(sandboxed, BROUGHT), set()
    for name, said in policies(sandboxed):
        if short(name) in USES and uses(said, MAIN_KEY, DLQ_KEY):
            about_keys = {statement.sid for statement in said if "Key" in statement.sid}
            for sid in about_keys:
                rest = [statement for statement in said if statement.sid != sid]
                if refused(rest, at):
                    needed.add((short(name), sid))
    assert needed == NEEDED


def test_on_call_may_see_who_may_use_the_keys(sandboxed: Synthesis) -> None:
    parts = [said for name, said in policies(sandboxed) if "DlqReader" in name]
    said = [statement for part in parts for statement in part]
    for key in (APP_KEY, MAIN_KEY, DLQ_KEY):
        assert may(said, "kms:GetKeyPolicy", key)
    # Figures are not under a key.
    assert uses(said, MAIN_KEY, DLQ_KEY) == set()


def test_a_key_beyond_those_that_are_named_is_reached_by_its_tag(sandboxed: Synthesis) -> None:
    [said] = [said for name, said in policies(sandboxed) if "BodyReader" in name]
    eleventh = ARN.format("kms", "key/eleventh")
    tagged = {"aws:ResourceTag/deadletter:app": "mail"}
    assert not may(said, "kms:Decrypt", eleventh, **via_sqs(REGION))
    assert not may(said, "kms:Decrypt", eleventh, **tagged)
    assert may(said, "kms:Decrypt", eleventh, **via_sqs(REGION), **tagged)


def test_the_key_of_a_queue_of_the_cdk_comes_with_the_queue() -> None:
    stack = cdk.Stack()
    dlq = sqs.Queue.from_queue_attributes(
        stack, "Dlq", queue_arn=ARN.format("sqs", "their-dlq"), key_arn=DLQ_KEY
    )
    main = sqs.Queue(
        stack,
        "Main",
        encryption_master_key=kms.Key(stack, "Key"),
        dead_letter_queue=sqs.DeadLetterQueue(queue=dlq, max_receive_count=5),
    )
    settings = brought.settings(
        Construct(stack, "Orders"),
        None,
        main_queue=main,
        dlq=dlq,
        consumer=None,
        consumer_mapping=None,
        consumer_library=None,
    )
    with pytest.raises(Refused, match='kms_key_arn is "the key of the queue"; allowed: nothing'):
        Queues(stack, "Refused", settings=settings)
    queues = Queues(stack, "Queues", settings=settings, app=AppDeployment(kms_key_arn=APP_KEY))
    permissions = Permissions()
    queues.grant_drain(permissions)
    [keys] = [grant.resources for grant in permissions.grants if grant.sid == "LetterKeys"]
    own, imported = stack.resolve(list(keys))
    assert own["Fn::GetAtt"][1] == "Arn"
    assert imported == DLQ_KEY


def key_policy(stack: cdk.Stack, folder: Path) -> Mapping[str, Any]:
    """The policy of the only key that has no description of ours."""
    app = stack.node.root
    assert isinstance(app, cdk.App)
    app.synth()
    [policy] = [
        found["Properties"]["KeyPolicy"]
        for found in read(folder)[stack.stack_name].of("AWS::KMS::Key").values()
        if "Description" not in found["Properties"]
    ]
    filled_in: Mapping[str, Any] = filled(policy)
    return filled_in


HOME = {"partition": "aws", "region": REGION, "account": "111122223333"}


def app_of(folder: Path) -> cdk.Stack:
    context = {"aws:cdk:bundling-stacks": []}
    env = cdk.Environment(account=HOME["account"], region=REGION)
    return cdk.Stack(cdk.App(outdir=str(folder), context=context), "Shop", env=env)


@pytest.mark.parametrize("closed", [False, True])
def test_a_key_of_the_same_app_lets_each_service_use_it(tmp_path: Path, *, closed: bool) -> None:
    """Also one whose policy was written by hand."""
    stack = app_of(tmp_path)
    written = iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(
                principals=[iam.AccountRootPrincipal()], actions=["kms:*"], resources=["*"]
            )
        ]
    )
    key = kms.Key(stack, "Mine", policy=written) if closed else kms.Key(stack, "Mine")
    shared = DeadletterApp(stack, "Deadletter", key=key)
    policy = key_policy(stack, tmp_path)
    for use in key_uses("deadletter", **HOME).values():
        assert lacking(policy, use) == ([], [])
        # Each statement is needed: without it the service may do nothing.
        others = [each for each in policy["Statement"] if use.service not in str(each)]
        assert lacking({"Statement": others}, use) == (list(use.actions), [])
    assert [entry for entry in shared.node.metadata if entry.type == "aws:cdk:warning"] == []


def test_each_log_group_of_the_app_is_one_that_its_key_is_for(sandboxed: Synthesis) -> None:
    [logs] = [
        statement
        for statement in service_statements(AppDeployment(app="mail"), **HOME)
        if statement["Sid"] == "LogGroups"
    ]
    patterns = logs["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]
    groups = [found["Properties"] for _, found in sandboxed.of("AWS::Logs::LogGroup")]
    assert len(groups) > 10
    for group in groups:
        arn = ARN.format("logs", f"log-group:{filled(group['LogGroupName'])}")
        assert any(fnmatchcase(arn, pattern) for pattern in patterns), arn


@pytest.mark.parametrize("argument", [False, True])
def test_for_a_key_of_another_app_synth_prints_what_it_needs(
    tmp_path: Path, *, argument: bool
) -> None:
    stack = app_of(tmp_path)
    imported = kms.Key.from_key_arn(stack, "Theirs", APP_KEY)
    shared = (
        DeadletterApp(stack, "Deadletter", key=imported)
        if argument
        else DeadletterApp(stack, "Deadletter", settings=AppDeployment(kms_key_arn=APP_KEY))
    )
    [said] = [str(entry.data) for entry in shared.node.metadata if entry.type == "aws:cdk:warning"]
    assert APP_KEY in said
    printed = json.loads(said[said.index("[\n") : said.rindex("]") + 1].partition("\n]")[0] + "\n]")
    assert printed == service_statements(AppDeployment(), **HOME)


def test_an_app_without_a_key_says_nothing_of_one(tmp_path: Path) -> None:
    shared = DeadletterApp(app_of(tmp_path), "Deadletter")
    assert [entry for entry in shared.node.metadata if entry.type == "aws:cdk:warning"] == []


def test_our_own_key_lets_cloudwatch_publish(app: Synthesis) -> None:
    [(_, found)] = list(app.of("AWS::KMS::Key"))
    policy = filled(found["Properties"]["KeyPolicy"])
    assert lacking(policy, key_uses("deadletter", **HOME)["cloudwatch"]) == ([], [])


def pipeline(name: str, **settings: Any) -> dict[str, Any]:
    return {"name": name, "consumer": "none", "mode": "enforce", **settings}


def queue(name: str, key: str | None = None) -> dict[str, str]:
    brought = {"arn": ARN.format("sqs", name)}
    return {**brought, "kms_key_arn": key} if key else brought


BOTH = {"main_queue": queue("main", MAIN_KEY), "dlq": queue("dlq", DLQ_KEY)}
WORLDS = {
    "a webhook reads it": [pipeline("keyed", **{**BOTH, "consumer": {"kind": "webhook"}})],
    "canaries go through it": [pipeline("keyed", **BOTH, consumer_library=True)],
    "only the main queue": [pipeline("keyed", main_queue=BOTH["main_queue"])],
    "only the main queue, the DLQ without": [
        pipeline("keyed", main_queue=BOTH["main_queue"], dlq=queue("dlq"))
    ],
    "only the DLQ": [pipeline("keyed", dlq=BOTH["dlq"])],
    "one key for all": [
        pipeline("keyed", main_queue=queue("main", APP_KEY), dlq=queue("dlq", APP_KEY))
    ],
    "a shared DLQ": [
        pipeline("keyed", **BOTH),
        pipeline(
            "other",
            main_queue=queue("other", ARN.format("kms", "key/other")),
            dlq=BOTH["dlq"],
        ),
    ],
}


@pytest.mark.nightly
@pytest.mark.parametrize("world", WORLDS)
def test_who_may_use_a_queue_may_use_its_keys_in_each_arrangement(
    synthesize: Synthesize, world: str
) -> None:
    arranged = WORLDS[world]
    synthesis = synthesize({"kms_key_arn": APP_KEY, "pipelines": arranged})
    mains = {
        ARN.format("sqs", f"deadletter-{item['name']}-main")
        if "main_queue" not in item
        else item["main_queue"]["arn"]: item.get("main_queue", {}).get("kms_key_arn")
        for item in arranged
    }
    at = queues(synthesis, {})
    for main, key in mains.items():
        at.setdefault(main, QueueKeys(key))
    moved = [key or APP_KEY for key in mains.values()]
    for item in arranged:
        dlq = item.get("dlq", {})
        arn = dlq.get("arn", ARN.format("sqs", f"deadletter-{item['name']}-dlq"))
        own = dlq.get("kms_key_arn") if dlq else APP_KEY
        at[arn] = QueueKeys(own, moved=moved)
    for name, said in policies(synthesis):
        assert refused(said, at) == [], name


def deployed(synthesis: Synthesis) -> dict[str, QueueKeys]:
    """The keys of all queues of an app that makes them itself, by ARN or by `<id.Arn>`."""
    found: dict[str, QueueKeys] = {}
    sources: dict[str, list[str]] = {}
    for path, made in synthesis.of("AWS::SQS::Queue"):
        settings = filled(made["Properties"])
        own = settings.get("KmsMasterKeyId")
        name = settings.get("QueueName")
        found[ARN.format("sqs", name) if name else f"<{path.partition('/')[2]}.Arn>"] = QueueKeys(
            own
        )
        if own and (dlq := settings.get("RedrivePolicy", {}).get("deadLetterTargetArn")):
            sources.setdefault(dlq, []).append(own)
    return {arn: QueueKeys(keys.own, sources.get(arn, ())) for arn, keys in found.items()}


@pytest.mark.nightly
def test_the_example_with_keys_may_use_them(tmp_path: Path) -> None:
    synthesis = Synthesis(read(synthesized("customer-keys", tmp_path)), {})
    at = deployed(synthesis)
    keys = {keys.own for keys in at.values()}
    assert len(keys) == 2
    reached = set()
    for name, said in policies(synthesis):
        assert refused(said, at) == [], name
        reached |= {key for key in keys if key and uses(said, key)}
    assert reached == keys
