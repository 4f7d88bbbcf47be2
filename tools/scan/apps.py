"""The apps that are scanned: the one of cdk.json, and one that uses every other setting."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# As in app.py.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from infra.context import read
from infra.stacks import build

ROOT = Path(__file__).parents[2]

ACCOUNT = "111122223333"
REGION = "eu-west-1"

# Existing queues, an existing function and key, a FIFO pipeline, and an app that may be
# deleted with its data.
CUSTOM: Mapping[str, Any] = {
    "app": "custom",
    "ephemeral": True,
    "kms_key_arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "pipelines": [
        {
            "name": "theirs",
            "mode": "enforce",
            "main_queue": {"arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:their-main"},
            "dlq": {"arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:their-dlq"},
            "consumer": {
                "function_arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:their-consumer",
                "mapping_id": "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f",
            },
            "circuit_key": "context.tenantId",
            "circuit": {"health_url": "https://api.example/health"},
        },
        {"name": "events", "fifo": True, "consumer": "none", "dedicated": {"vip": False}},
        {"name": "hooks", "consumer": {"kind": "webhook"}},
    ],
}


def contexts() -> dict[str, dict[str, Any]]:
    """The context of each app that is scanned, by the app's name in the report."""
    default = json.loads((ROOT / "cdk.json").read_text())["context"]
    flags = {key: value for key, value in default.items() if key.startswith("@")}
    return {"default": default, "custom": {**flags, **CUSTOM}}


def synthesize(
    context: Mapping[str, Any],
    folder: Path,
    fill: Callable[[cdk.App], None] | None = None,
) -> None:
    """Write the templates of the app with this context into `folder`, and cdk-nag's report.

    `fill` puts other stacks into the app than its own. The functions' asset is not bundled:
    no scanner reads it.
    """
    app = cdk.App(outdir=str(folder), context={**context, "aws:cdk:bundling-stacks": []})
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    if fill is None:
        build(app, read(dict(context)))
    else:
        fill(app)
    try:
        app.synth()
    except RuntimeError as error:
        # cdk-nag writes its findings into its report, and also fails the synthesis.
        if "ValidationFailed" not in str(error):
            raise
