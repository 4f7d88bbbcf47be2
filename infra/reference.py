"""The settings as JSON schemas and as a page: `python -m infra.reference` writes all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .duration import written
from .keys import service_statements
from .refusal import NOTATION, allowed, resolved
from .settings import AppSettings

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "settings.md"
SCHEMA = DOCS / "settings.schema.json"
CDK_SCHEMA = DOCS / "cdk.schema.json"

DIALECT = "https://json-schema.org/draft/2020-12/schema"

INTRODUCTION = """\
# Settings

All settings are in the `context` of `cdk.json`, or are given to the CDK CLI as
`--context key=value` (lists and objects then as JSON). A wrong setting stops the
synthesis with one sentence. An editor completes and checks them by the schema that `$schema` in
`cdk.json` names; that of the context alone is [here](settings.schema.json).

Durations are seconds, or text such as `90s`, `15m`, `6h`, `4d`.
"""

KEY_POLICY = """\
## The policy of your key

With `kms_key_arn`, the roles of our functions may use the key, and no more than they need. Some AWS
services use it in their own name, so the key's own policy has to name them. A key that is made in
the same CDK app (`DeadletterApp(key=...)`) gets these statements by itself. To the policy of any
other key you add them, and `cdk synth` prints them with your account, region and app. Without the
first, alarms reach no one and no error is shown; without the last, the deployment fails. For a
pipeline `dlq doctor` reads the policy and says what it lacks; so does `dlq page --test`.

```json
STATEMENTS
```

The policy also has to allow access by IAM policies of your account, as the policy that AWS
suggests for a new key does.

## The keys of your queues

A queue of yours under a customer managed key: name the key beside its `arn` (`kms_key_arn`). In a
CDK app it comes with the queue, if the CDK knows it. SQS then uses it for our roles that receive
there (`kms:Decrypt`) or send there (`kms:GenerateDataKey` too), and no role can use it in another
way. A queue under `alias/aws/sqs`, or under none, needs nothing.

- The app needs a `kms_key_arn` too: what leaves the queue waits in its tables, its bucket and its
  parking lot. It may be the same key.
- A letter in the DLQ stays under the key of the main queue, because SQS does not encrypt anew what
  it moves. Name both. If the main queue's key is disabled, its letters cannot be read.
- The policy of the key has to let IAM policies of your account decide. `dlq doctor` says whether it
  does, and names each key of a queue that the pipeline does not know.
- People on call reach the first ten such keys by their ARNs, and each further one by its tag
  `deadletter:app`, whose value is the app's name.
- With a DLQ that queues outside the app share, their keys cannot be named: one such letter makes a
  receive fail. Such a queue needs a DLQ of its own.

## Functions in a VPC

With `vpc`, all functions of the app run in these subnets, and their roles may make network
interfaces there. The subnets need a way to the services below: endpoints with private DNS, or a NAT
gateway.

| endpoint | for |
|---|---|
| `sqs`, `dynamodb` and `s3` (gateways), `lambda`, `states`, `events` | every pipeline |
| `monitoring`, `ssm` | the watch, the first heartbeat, the rule checker, the consumer library |
| `secretsmanager`, and a NAT gateway to the endpoints | the webhook dispatcher |

Through `s3` a function also answers CloudFormation, in a bucket of AWS: an endpoint policy that
allows your buckets only makes the first deployment fail after five minutes. The security groups
need to let port 443 out, and nothing in.
"""

SECTIONS = (
    ("The app", "AppSettings"),
    ("`vpc`", "VpcSettings"),
    ("A pipeline: each of `pipelines`", "PipelineSettings"),
    ("`main_queue`", "MainQueue"),
    ("`dlq`", "DeadLetterQueue"),
    ("`dedicated`: each value", "DedicatedQueue"),
    ("`consumer` of kind `webhook`", "WebhookConsumer"),
    ("`consumer` of kind `function`", "FunctionConsumerSettings"),
    ("`consumer` of kind `none`", "NoConsumer"),
    ("`redrive`", "ScheduleSettings"),
    ("`drain`", "DrainSettings"),
    ("`circuit`", "CircuitSettings"),
    ("`retry`", "RetrySettings"),
    ("`policy`, and each value of `policies`", "PolicySettings"),
    ("`backoff` of a policy", "BackoffSettings"),
    ("`replay`", "ReplaySettings"),
    ("`alarms`", "AlarmsSettings"),
    ("`alarms.dlq_age`", "DlqAgeAlarm"),
    ("`alarms.letter_expiry`", "MessageExpiryAlarm"),
    ("`alarms.dlq_depth`", "DlqDepthAlarm"),
    ("`alarms.waiting_room`", "WaitingRoomAlarm"),
    ("`alarms.circuit_open`", "CircuitOpenAlarm"),
    ("`alarms.circuit_flapping`", "CircuitFlappingAlarm"),
    ("`alarms.open_circuits`", "OpenCircuitsAlarm"),
    ("`alarms.parked`", "ParkedAlarm"),
)


def schema() -> dict[str, Any]:
    """The JSON schema of the context of `cdk.json`."""
    described = AppSettings.model_json_schema()
    for model in _models(described):
        model["properties"] = {key: _public(node) for key, node in model["properties"].items()}
    # The CDK's own keys stand beside ours.
    described["patternProperties"] = {"[^A-Za-z0-9_]": True}
    return {"$schema": DIALECT, **described}


def cdk_schema() -> dict[str, Any]:
    """The JSON schema of `cdk.json` as a whole; the CDK has keys beside these."""
    return {
        "$schema": DIALECT,
        "title": "cdk.json",
        "type": "object",
        "required": ["app"],
        "properties": {
            "app": {"type": "string", "description": "the command that synthesizes the app"},
            "context": {"$ref": SCHEMA.name},
        },
    }


def page() -> str:
    """The page, in Markdown: a table for each object that can be set."""
    described = AppSettings.model_json_schema()
    models = {"AppSettings": described, **described["$defs"]}
    parts = [INTRODUCTION]
    for title, name in SECTIONS:
        model = models[name]
        parts += [f"## {title}\n", f"{model['description']}\n"]
        parts += ["| key | what | default | allowed |", "|---|---|---|---|"]
        for key, node in model["properties"].items():
            default = _default(node, key in model.get("required", ()))
            parts.append(
                f"| `{key}` | {node['description']} | {default} | {_allowed(described, node)} |"
            )
        parts.append("")
    statements = service_statements(
        AppSettings(), partition="aws", region="eu-west-1", account="111122223333"
    )
    parts.append(KEY_POLICY.replace("STATEMENTS", json.dumps(statements, indent=2)))
    return "\n".join(parts)


def write() -> None:
    """Write the files anew."""
    DOCS.mkdir(exist_ok=True)
    for file, content in ((SCHEMA, schema()), (CDK_SCHEMA, cdk_schema())):
        file.write_text(json.dumps(content, indent=2) + "\n")
    PAGE.write_text(page())


def _models(described: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield described
    yield from described["$defs"].values()


def _default(node: Mapping[str, Any], required: bool) -> str:
    if required:
        return "required"
    match node.get("default"):
        case None | list() | dict():
            return ""
        case int(seconds) if node.get("unit") == "seconds":
            return f"`{written(seconds)}`"
        case value:
            return f"`{json.dumps(value)}`"


def _allowed(described: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """What is allowed, in a cell of the table; an object of ours has a section of its own."""
    match resolved(described, node):
        case {"type": "object", "properties": _}:
            return "an object, see below"
        case {"type": "array", "items": {"$ref": _}}:
            return "a list of objects, see below"
        case {"type": "object", "patternProperties": _}:
            return "an object of objects, see below"
    return allowed(described, node).removesuffix(NOTATION)


def _public(node: Any) -> Any:
    """`node` in the words of JSON schema alone, with text allowed where a duration is."""
    if isinstance(node, list):
        return [_public(item) for item in node]
    if not isinstance(node, dict):
        return node
    public = {key: _public(value) for key, value in node.items() if key not in ("allowed", "unit")}
    # Which kind a consumer is may follow from its other keys, or it is just "none".
    if "discriminator" in public:
        kinds = public.pop("oneOf")
        del public["discriminator"]
        public["anyOf"] = [*kinds, {"const": "none"}]
    if node.get("unit") == "seconds":
        limits = {
            key: public.pop(key)
            for key in ("type", "minimum", "maximum", "multipleOf")
            if key in public
        }
        public["anyOf"] = [limits, {"type": "string", "pattern": "^[0-9]{1,9}[smhd]$"}]
    return public


if __name__ == "__main__":
    write()
