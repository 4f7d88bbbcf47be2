"""How `dlq` finds an app, and what it says when it can't."""

from __future__ import annotations

from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations import app, aws
from console.operations.errors import Cause, Problem


def find(name: str = "deadletter") -> app.App:
    return app.find(aws.connect(None, None), name)


def test_thirty_pipelines_are_found_page_by_page(cloud: Any) -> None:
    names = [f"pipeline-{number:02}" for number in range(30)]
    cloud.deploy(*names)
    assert [pipeline.name for pipeline in find().pipelines] == names


def test_a_pipeline_is_read_from_its_parameter(cloud: Any) -> None:
    cloud.deploy("orders", parking=["default", "legal"], dedicated=["tenant-a"])
    (orders,) = find().pipelines
    assert orders.dlq_url == cloud.urls["orders-dlq"]
    assert orders.parking == {
        "default": cloud.urls["orders-parking-default"],
        "legal": cloud.urls["orders-parking-legal"],
    }
    assert orders.dedicated == {"tenant-a": cloud.urls["orders-dlq-tenant-a"]}
    assert (orders.redrive_function, orders.mode) == ("orders-redrive", "enforce")


def test_another_app_in_the_same_account_is_another_app(cloud: Any) -> None:
    cloud.deploy("orders")
    cloud.app = "deadletter-staging"
    cloud.deploy("invoices")
    assert [pipeline.name for pipeline in find().pipelines] == ["orders"]
    assert [pipeline.name for pipeline in find("deadletter-staging").pipelines] == ["invoices"]


def test_a_missing_app_is_reported_with_account_and_region(cloud: Any, dlq: Any) -> None:
    done = dlq("status --app billing", ends=Exit.ABSENT)
    assert done.output == (
        "Error: No app 'billing' in account 123456789012, eu-west-1 (no SSM parameter "
        "/billing/app): check --app, --region and --profile. Where no app is deployed, these "
        "look into any queue:\n  dlq --app billing list --in queue:NAME --look\n"
        "  dlq --app billing groups --in queue:NAME --look\n"
        "  dlq --app billing doctor queue:NAME\n"
    )


@pytest.mark.parametrize("name", ["/deadletter", "a b", "", "../x"])
def test_a_name_that_no_app_can_have_is_a_usage_error(name: str) -> None:
    with pytest.raises(Problem) as refused:
        find(name)
    assert refused.value.cause == Cause.INPUT


def test_an_unknown_pipeline_is_answered_with_the_known_ones(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "invoices")
    done = dlq("status --pipeline order", ends=Exit.ABSENT)
    assert done.output == (
        "Error: App deadletter has no pipeline 'order': it has invoices, orders.\n"
    )


def test_an_app_with_several_pipelines_needs_a_pipeline_name(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "invoices")
    dlq("doctor", ends=Exit.USAGE, refuses="add --pipeline and one of invoices, orders.")


def test_an_app_without_pipelines_says_so(cloud: Any, dlq: Any) -> None:
    cloud.deploy()
    assert "No pipeline is deployed yet." in dlq("status").stdout
    dlq("doctor", ends=Exit.ABSENT, refuses="has no pipeline yet")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dlq_url": None}, "dlq_url should be str"),
        ({"parking": ["a"]}, "parking should be Mapping[str, str]"),
        ({"fifo": "no"}, "fifo should be bool"),
    ],
)
def test_a_malformed_parameter_is_named(cloud: Any, change: dict[str, Any], says: str) -> None:
    cloud.deploy("orders")
    name = "/deadletter/pipelines/orders"
    cloud.redeploy(**change)
    with pytest.raises(Problem) as refused:
        find()
    assert f"{name} is not what this dlq expects ({says})" in refused.value.says


@pytest.mark.parametrize(
    ("value", "says"), [("{}", "is missing"), ("[1]", "not a JSON object"), ("{", "not a JSON")]
)
def test_a_parameter_that_lacks_a_key_is_named(cloud: Any, value: str, says: str) -> None:
    cloud.deploy("orders")
    cloud.parameter("/deadletter/app", value)
    with pytest.raises(Problem) as refused:
        find()
    assert says in refused.value.says
    assert refused.value.cause == Cause.ABSENT
