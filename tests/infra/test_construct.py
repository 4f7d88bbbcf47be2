"""One statement in a CDK app of yours makes a whole pipeline, of your queues or of new ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from deadletter.signals.figures import Figure
from infra import DeadletterApp, PipelineSettings, RedrivePipeline, Refused, brought
from infra.on_call import ATTACH
from infra.settings import PipelineDeployment
from tests.each_row import each_row
from tests.infra.circles import circle, resource_graph
from tests.infra.templates import Stack, filled, read

HOME = {"account": "111122223333", "region": "eu-west-1"}
ARN = "arn:aws:sqs:eu-west-1:111122223333:{}"


@dataclass(frozen=True)
class Shop:
    """The stack of a shop with two pipelines, and what was refused beside them."""

    stack: Stack
    refusals: list[str]
    widgets: int


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder: Path = tmp_path_factory.mktemp("shop")
    app = cdk.App(outdir=str(folder), context={"aws:cdk:bundling-stacks": []})
    stack = cdk.Stack(app, "Shop")
    key = kms.Key(stack, "Key")
    shared = DeadletterApp(stack, "Deadletter", key=key)
    orders = RedrivePipeline(stack, "Orders")
    sealed: Any = {"encryption": sqs.QueueEncryption.KMS, "encryption_master_key": key}
    failed = sqs.Queue(stack, "Failed", **sealed)
    queue = sqs.Queue(
        stack,
        "Money",
        dead_letter_queue=sqs.DeadLetterQueue(queue=failed, max_receive_count=5),
        **sealed,
    )
    function = lambda_.Function(
        stack,
        "Pay",
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="index.handler",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        timeout=cdk.Duration.seconds(20),
    )
    mapping = lambda_.EventSourceMapping(
        stack, "Mapping", target=function, event_source_arn=queue.queue_arn
    )
    refunds = RedrivePipeline(
        stack,
        "CardRefunds",
        main_queue=queue,
        consumer=function,
        consumer_mapping=mapping,
        consumer_library=True,
    )
    refunds.grant_consume(function)
    assert orders.dispatcher
    assert refunds.dispatcher is None
    assert orders.shared is shared
    assert refunds.shared is shared
    cdk.CfnOutput(stack, "Redriver", value=orders.redriver.function.function_arn)
    cdk.CfnOutput(stack, "Router", value=orders.router.function.function_arn)
    cdk.CfnOutput(stack, "Main", value=orders.queues.main.url)
    cdk.CfnOutput(stack, "Age", value=orders.alarms["DlqAge"].alarm_arn)
    cdk.CfnOutput(stack, "Parked", value=refunds.parking_lot.queue_name)
    metric = refunds.metric_messages().to_metric_config().metric_stat
    assert metric
    assert metric.metric_name == Figure.MESSAGES
    refusals = [
        str(refused.value)
        for refused in (
            refusal(RedrivePipeline, stack, "Again", settings=PipelineSettings(name="orders")),
            refusal(RedrivePipeline, stack, "Money2", main_queue=queue),
            refusal(DeadletterApp, stack, "Second"),
        )
    ]
    widgets = sum(map(len, refunds.widgets()))
    app.synth()
    return Shop(read(folder)["Shop"], refusals, widgets)


def refusal(what: Any, *words: Any, **more: Any) -> pytest.ExceptionInfo[Refused]:
    with pytest.raises(Refused) as refused:
        what(*words, **more)
    return refused


def named(stack: Stack, kind: str, key: str, name: str) -> str:
    """The logical id of the resource with this name."""
    [found] = [
        id_
        for id_, resource in stack.of(kind).items()
        if filled(resource["Properties"].get(key)) == name
    ]
    return found


def variables(stack: Stack, name: str) -> dict[str, Any]:
    """The variables of the function with this name."""
    function = stack.resources[named(stack, "AWS::Lambda::Function", "FunctionName", name)]
    return dict(function["Properties"]["Environment"]["Variables"])


def test_what_is_not_given_is_made_once(shop: Shop) -> None:
    assert len(shop.stack.of("AWS::DynamoDB::Table")) == 5
    assert len(shop.stack.of("AWS::S3::Bucket")) == 1
    assert len(shop.stack.of("AWS::SNS::Topic")) == 1
    names = {
        filled(queue["Properties"].get("QueueName"))
        for queue in shop.stack.of("AWS::SQS::Queue").values()
    }
    assert names == {
        None,
        *(f"deadletter-orders-{role}" for role in ("main", "dlq", "parking")),
        "deadletter-card-refunds-parking",
        "deadletter-check-rules-failures",
    }
    parameters = {
        parameter["Properties"]["Name"]
        for parameter in shop.stack.of("AWS::SSM::Parameter").values()
    }
    assert parameters >= {
        "/deadletter/app",
        "/deadletter/pipelines/orders",
        "/deadletter/pipelines/card-refunds",
    }


def test_its_nouns_can_be_used(shop: Shop) -> None:
    assert shop.stack.outputs["Main"].endswith("/deadletter-orders-main")
    parked = named(shop.stack, "AWS::SQS::Queue", "QueueName", "deadletter-card-refunds-parking")
    assert shop.stack.outputs["Parked"] == f"<{parked}.QueueName>"
    assert "DeadletterOnCallDlqReader" in str(shop.stack.outputs)
    assert shop.widgets == 8


def test_a_function_that_is_granted_to_consume_is_trusted(shop: Shop) -> None:
    [role] = [
        function["Properties"]["Role"]["Fn::GetAtt"][0]
        for function in shop.stack.of("AWS::Lambda::Function").values()
        if function["Properties"]["Handler"] == "index.handler"
    ]
    for reader in ("redrive", "route", "replay"):
        found = variables(shop.stack, f"deadletter-card-refunds-{reader}")
        assert f"<{role}.RoleId>" in filled(found["TRUSTED_SENDERS"]), reader


def test_no_resource_waits_for_itself(shop: Shop) -> None:
    assert circle(resource_graph(shop.stack.template)) == []


def test_the_mapping_waits_for_its_queue_which_it_knows_by_name_only(shop: Shop) -> None:
    [mapping] = [
        mapping
        for mapping in shop.stack.of("AWS::Lambda::EventSourceMapping").values()
        if filled(mapping["Properties"]["EventSourceArn"]).endswith("-main")
    ]
    main = named(shop.stack, "AWS::SQS::Queue", "QueueName", "deadletter-orders-main")
    assert main in mapping["DependsOn"]


def test_queues_and_functions_whose_names_only_the_deployment_knows_are_used(shop: Shop) -> None:
    stack = shop.stack
    [money] = [key for key in stack.of("AWS::SQS::Queue") if key.startswith("Money")]
    [failed] = [key for key in stack.of("AWS::SQS::Queue") if key.startswith("Failed")]
    [pay] = [key for key in stack.of("AWS::Lambda::Function") if key.startswith("Pay")]
    [mapping] = [
        key for key in stack.of("AWS::Lambda::EventSourceMapping") if key.startswith("Mapping")
    ]
    watch = variables(stack, "deadletter-card-refunds-watch")
    assert watch["MAIN_ARN"] == {"Fn::GetAtt": [money, "Arn"]}
    assert watch["CONSUMER_MAPPING"] == {"Ref": mapping}
    assert at_deployment(watch["MAIN_URL"], {money: "Money", failed: "Failed"}) == (
        "https://sqs.eu-west-1.amazonaws.com/111122223333/Money"
    )
    assert at_deployment(watch["DLQ_URL"], {money: "Money", failed: "Failed"}).endswith("/Failed")
    probe = variables(stack, "deadletter-card-refunds-probe")
    assert probe["CONSUMER_FUNCTION"] == {"Fn::GetAtt": [pay, "Arn"]}
    assert probe["CONSUMER_TIMEOUT"] == "20"
    age = next(
        alarm["Properties"]
        for alarm in stack.of("AWS::CloudWatch::Alarm").values()
        if alarm["Properties"]["AlarmName"] == "deadletter-card-refunds-DlqAge"
    )
    [dimension] = age["Dimensions"]
    assert at_deployment(dimension["Value"], {failed: "Failed"}) == "Failed"


def test_queues_of_the_same_app_are_tagged_and_otherwise_left_alone(shop: Shop) -> None:
    queues = shop.stack.of("AWS::SQS::Queue")
    [money] = [queue["Properties"] for key, queue in queues.items() if key.startswith("Money")]
    [failed] = [queue["Properties"] for key, queue in queues.items() if key.startswith("Failed")]
    tag = {"Key": "deadletter:app", "Value": "deadletter"}
    assert money["Tags"] == [tag]
    assert failed["Tags"] == [tag, {"Key": "deadletter:holds", "Value": "messages"}]
    assert set(money) == {"KmsMasterKeyId", "RedrivePolicy", "Tags"}
    assert set(failed) == {"KmsMasterKeyId", "Tags"}


def test_the_dashboard_names_queues_of_the_same_stack(shop: Shop) -> None:
    [dashboard] = shop.stack.of("AWS::CloudWatch::Dashboard").values()
    body, variables = dashboard["Properties"]["DashboardBody"]["Fn::Sub"]
    [failed] = [key for key in shop.stack.of("AWS::SQS::Queue") if key.startswith("Failed")]
    names = {at_deployment(value, {failed: "Failed"}) for value in variables.values()}
    assert "Failed" in names
    assert all(f"${{{name}}}" in body for name in variables)
    assert "## card-refunds" in body


def test_what_does_not_fit_is_refused_in_one_sentence(shop: Shop) -> None:
    again, money, second = shop.refusals
    assert again == (
        'Pipeline orders: name is "orders"; allowed: a name that no other pipeline has.'
    )
    assert money.startswith("Pipeline money2: main_queue.arn is ")
    assert money.endswith("; allowed: a queue that pipeline card-refunds does not name.")
    assert second == (
        'App deadletter: app is "deadletter"; allowed: a name that no other DeadletterApp has; or'
        " give the pipelines one `shared`."
    )


def test_roles_have_generated_names_and_policies_of_people_the_same_everywhere(shop: Shop) -> None:
    """But for the role that starts functions: pipelines of other stacks know it by its name."""
    roles = [role["Properties"] for role in shop.stack.of("AWS::IAM::Role").values()]
    named = [filled(role["RoleName"]) for role in roles if "RoleName" in role]
    assert named == ["deadletter-starter-eu-west-1"]
    policies = [each["Properties"] for each in shop.stack.of("AWS::IAM::ManagedPolicy").values()]
    of_people = [each for each in policies if "ManagedPolicyName" in each]
    names = {filled(each["ManagedPolicyName"]) for each in of_people}
    assert {f"deadletter-{policy}-eu-west-1" for policy in ATTACH} <= names
    # CloudFormation refuses another description for a policy with a name.
    assert {each["Description"] for each in of_people} == {""}


def at_deployment(value: Any, names: dict[str, str]) -> str:
    """A text as CloudFormation will make it, of queues with these names."""
    match value:
        case {"Fn::GetAtt": [queue, "Arn"]}:
            return ARN.format(names.get(queue, queue))
        case {"Fn::Select": [index, {"Fn::Split": [separator, text]}]}:
            return at_deployment(text, names).split(separator)[int(index)]
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(at_deployment(part, names) for part in parts)
    return str(filled(value))


def fits(**brings: Any) -> PipelineDeployment:
    """The settings of a pipeline in a stack of a known account and region."""
    stack = cdk.Stack(cdk.App(), "Shop", env=cdk.Environment(**HOME))
    every: dict[str, Any] = {
        "main_queue": None,
        "dlq": None,
        "consumer": None,
        "consumer_mapping": None,
        "consumer_library": None,
    }
    given = brings.pop("given", None)
    made = {key: make(stack) if callable(make) else make for key, make in brings.items()}
    return brought.settings(Construct(stack, "SQSOrders"), given, **{**every, **made})


def at(name: str, region: str = "eu-west-1") -> Any:
    arn = ARN.format(name).replace("eu-west-1", region)
    return lambda scope: sqs.Queue.from_queue_arn(scope, f"Theirs{len(scope.node.children)}", arn)


def test_a_pipeline_is_called_as_its_construct_unless_its_settings_say_so() -> None:
    assert fits().name == "sqs-orders"
    assert fits(given=PipelineSettings(name="shop-orders")).name == "shop-orders"


def test_nobody_takes_messages_out_of_your_queue_unless_you_say_so() -> None:
    assert fits(main_queue=at("orders")).consumer.kind == "none"
    assert fits().consumer.kind == "webhook"


def test_an_imported_queue_is_known_by_its_arn_and_fifo_by_its_name() -> None:
    settings = fits(main_queue=at("orders.fifo"), dlq=at("dead.fifo"))
    assert (settings.main_queue.arn, settings.fifo) == (ARN.format("orders.fifo"), True)


def test_a_name_that_is_a_text_is_used_instead_of_a_reference() -> None:
    stack = cdk.Stack(cdk.App(), "Shop")
    dead = sqs.DeadLetterQueue(queue=sqs.Queue(stack, "Dead"), max_receive_count=5)
    queue = sqs.Queue(stack, "Queue", queue_name="orders", dead_letter_queue=dead)
    none: dict[str, Any] = dict.fromkeys(
        ("dlq", "consumer", "consumer_mapping", "consumer_library")
    )
    settings = brought.settings(Construct(stack, "Orders"), None, main_queue=queue, **none)
    assert settings.main_queue.arn
    assert settings.main_queue.arn.endswith(":orders")


def mapping(scope: Construct) -> lambda_.IEventSourceMapping:
    mapping_id = "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f"
    return lambda_.EventSourceMapping.from_event_source_mapping_id(scope, "Mapping", mapping_id)


@each_row(
    ("brings", "sentence"),
    [
        ({"main_queue": at("orders", "us-east-1")}, "one in region eu-west-1, not us-east-1"),
        ({"main_queue": at("orders"), "dlq": at("orders")}, "another queue than main_queue.arn"),
        ({"main_queue": at("orders"), "dlq": at("dead.fifo")}, "a standard queue"),
        ({"consumer_mapping": mapping}, "unless consumer is the function"),
        (
            {
                "given": PipelineSettings(name="orders", main_queue={"arn": ARN.format("orders")}),
                "main_queue": at("orders"),
            },
            "either settings or the argument",
        ),
    ],
)
def test_what_is_brought_has_to_fit(brings: dict[str, Any], sentence: str) -> None:
    if brings.get("consumer_mapping"):
        brings = {
            "consumer_mapping": lambda scope: (
                lambda_.EventSourceMapping.from_event_source_mapping_id(
                    scope, "Mapping", "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f"
                )
            )
        }
    with pytest.raises(Refused, match=sentence):
        fits(**brings)


def test_another_dlq_than_that_of_the_queue_is_refused() -> None:
    def queue(scope: Construct) -> sqs.Queue:
        dead = sqs.DeadLetterQueue(queue=sqs.Queue(scope, "Dead"), max_receive_count=3)
        return sqs.Queue(scope, "Queue", dead_letter_queue=dead)

    assert fits(main_queue=queue).dlq.arn
    with pytest.raises(Refused, match="Shop/Dead, the DLQ of main_queue"):
        fits(main_queue=queue, dlq=at("other"))
