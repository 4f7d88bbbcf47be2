"""What each role may do: one table, and the templates equal it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name
from botocore.session import get_session

from tests.infra.conftest import ROOT
from tests.infra.templates import Stack, Synthesis, filled
from tools.commands_page import commands

# The tag remembers a pause for when the circuit's row is lost.
MAPPING = {
    *("lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping"),
    *("lambda:ListTags", "lambda:TagResource", "lambda:UntagResource"),
}
TAKE_ONE = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}

TABLE = Path(__file__).with_name("permissions.txt")

# Function -> what it reaches -> the actions it may take there.
GRANTED: dict[str, dict[str, set[str]]] = {}

# Function -> table -> the partitions it may touch there.
CONFINED: dict[str, dict[str, list[str]]] = {}


def in_full(actions: str) -> Iterator[str]:
    """Actions, each with its service."""
    service = ""
    for action in actions.split():
        service = action.partition(":")[0] if ":" in action else service
        yield action if ":" in action else f"{service}:{action}"


for row in TABLE.read_text().splitlines():
    if row.startswith("["):
        of = row.strip("[]")
        GRANTED[of], CONFINED[of] = {}, {}
    elif row and not row.startswith("#"):
        reached, actions, *partitions = row.split(" | ")
        for each in reached.split(", "):
            GRANTED[of][each] = set(in_full(actions))
            if partitions:
                CONFINED[of][each] = partitions[0].split()

# What the consumer library needs in a function of yours.
THEIR_CONSUMER: dict[str, set[str]] = {
    "parameters app": {"ssm:GetParameters"},
    "parameters pipelines/theirs": {"ssm:GetParameters"},
    # Receive and delete: for its event source mapping, or for a poller in a container.
    "arn:aws:sqs:eu-west-1:111122223333:their-main": {*TAKE_ONE, "sqs:GetQueueAttributes"},
    "queue theirs-parking": {"sqs:SendMessage", "sqs:GetQueueAttributes"},
    "table Messages": {
        *("dynamodb:BatchGetItem", "dynamodb:DeleteItem", "dynamodb:Query"),
        "dynamodb:UpdateItem",
    },
    "table Circuits": {"dynamodb:BatchGetItem", "dynamodb:UpdateItem"},
    "arn:aws:states:eu-west-1:111122223333:stateMachine:deadletter-theirs-circuit-breaker": {
        "states:StartExecution"
    },
}

SEE = {"registrations": {"ssm:GetParametersByPath"}}
LOOK_INTO = {"dead letters": {"sqs:ReceiveMessage", "sqs:ChangeMessageVisibility"}}
# One statement for both: a DLQ is also asked which queues it serves.
WEIGH = {"weighed queues": {"sqs:GetQueueAttributes", "sqs:ListDeadLetterSourceQueues"}}
LIST_RULES = {"table Rules": {"dynamodb:Scan"}}
# What the failure records say of a rule.
RECORDS = {
    **WEIGH,
    "main queues": {"sqs:GetQueueAttributes"},
    "table Messages": {"dynamodb:Query", "dynamodb:BatchGetItem"},
    "table Messages/index/causes": {"dynamodb:Query"},
    "table Messages/index/lanes": {"dynamodb:Query"},
}

SEE_CIRCUITS = {
    # Query: a mistyped key is answered with the known ones.
    "table Circuits": {"dynamodb:BatchGetItem", "dynamodb:Query"},
    "table Circuits/index/troubled": {"dynamodb:Query"},
}
HOLD_CIRCUIT = {
    "DlqReader": {**SEE, "table Circuits": {"dynamodb:BatchGetItem", "dynamodb:Query"}},
    # One that is UNREADABLE is put anew.
    "CircuitOperator": {"table Circuits": {"dynamodb:UpdateItem", "dynamodb:PutItem"}},
}

# Letters that wait: their stamps, lanes and times, and beside that the letters themselves.
FIGURES = {
    "table Messages": {"dynamodb:BatchGetItem"},
    "table Messages/index/lanes": {"dynamodb:Query"},
}
# Query: a FIFO group is read as its queue.
WAITING = {
    "table Messages": {"dynamodb:BatchGetItem", "dynamodb:Query"},
    "bucket messages/waiting/*": {"s3:GetObject"},
}
BODIES = {"BodyReader": {**WAITING, **LOOK_INTO}}
# Their figures, where the letters themselves are looked at.
PARKED = {**SEE, **FIGURES, **WEIGH}
# What a run would take: asked of the router, with the ledger, the lanes and the circuits.
COUNT = {
    **PARKED,
    "table Messages": {"dynamodb:BatchGetItem", "dynamodb:Query"},
    # A live DLQ is counted from the ledger.
    "table Messages/index/causes": {"dynamodb:Query"},
    "table Circuits": {"dynamodb:BatchGetItem"},
    "table Circuits/index/troubled": {"dynamodb:Query"},
    "routers": {"lambda:InvokeFunction"},
    "consumers": {"lambda:GetFunctionConfiguration"},
}
# 15 % of what the main queue usually has deleted.
PACE = {"*": {"cloudwatch:GetMetricStatistics"}}
FIND_RUN = {**SEE, "table Messages": {"dynamodb:BatchGetItem", "dynamodb:Query"}}
# By its manifest, which has no bodies. To list: without it S3 calls a missing object a refusal.
LETTERS_OF_RUN = {
    **FIND_RUN,
    "bucket messages/replay/*/*/manifest/*": {"s3:GetObject"},
    "bucket messages": {"s3:ListBucket"},
}
START_RUN = {
    "table Messages": {"dynamodb:PutItem", "dynamodb:BatchWriteItem"},
    "replay machines": {"states:StartExecution"},
}
STEER_RUN = {
    "DlqReader": FIND_RUN,
    "RunOperator": {"table Messages": {"dynamodb:UpdateItem"}},
}
# Whether the execution of a run was lost.
SEE_EXECUTIONS = {"replay machines": {"states:ListExecutions"}}
# The answer goes beside the token, and the execution that waits for it is woken: the run's item
# is its own to change.
DECIDE_RUN = {
    "DlqReader": FIND_RUN,
    "RunApprover": {
        "table Messages": {"dynamodb:BatchGetItem", "dynamodb:UpdateItem"},
        "replay machines": {"states:SendTaskSuccess"},
    },
}

# What it takes to see how things stand.
SEE_STATUS = {
    **SEE,
    **WEIGH,
    "main queues": {"sqs:GetQueueAttributes"},
    "table Messages": {"dynamodb:Query", "dynamodb:GetItem"},
    "table Messages/index/lanes": {"dynamodb:Query"},
    # Foreign rows in there.
    "table Messages/index/causes": {"dynamodb:Query"},
    "table Circuits": {"dynamodb:GetItem", "dynamodb:BatchGetItem"},
    "table Circuits/index/troubled": {"dynamodb:Query"},
    **SEE_EXECUTIONS,
    # Metrics know no resources, and a list of alarms is of all of them.
    "*": {"cloudwatch:GetMetricData", "cloudwatch:DescribeAlarms"},
}

# Whether CloudWatch may use the key of the alarms' topic.
SEE_PAGER = {
    "topic alarms": {"sns:GetTopicAttributes"},
    "key of the topic": {"kms:DescribeKey", "kms:GetKeyPolicy"},
}

# Command -> policy -> what it reaches -> the actions it takes there.
COMMANDS: dict[str, dict[str, dict[str, set[str]]]] = {
    # Rules and all circuits with --flow.
    "dlq status": {
        "DlqReader": {
            **SEE_STATUS,
            **LIST_RULES,
            "table Circuits": {*SEE_STATUS["table Circuits"], *SEE_CIRCUITS["table Circuits"]},
        }
    },
    # Where CloudWatch knows mute rules; who only asks takes DlqReader alone.
    "dlq mute": {
        "DlqReader": {
            **SEE,
            "*": {"cloudwatch:DescribeAlarms", "cloudwatch:GetAlarmMuteRule"},
        },
        "CircuitOperator": {
            "mute rules": {"cloudwatch:PutAlarmMuteRule", "cloudwatch:DeleteAlarmMuteRule"},
            "alarms": {"cloudwatch:PutAlarmMuteRule"},
        },
    },
    # It judges as the router does, from what the router reads; empty queues hold no letter. Of a
    # waiting letter the rules see the body: without that the failure record has to do.
    "dlq show": {
        "DlqReader": {
            **LETTERS_OF_RUN,
            "bucket messages/replay/*/*/report.json": {"s3:GetObject"},
            **SEE_EXECUTIONS,
            **WEIGH,
            "main queues": {"sqs:GetQueueAttributes"},
            "table Messages/index/lanes": {"dynamodb:Query"},
            # Of a cause.
            "table Messages/index/causes": {"dynamodb:Query"},
            # Of endpoints too, where the ledger does not name them as they are.
            **SEE_CIRCUITS,
            # All of them, where a rule is shown.
            "table Rules": {"dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:Scan"},
            "table Audit/index/changes": {"dynamodb:Query"},
            # With --look, and with --logs.
            "routers": {"lambda:InvokeFunction"},
            "consumers": {"lambda:GetFunctionConfiguration"},
            "logs of consumers": {"logs:StartQuery"},
            "*": {"cloudwatch:DescribeAlarms", "logs:GetQueryResults", "logs:StopQuery"},
        },
        "BodyReader": {
            **BODIES["BodyReader"],
            "bucket messages/replay/*/*/discarded/*": {"s3:GetObject"},
        },
    },
    "dlq groups": {
        "DlqReader": {
            **SEE,
            **RECORDS,
            "table Circuits": {"dynamodb:BatchGetItem"},
        },
        # Other places than the index are read as by `dlq list`.
        "BodyReader": {**WAITING, **LOOK_INTO},
    },
    # It comes before anything is deployed: see OF_THE_ACCOUNT.
    "dlq init": {},
    # Each of its screens takes what its verb takes.
    "dlq ui": {},
    # A queue by its name needs credentials of your own: see OF_THE_ACCOUNT. With --removal it reads
    # the status, and it publishes with --send-page alone.
    "dlq doctor": {
        "DlqReader": {
            **SEE_STATUS,
            "main queues": {"sqs:GetQueueAttributes"},
            "weighed queues": {"sqs:GetQueueAttributes", "sqs:ListDeadLetterSourceQueues"},
            # The dispatcher is our own: synth has checked it.
            "consumers": {"lambda:GetFunctionConfiguration"},
            # Whether boto3 has to make all calls of one of ours.
            "functions": {"lambda:GetFunctionConfiguration"},
            **SEE_PAGER,
            # Whether a circuit has paused a mapping.
            "table Circuits": {*SEE_STATUS["table Circuits"], *SEE_CIRCUITS["table Circuits"]},
            "table Circuits/index/troubled": {"dynamodb:Query"},
            # Whether a circuit has paused a mapping, and the age of a deep DLQ's oldest message.
            "*": {
                *("lambda:ListEventSourceMappings", "lambda:ListTags"),
                "cloudwatch:DescribeAlarms",
                "cloudwatch:GetMetricData",
            },
        },
        "CircuitOperator": {
            "topic alarms": {"sns:Publish", "sns:ListSubscriptionsByTopic"},
            # SNS uses it for who publishes.
            "key of the topic": {"kms:Decrypt", "kms:GenerateDataKey"},
        },
    },
    # To receive with --look, and to read what waits; a queue of yours needs credentials of yours.
    "dlq list": {
        "DlqReader": {
            **PARKED,
            **LETTERS_OF_RUN,
            "table Messages/index/causes": {"dynamodb:Query"},
            "main queues": {"sqs:GetQueueAttributes"},
        },
        "BodyReader": {
            **WAITING,
            **LOOK_INTO,
            "bucket messages/replay/*/*/discarded/*": {"s3:GetObject"},
        },
    },
    # From DLQs and the parked by runs, which it edits and watches; what waits, and an automatic
    # run, by the redriver's function.
    "dlq retry": {
        "DlqReader": {
            **COUNT,
            **PACE,
            **LETTERS_OF_RUN,
            **SEE_EXECUTIONS,
            "table Messages/index/lanes": {"dynamodb:Query"},
            "table Rules": {"dynamodb:Scan"},
        },
        **BODIES,
        "CircuitOperator": {
            "redrivers": {"lambda:InvokeFunction"},
            "table Circuits": {"dynamodb:UpdateItem"},
        },
        "RunOperator": {
            **START_RUN,
            "table Messages": {*START_RUN["table Messages"], "dynamodb:UpdateItem"},
            "bucket messages/replay/*/*/edits/*": {"s3:PutObject"},
            "redrivers": {"lambda:InvokeFunction"},
        },
    },
    "dlq discard": {
        "DlqReader": {**COUNT, **SEE_EXECUTIONS},
        "BodyReader": {**WAITING, **LOOK_INTO},
        "DiscardOperator": START_RUN,
    },
    # By the copies, of which the router is asked.
    "dlq restore": {
        "DlqReader": {
            **FIND_RUN,
            **SEE_EXECUTIONS,
            "table Messages/index/lanes": {"dynamodb:Query"},
            "bucket messages": {"s3:ListBucket"},
            "routers": {"lambda:InvokeFunction"},
        },
        "BodyReader": {"bucket messages/replay/*/*/discarded/*": {"s3:GetObject"}},
        "DiscardOperator": START_RUN,
    },
    # It says how long copies hold what a run erases.
    "dlq forget": {
        "DlqReader": {
            **SEE,
            **SEE_EXECUTIONS,
            "table Messages": {"dynamodb:BatchGetItem", "dynamodb:Query"},
            "table Messages/index/lanes": {"dynamodb:Query"},
        },
        **BODIES,
        "DiscardOperator": {
            **START_RUN,
            "table Messages": {*START_RUN["table Messages"], "dynamodb:DescribeContinuousBackups"},
            "bucket messages": {"s3:GetBucketVersioning"},
        },
    },
    # Bodies: of a live DLQ with --look, of other sources always.
    "dlq run list": {"DlqReader": {**SEE, "table Messages": {"dynamodb:Query"}, **SEE_EXECUTIONS}},
    "dlq run hold": STEER_RUN,
    # A held plan is refused if its consumer was changed since, or a circuit is open.
    "dlq run resume": {
        **STEER_RUN,
        "DlqReader": {
            **FIND_RUN,
            "table Circuits": {"dynamodb:BatchGetItem"},
            "table Circuits/index/troubled": {"dynamodb:Query"},
            "consumers": {"lambda:GetFunctionConfiguration"},
        },
    },
    "dlq run abort": STEER_RUN,
    "dlq run approve": DECIDE_RUN,
    "dlq run reject": DECIDE_RUN,
    "dlq audit": {"DlqReader": {**SEE, "table Audit/index/changes": {"dynamodb:Query"}}},
    "dlq circuit list": {"DlqReader": {**SEE, **SEE_CIRCUITS}},
    "dlq circuit open": HOLD_CIRCUIT,
    "dlq circuit close": HOLD_CIRCUIT,
    "dlq circuit release": HOLD_CIRCUIT,
    "dlq endpoint list": {"DlqReader": {**SEE, "table Endpoints": {"dynamodb:Scan"}}},
    "dlq endpoint add": {
        "DlqReader": {**SEE, "table Endpoints": {"dynamodb:GetItem"}},
        "EndpointEditor": {
            "table Endpoints": {"dynamodb:PutItem", "dynamodb:UpdateItem"},
            # With --post, signed: by the dispatcher's own code.
            "secrets webhooks/*": {"secretsmanager:GetSecretValue"},
        },
    },
    "dlq endpoint disable": {
        "DlqReader": {**SEE, "table Endpoints": {"dynamodb:GetItem"}},
        "EndpointEditor": {"table Endpoints": {"dynamodb:UpdateItem"}},
    },
    "dlq rules list": {
        "DlqReader": {**SEE, **LIST_RULES, "table Messages": {"dynamodb:Query"}},
    },
    # With --look it is tried on messages of the DLQs, on the parked, and on those that wait.
    "dlq rules test": {
        "DlqReader": {**SEE, **RECORDS, "table Rules": {"dynamodb:Query"}},
        **BODIES,
    },
    "dlq help": {},
    "dlq rules add": {
        "DlqReader": {**SEE, **LIST_RULES, **RECORDS},
        "RuleEditor": {"table Rules": {"dynamodb:PutItem"}},
    },
    "dlq rules disable": {
        "DlqReader": {**SEE, "table Rules": {"dynamodb:Query"}},
        "RuleEditor": {"table Rules": {"dynamodb:UpdateItem"}},
    },
    "dlq rules undo": {
        "DlqReader": {
            **SEE,
            "table Rules": {"dynamodb:Query"},
            "table Audit/index/changes": {"dynamodb:Query"},
        },
        "RuleEditor": {"table Rules": {"dynamodb:PutItem", "dynamodb:DeleteItem"}},
    },
    "dlq rules remove": {
        "DlqReader": {**SEE, "table Rules": {"dynamodb:Query"}},
        "RuleEditor": {"table Rules": {"dynamodb:DeleteItem"}},
    },
    "dlq rules apply": {
        "DlqReader": {**SEE, **LIST_RULES},
        "RuleEditor": {"table Rules": {"dynamodb:PutItem", "dynamodb:DeleteItem"}},
    },
}

# Policies that change nothing.
LOOKS = {"DlqReader", "BodyReader"}

# Who may change something records it first.
COMMANDS = {
    command: {
        policy: reached if policy in LOOKS else {**reached, "table Audit": {"dynamodb:PutItem"}}
        for policy, reached in policies.items()
    }
    for command, policies in COMMANDS.items()
}

# Asked where nothing of ours is deployed, or about the whole account: by credentials of your own.
# To list functions shows the environment of all of them.
OF_THE_ACCOUNT = {
    *("lambda:ListFunctions", "lambda:ListFunctionEventInvokeConfigs"),
    *("sns:ListSubscriptions", "sns:GetSubscriptionAttributes"),
    *("events:ListRules", "events:ListTargetsByRule"),
    *("sqs:GetQueueUrl", "sqs:ListQueues"),
    # Before a first deployment.
    *("ec2:DescribeRouteTables", "ec2:DescribeSubnets", "ec2:DescribeVpcEndpoints"),
    *("iam:GetAccountSummary", "iam:SimulatePrincipalPolicy", "lambda:GetAccountSettings"),
    *("ssm:GetParameters", "states:ListStateMachines"),
}

# What the words of COMMANDS stand for, where it is more than one thing.
REACHED = {
    "registrations": {"parameters ", "parameters *"},
    "main queues": {"every queue of ours", "arn:aws:sqs:eu-west-1:111122223333:their-main"},
    "weighed queues": {
        *("every queue of ours", "arn:aws:sqs:eu-west-1:111122223333:their-main"),
        *("arn:aws:sqs:eu-west-1:111122223333:their-dlq", "queues with the tag"),
    },
    "dead letters": {
        *("every queue dlq", "every queue dlq.fifo", "every queue dlq_*"),
        *("every queue parking", "every queue parking.fifo", "every queue parking_*"),
        *("arn:aws:sqs:eu-west-1:111122223333:their-dlq", "queues with the tag"),
    },
    "routers": {"every function route"},
    "functions": {"every function"},
    "dispatchers": {"every function consumer"},
    "consumers": {
        "arn:aws:lambda:eu-west-1:111122223333:function:their-consumer",
        "functions with the tag",
    },
    "logs of consumers": {
        *("lines of every consumer", "lines of their-consumer", "log groups with the tag"),
    },
    "replay machines": {"every machine replay"},
    "redrivers": {"every function redrive"},
}

# IAM puts the caller in: no one records a change in the name of another person.
OWN_CHANGES = ["#by#${aws:userid}"]

# Managed policies -> table -> the partitions that they keep to.
LETTERS_THEMSELVES = ["*#message#*", "*#group#*"]
PEOPLE: dict[str, dict[str, list[str]]] = {
    "DlqReader": {
        "table Messages": [
            *(
                "*#ledger#*",
                "*#line#*",
                "*#matches",
                "*#lease",
                "*#observed",
                "*#book",
                "*#lanes",
                "*#runs",
            ),
            *("*#run#*#plan", "*#run#*#discard", "*#run#*#status", "*#run#*#?", "*#run#*#1?"),
            # These without their bodies.
            *LETTERS_THEMSELVES,
            # Whether a message was processed, without the hashes of it.
            "*#done#*",
        ],
    },
    "BodyReader": {"table Messages": LETTERS_THEMSELVES},
    "RuleEditor": {"table Audit": OWN_CHANGES},
    "CircuitOperator": {"table Audit": OWN_CHANGES},
    "EndpointEditor": {"table Audit": OWN_CHANGES},
    # Runs and their plans.
    "RunOperator": {"table Audit": OWN_CHANGES, "table Messages": ["*#runs", "*#run#*#plan"]},
    "RunApprover": {
        "table Audit": OWN_CHANGES,
        "table Messages": ["*#run#*#approval"],
    },
    "DiscardOperator": {
        "table Audit": OWN_CHANGES,
        "table Messages": ["*#runs", "*#run#*#discard"],
    },
}

# Policies -> the attributes of waiting letters that they may name; nothing in them is of a letter.
NAMED = {
    "DlqReader": {"pk", "sk", "copy", "home", "stamp", "lane", "due", "because"},
}

# Whatever is not listed here is in the stack of its pipeline.
SHARED = {"check-rules", "first-heartbeat", "starter"}

# Functions that have one role: it may do what any of them takes, and none takes a thing that the
# other could not be trusted with.
SHARING = ({"redrive", "replay"}, {"watch", "circuit"})

NOUNS = (
    (r"arn:aws:sqs:eu-west-1:111122223333:\*", "queues with the tag"),
    (r"arn:aws:lambda:eu-west-1:111122223333:function:\*", "functions with the tag"),
    (r"arn:aws:logs:eu-west-1:111122223333:log-group:\*", "log groups with the tag"),
    (r"arn:aws:sqs:eu-west-1:111122223333:deadletter-\*-([\w.*]+)", r"every queue \1"),
    (r"arn:aws:lambda:eu-west-1:111122223333:function:deadletter-\*-(\w+)", r"every function \1"),
    (r"arn:aws:lambda:eu-west-1:111122223333:function:deadletter-\*-\*", r"every function"),
    (
        r"arn:aws:states:eu-west-1:111122223333:stateMachine:deadletter-\*-(\w+)",
        r"every machine \1",
    ),
    (
        r"arn:aws:logs:eu-west-1:111122223333:log-group:/aws/lambda/deadletter-\*-consumer:\*",
        "lines of every consumer",
    ),
    (r"arn:aws:sqs:eu-west-1:111122223333:deadletter-\*", "every queue of ours"),
    (r"arn:aws:sqs:eu-west-1:111122223333:deadletter-orders-(\w+)", r"queue \1"),
    (r"arn:aws:lambda:eu-west-1:111122223333:function:deadletter-orders-(\w+)", r"function \1"),
    (r"arn:aws:sqs:eu-west-1:111122223333:deadletter-([\w.-]+)", r"queue \1"),
    (r"arn:aws:lambda:eu-west-1:111122223333:function:deadletter-([\w-]+)", r"function \1"),
    (r"arn:aws:secretsmanager:eu-west-1:111122223333:secret:deadletter/(.*)", r"secrets \1"),
    (r"arn:aws:s3:::deadletter-messages-111122223333-eu-west-1/(.*)", r"bucket messages/\1"),
    *(
        (
            rf"arn:aws:dynamodb:eu-west-1:111122223333:table/deadletter-{name.lower()}(.*)",
            rf"table {name}\1",
        )
        for name in ("Messages", "Rules", "Audit", "Circuits", "Endpoints")
    ),
    (r"<Storage(Rules|Endpoints)[0-9A-F]{8}\.StreamArn>", r"stream of \1"),
    (r"arn:aws:cloudwatch:eu-west-1:111122223333:alarm:deadletter-\*", "alarms"),
    (
        r"arn:aws:cloudwatch:eu-west-1:111122223333:alarm-mute-rule:deadletter-\*-mute",
        "mute rules",
    ),
    (r"arn:aws:sns:eu-west-1:111122223333:deadletter-(\w+)", r"topic \1"),
    (r"<PagerKey[0-9A-F]{8}\.Arn>", "key of the topic"),
    (r"arn:aws:ssm:eu-west-1:111122223333:parameter/deadletter/?(.*)", r"parameters \1"),
    (r"arn:aws:events:eu-west-1:111122223333:event-bus/(\w+)", r"bus \1"),
    (
        r"arn:aws:states:eu-west-1:111122223333:stateMachine:deadletter-orders-circuit-breaker",
        "circuit breaker",
    ),
    (
        r"arn:aws:states:eu-west-1:111122223333:stateMachine:deadletter-orders-replay",
        "replay machine",
    ),
    (
        r"arn:aws:states:eu-west-1:111122223333:stateMachine:deadletter-([\w-]+-replay)",
        r"machine \1",
    ),
    (
        r"arn:aws:states:eu-west-1:111122223333:execution:deadletter-\*-replay:\*",
        "children of every replay machine",
    ),
    (r"arn:aws:s3:::deadletter-messages-111122223333-eu-west-1", "bucket messages"),
    (
        r"arn:aws:lambda:eu-west-1:111122223333:event-source-mapping:"
        r"<PipelineDispatcherMapping[0-9A-F]{8}>",
        "mapping of the consumer",
    ),
    (r"<RuleCheckFailures[0-9A-F]{8}\.Arn>", "queue of failures"),
    (r"<RuleCheckLogs[0-9A-F]{8}\.Arn>", "logs check-rules"),
    (r"<FirstHeartbeatsFunctionLogs[0-9A-F]{8}\.Arn>", "logs first-heartbeat"),
    (r"<PipelineRedriver\w+Function[0-9A-F]{8}.Arn>", "function redrive"),
    (r"<PipelineRedriver\w+Logs[0-9A-F]{8}.Arn>", "logs redrive"),
    (r"<PipelineReplayFunction[0-9A-F]{8}.Arn>", "function replay"),
    (r"<PipelineReplayLogs[0-9A-F]{8}.Arn>", "logs replay"),
    (r"<PipelineReplay\w+Function[0-9A-F]{8}.Arn>", "function replay"),
    (r"<PipelineReplay\w+Logs[0-9A-F]{8}.Arn>", "logs replay"),
    (r"<PipelineWatchFunction[0-9A-F]{8}.Arn>", "function watch"),
    (r"<PipelineWatchLogs[0-9A-F]{8}.Arn>", "logs watch"),
    (r"<PipelineRouter\w+Logs[0-9A-F]{8}.Arn>", "logs route"),
    (r"<PipelineDispatcher\w+Logs[0-9A-F]{8}.Arn>", "logs consumer"),
    (r"<PipelineCircuitBreakerCircuitFunction[0-9A-F]{8}.Arn>", "function circuit"),
    (r"<PipelineCircuitBreakerProbeFunction[0-9A-F]{8}.Arn>", "function probe"),
    (r"<PipelineCircuitBreakerCircuitLogs[0-9A-F]{8}.Arn>", "logs circuit"),
    (r"<PipelineCircuitBreakerProbeLogs[0-9A-F]{8}.Arn>", "logs probe"),
    (
        r"arn:aws:logs:eu-west-1:111122223333:log-group:/aws/lambda/(?:deadletter-)?([\w-]+):\*",
        r"lines of \1",
    ),
    (r"\*", "*"),
)


def noun(arn: str) -> str:
    """What `arn` names, in the words of the table; the ARN itself if that is nothing of ours."""
    for pattern, replacement in NOUNS:
        if re.fullmatch(pattern, arn):
            return re.sub(pattern, replacement, arn, count=1)
    return arn


def statements(role: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        statement
        for policy in role["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def granted(said: list[dict[str, Any]]) -> dict[str, set[str]]:
    """What statements allow, in the shape of the table."""
    found: dict[str, set[str]] = {}
    for statement in said:
        assert statement["Effect"] == "Allow"
        for resource in listed(statement["Resource"]):
            found.setdefault(noun(filled(resource)), set()).update(listed(statement["Action"]))
    return found


def confined(said: list[dict[str, Any]]) -> dict[str, list[str]]:
    """To which partitions statements keep, by table."""
    found: dict[str, list[str]] = {}
    for statement in said:
        for partitions in statement.get("Condition", {}).values():
            if "dynamodb:LeadingKeys" in partitions:
                for resource in listed(statement["Resource"]):
                    keys = found.setdefault(noun(filled(resource)), [])
                    named = partitions["dynamodb:LeadingKeys"]
                    keys += [key for key in named if key not in keys]
    return found


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def managed(synthesis: Synthesis) -> dict[str, list[dict[str, Any]]]:
    """The statements of each managed policy and of those that it goes on in."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, said in managed_policies(synthesis).items():
        found.setdefault(name.rstrip("2"), []).extend(said)
    return found


def managed_policies(synthesis: Synthesis) -> dict[str, list[dict[str, Any]]]:
    """The statements of each managed policy, by what a parameter or an output calls it: the names
    of consumers' policies are generated.
    """
    found = {}
    for stack in synthesis.stacks.values():
        told = {
            parameter["Properties"]["Value"]["Ref"]: parameter["Properties"]["Name"]
            for parameter in stack.of("AWS::SSM::Parameter").values()
            if "/policies/" in parameter["Properties"]["Name"]
        }
        printed = {
            output["Value"]["Ref"]: name.removesuffix("PolicyArn")
            for name, output in stack.template.get("Outputs", {}).items()
            if name.endswith("PolicyArn")
        }
        for key, policy in stack.of("AWS::IAM::ManagedPolicy").items():
            if key in told:
                name = told[key].partition("/policies/")[2].replace("/", "-")
            else:
                name = printed[key]
            found[name] = policy["Properties"]["PolicyDocument"]["Statement"]
    return found


def needed(policy: str) -> dict[str, set[str]]:
    """What the commands need that `policy` is for."""
    found: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for what, actions in command.get(policy, {}).items():
            for item in REACHED.get(what, {what}):
                found.setdefault(item, set()).update(actions)
    return found


def sharing(function: str) -> set[str]:
    """The functions that have the role of this one."""
    return next((functions for functions in SHARING if function in functions), {function})


def role_of(stack: Stack, function: str) -> dict[str, Any]:
    if function == "starter":
        [role] = [
            role
            for role in stack.of("AWS::IAM::Role").values()
            if filled(role["Properties"].get("RoleName")) == "deadletter-starter-eu-west-1"
        ]
        return role
    owner = "deadletter" if function in SHARED else "deadletter-orders"
    made = stack.named("AWS::Lambda::Function", "FunctionName", f"{owner}-{function}")
    return stack.resources[made["Role"]["Fn::GetAtt"][0]]


@pytest.mark.parametrize("function", GRANTED)
def test_a_role_may_do_what_the_table_says_and_nothing_else(app: Synthesis, function: str) -> None:
    stack = "Deadletter-Shared" if function in SHARED else "Deadletter-Orders"
    said = statements(role_of(app[stack], function))
    together: dict[str, set[str]] = {}
    kept: dict[str, set[str]] = {}
    for each in sharing(function):
        for reached, actions in GRANTED[each].items():
            together.setdefault(reached, set()).update(actions)
        for table, partitions in CONFINED[each].items():
            kept.setdefault(table, set()).update(partitions)
    assert granted(said) == together
    assert {table: set(keys) for table, keys in confined(said).items()} == kept
    # IAM's limit for what stands in a role, and each statement has an id of its own.
    assert len(json.dumps(filled(said), separators=(",", ":"))) < 10_240
    assert len({statement["Sid"] for statement in said}) == len(said)


def test_no_pattern_stands_for_the_rules_of_all_pipelines(app: Synthesis) -> None:
    [rules] = [
        statement
        for statement in statements(role_of(app["Deadletter-Orders"], "route"))
        if statement["Sid"] == "Rules"
    ]
    assert list(rules["Condition"]) == ["ForAllValues:StringEquals"]


def test_a_consumer_of_yours_may_do_what_the_library_does_and_nothing_else(app: Synthesis) -> None:
    said = managed(app)["theirs-consumer"]
    assert granted(said) == THEIR_CONSUMER
    assert confined(said) == {
        "table Messages": ["theirs#ledger#*", "theirs#done#*", "theirs#line#*"],
        "table Circuits": ["theirs"],
    }
    assert "TheirsConsumerPolicyArn" in app["Deadletter-Theirs"].outputs


@pytest.mark.parametrize("policy", PEOPLE)
def test_people_on_call_may_do_what_the_commands_take_and_nothing_else(
    app: Synthesis, policy: str
) -> None:
    assert granted(managed(app)[policy]) == needed(policy)
    assert confined(managed(app)[policy]) == PEOPLE[policy]
    assert f"{policy}PolicyArn" in app["Deadletter-Shared"].outputs


@pytest.mark.parametrize("policy", PEOPLE)
def test_of_waiting_letters_people_name_the_attributes_that_hold_no_letter(
    app: Synthesis, policy: str
) -> None:
    for statement in managed(app)[policy]:
        keys = confined([statement]).get("table Messages", [])
        if not set(keys) & set(LETTERS_THEMSELVES):
            continue
        condition = statement["Condition"]
        if policy not in NAMED:
            assert (policy, list(condition)) == ("BodyReader", ["ForAllValues:StringLike"])
            continue
        named = condition["ForAllValues:StringEquals"]["dynamodb:Attributes"]
        assert set(named) == NAMED[policy]
        assert "message" not in named
        if policy == "DlqReader":
            # Who names none would be shown all.
            assert listed(statement["Action"]) == ["dynamodb:BatchGetItem"]
            assert condition["StringEquals"] == {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}


def test_only_two_tables_without_letters_may_be_scanned(app: Synthesis) -> None:
    """A scan names no partition: no condition keeps it from the bodies."""
    scanned = {
        reached
        for policy in PEOPLE
        for reached, actions in granted(managed(app)[policy]).items()
        if "dynamodb:Scan" in actions
    }
    assert scanned == {"table Rules", "table Endpoints"}


def test_what_one_policy_is_for_no_other_one_allows() -> None:
    """Who runs replays can't approve them and can't throw letters away; who looks sees no body."""
    sole = {
        "sqs:ReceiveMessage": {"BodyReader"},
        "secretsmanager:GetSecretValue": {"EndpointEditor"},
        "states:SendTaskSuccess": {"RunApprover"},
        "states:StartExecution": {"RunOperator", "DiscardOperator"},
    }
    for action, policies_with_it in sole.items():
        assert {
            policy for policy in PEOPLE if action in set().union(*needed(policy).values())
        } == policies_with_it, action
    for part, allowed in (("approval", "RunApprover"), ("discard", "DiscardOperator")):
        partition = f"orders#run#0123456789abcdef#{part}"
        writers = {
            policy
            for policy in PEOPLE.keys() - LOOKS
            for pattern in PEOPLE[policy].get("table Messages", ())
            if fnmatchcase(partition, pattern)
        }
        assert writers == {allowed}


def test_every_command_is_in_the_table() -> None:
    assert COMMANDS.keys() == commands().keys()


def test_the_command_line_calls_nothing_that_is_not_in_the_table() -> None:
    session, actions = get_session(), {}
    for service, prefix in (
        *(("sqs", "sqs"), ("dynamodb", "dynamodb"), ("ssm", "ssm"), ("lambda", "lambda")),
        *(("cloudwatch", "cloudwatch"), ("stepfunctions", "states"), ("events", "events")),
        *(("secretsmanager", "secretsmanager"), ("s3", "s3"), ("iam", "iam"), ("logs", "logs")),
        *(("sns", "sns"), ("kms", "kms"), ("ec2", "ec2")),
    ):
        for operation in session.get_service_model(service).operation_names:
            # IAM knows the batches of SQS by the single call, and one of Lambda by another name.
            known = {"Invoke": "InvokeFunction"}.get(operation, operation)
            known = known.removesuffix("Batch") if service == "sqs" else known
            actions[xform_name(operation)] = f"{prefix}:{known}"
    called = set()
    for file in (ROOT / "console").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Attribute(attr=str(name)) | ast.Constant(value=str(name)):
                    called |= {actions[name]} if name in actions else set()
    # That of click's is another.
    called.discard("ssm:ListCommands")
    in_the_table = {
        action
        for command in COMMANDS.values()
        for policy in command.values()
        for taken in policy.values()
        for action in taken
    }
    # What only the library calls, on the command line's behalf.
    by_the_library = {
        *("dynamodb:BatchGetItem", "dynamodb:BatchWriteItem", "dynamodb:GetItem"),
        *("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"),
        *("s3:GetObject", "s3:PutObject", "s3:ListBucket"),
        *("secretsmanager:GetSecretValue", "states:StartExecution", "states:ListExecutions"),
    }
    # What SNS takes of who publishes to an encrypted topic.
    by_aws = {"kms:Decrypt", "kms:GenerateDataKey"}
    assert in_the_table - called == by_the_library | by_aws
    assert called - in_the_table == OF_THE_ACCOUNT


def test_there_is_no_role_beside_those_of_the_table(app: Synthesis) -> None:
    roles = {name: len(stack.of("AWS::IAM::Role")) for name, stack in app.stacks.items()}
    functions = GRANTED.keys() - SHARED
    assert roles["Deadletter-Orders"] == len({frozenset(sharing(each)) for each in functions}) == 5
    assert roles["Deadletter-Theirs"] == 4
    assert roles["Deadletter-Shared"] == len(SHARED)
    assert {number for name, number in roles.items() if name.endswith("-Queues")} == {0}


def test_schedules_and_state_machines_of_all_pipelines_have_one_role(app: Synthesis) -> None:
    starter = "arn:aws:iam::111122223333:role/deadletter-starter-eu-west-1"
    schedules = [each["Properties"] for _, each in app.of("AWS::Scheduler::Schedule")]
    machines = [each["Properties"] for _, each in app.of("AWS::StepFunctions::StateMachine")]
    assert len(schedules) > 4 < len(machines)
    assert {filled(schedule["Target"]["RoleArn"]) for schedule in schedules} == {starter}
    assert {filled(machine["RoleArn"]) for machine in machines} == {starter}


def test_no_permission_comes_from_anywhere_but_the_role_itself(app: Synthesis) -> None:
    for kind in ("AWS::IAM::Policy", "AWS::Lambda::Permission"):
        assert list(app.of(kind)) == []
    for key, role in app.of("AWS::IAM::Role"):
        assert "ManagedPolicyArns" not in role["Properties"], key


def test_managed_policies_are_for_people_and_for_consumers_of_yours_and_wait_to_be_attached(
    app: Synthesis,
) -> None:
    assert set(managed(app)) == {
        *PEOPLE,
        *("order-events-consumer", "theirs-consumer", "watched-consumer"),
    }
    for key, policy in app.of("AWS::IAM::ManagedPolicy"):
        assert not policy["Properties"].keys() & {"Roles", "Users", "Groups"}, key


def test_no_policy_is_larger_than_iam_takes(app: Synthesis, thirty: Synthesis) -> None:
    for synthesis in (app, thirty):
        found = managed_policies(synthesis)
        for name, said in found.items():
            size = len(json.dumps(filled(said), separators=(",", ":")))
            assert size < 6144 - len('{"Version":"2012-10-17","Statement":}'), name
        people = [name for name in found if name.rstrip("2") in PEOPLE]
        assert len(people) <= len(PEOPLE) + 1, "a role takes ten policies"


def policies(value: Any) -> Iterator[dict[str, Any]]:
    """Every statement anywhere in a template: of roles, managed policies, queues, topic, bucket."""
    match value:
        case {"Effect": _, "Action": _}:
            yield value
        case dict():
            for item in value.values():
                yield from policies(item)
        case list():
            for item in value:
                yield from policies(item)


def test_no_role_may_purge_a_queue(app: Synthesis, sandboxed: Synthesis, thirty: Synthesis) -> None:
    for synthesis in (app, sandboxed, thirty):
        for stack in synthesis.stacks.values():
            said = list(policies(stack.resources))
            allowed = [
                action.lower()
                for statement in said
                if statement["Effect"] == "Allow"
                for action in listed(statement["Action"])
            ]
            assert not [action for action in allowed if fnmatchcase("sqs:purgequeue", action)], (
                stack.name
            )
            assert not [statement for statement in said if "NotAction" in statement], stack.name


def test_no_action_is_a_wildcard(app: Synthesis, sandboxed: Synthesis) -> None:
    for synthesis in (app, sandboxed):
        for stack in synthesis.stacks.values():
            for document in policies(stack.resources):
                if document["Effect"] == "Allow":
                    assert "*" not in "".join(listed(document["Action"])), stack.name


def test_people_on_call_can_neither_send_nor_delete_a_message() -> None:
    for policy in PEOPLE:
        actions = set().union(*needed(policy).values())
        assert not actions & {"sqs:SendMessage", "sqs:DeleteMessage", "s3:DeleteObject"}, policy


def test_the_router_can_move_nothing() -> None:
    actions = set().union(*GRANTED["route"].values())
    assert {action for action in actions if action.startswith(("sqs:", "s3:", "lambda:"))} == set()
    assert {
        action
        for action in actions
        if re.search("Put(?!Trace|Telemetry|Log)|Update|Delete", action)
    } == set()


def test_a_role_is_taken_on_by_its_service_only(app: Synthesis) -> None:
    for key, role in app.of("AWS::IAM::Role"):
        trusts = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        services = [trust["Principal"]["Service"] for trust in trusts]
        if "RoleName" not in role["Properties"]:
            assert services == ["lambda.amazonaws.com"], key
            continue
        assert services == ["scheduler.amazonaws.com", "states.amazonaws.com"]
        for trust in trusts:
            account = trust["Condition"]["StringEquals"]["aws:SourceAccount"]
            assert filled(account) == "111122223333"


def test_a_pipeline_of_existing_queues_reaches_those_and_no_others(app: Synthesis) -> None:
    stack = app["Deadletter-Theirs"]
    made = stack.named("AWS::Lambda::Function", "FunctionName", "deadletter-theirs-redrive")
    role = stack.resources[made["Role"]["Fn::GetAtt"][0]]
    reached = granted(statements(role))
    assert {
        resource for resource in reached if ":sqs:" in resource or resource.startswith("queue")
    } == {
        "arn:aws:sqs:eu-west-1:111122223333:their-main",
        "arn:aws:sqs:eu-west-1:111122223333:their-dlq",
        "queue theirs-parking",
    }


def functions_statements(stack: Stack, name: str) -> dict[str, dict[str, Any]]:
    """What a function may do, by the name of the statement."""
    made = stack.named("AWS::Lambda::Function", "FunctionName", name)
    return {
        statement["Sid"]: statement
        for statement in statements(stack.resources[made["Role"]["Fn::GetAtt"][0]])
    }


def test_the_router_reads_lines_and_claims_where_messages_have_an_order(app: Synthesis) -> None:
    said = list(functions_statements(app["Deadletter-Theirs"], "deadletter-theirs-route").values())
    assert "dynamodb:Query" in granted(said)["table Messages"]
    assert {"theirs#line#*", "theirs#done#*"} <= set(confined(said)["table Messages"])


def test_of_a_function_of_yours_the_one_mapping_is_named_that_the_settings_name(
    app: Synthesis,
) -> None:
    stack = app["Deadletter-Theirs"]
    home = "arn:aws:lambda:eu-west-1:111122223333"
    for function in ("watch", "circuit"):
        said = functions_statements(stack, f"deadletter-theirs-{function}")["Mapping"]
        mapping = f"{home}:event-source-mapping:1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f"
        assert filled(said["Resource"]) == mapping
        assert set(said["Action"]) == MAPPING
    invoked = functions_statements(stack, "deadletter-theirs-probe")["Functions"]
    assert filled(invoked["Resource"]) == [
        f"{home}:function:deadletter-theirs-route",
        f"{home}:function:their-consumer",
    ]


def test_without_a_consumer_function_no_role_may_change_a_mapping_or_invoke_a_consumer(
    app: Synthesis,
) -> None:
    stack = app["Deadletter-Watched"]
    for function in ("watch", "circuit"):
        assert "Mapping" not in functions_statements(stack, f"deadletter-watched-{function}")
    # Nor is there a canary that the probe could take.
    probe = functions_statements(stack, "deadletter-watched-probe")
    assert set(probe) == {"Circuits", "Events", "Logs", "Traces"}


@pytest.mark.parametrize(("pipeline", "counts"), [("theirs", False), ("watched", True)])
def test_a_redriver_may_open_a_circuit_only_where_no_consumer_reports_failures(
    app: Synthesis, pipeline: str, counts: bool
) -> None:
    stack = app[f"Deadletter-{pipeline.title()}"]
    said = functions_statements(stack, f"deadletter-{pipeline}-redrive")
    assert ("Outages" in said) is counts
    assert ("dynamodb:UpdateItem" in listed(said["Circuits"]["Action"])) is counts


def test_where_no_function_consumes_and_the_ledger_is_written_the_probe_sends_a_letter_itself(
    sandboxed: Synthesis,
) -> None:
    said = functions_statements(sandboxed["Mail-Hasty"], "mail-hasty-probe")
    queue = "arn:aws:sqs:eu-west-1:111122223333:mail-hasty"
    assert filled(said["Dlq"]["Resource"]) == f"{queue}-dlq"
    assert set(said["Dlq"]["Action"]) == TAKE_ONE
    assert filled(said["Main"]["Resource"]) == f"{queue}-main"
    assert set(said["Main"]["Action"]) == {"sqs:SendMessage", "sqs:GetQueueAttributes"}
    letters = GRANTED["probe"]["table Messages"] | {"dynamodb:UpdateItem"}
    kinds = ("Messages", "Journal", "ListOfLanes", "MovedMessages")
    assert {action for kind in kinds for action in listed(said[kind]["Action"])} == letters
    # Of the ledger it reads, and nothing more.
    assert said["Ledger"]["Action"] == "dynamodb:BatchGetItem"
    where = [statement["Condition"] for statement in (said["Ledger"], said["Messages"])]
    assert ["hasty#ledger#*" in json.dumps(item) for item in where] == [True, False]
    function = "arn:aws:lambda:eu-west-1:111122223333:function:mail-hasty-route"
    assert filled(said["Functions"]["Resource"]) == function
    check_key(list(said.values()), KEY_TO_WRITE, ["sqs", "dynamodb", "s3"])


KEY = {"kms:Decrypt", "kms:DescribeKey"}
KEY_TO_WRITE = KEY | {
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
}


@pytest.mark.parametrize(
    ("function", "actions", "services"),
    [
        ("redrive", KEY_TO_WRITE, ["sqs", "dynamodb", "s3"]),
        ("route", KEY, ["dynamodb"]),
        ("consumer", KEY_TO_WRITE, ["sqs", "dynamodb", "secretsmanager"]),
        ("circuit", KEY_TO_WRITE, ["dynamodb"]),
        ("watch", KEY_TO_WRITE, ["dynamodb"]),
        ("probe", KEY_TO_WRITE, ["sqs", "dynamodb", "s3"]),
    ],
)
def test_a_customers_key_may_be_used_through_the_services_that_hold_the_data(
    sandboxed: Synthesis, function: str, actions: set[str], services: list[str]
) -> None:
    stack = sandboxed["Mail-Orders"]
    made = stack.named("AWS::Lambda::Function", "FunctionName", f"mail-orders-{function}")
    check_key(statements(stack.resources[made["Role"]["Fn::GetAtt"][0]]), actions, services)


@pytest.mark.parametrize(
    ("policy", "actions", "services"),
    [
        ("order-events-consumer", KEY_TO_WRITE, ["sqs", "dynamodb"]),
        ("DlqReader", KEY, ["dynamodb", "s3"]),
        ("BodyReader", KEY, ["sqs", "dynamodb", "s3"]),
        ("CircuitOperator", KEY_TO_WRITE, ["dynamodb", "sns"]),
        ("EndpointEditor", KEY_TO_WRITE, ["dynamodb", "secretsmanager"]),
        ("RuleEditor", KEY_TO_WRITE, ["dynamodb"]),
        ("RunOperator", KEY_TO_WRITE, ["dynamodb", "s3"]),
        ("RunApprover", KEY_TO_WRITE, ["dynamodb"]),
        ("DiscardOperator", KEY_TO_WRITE, ["dynamodb"]),
    ],
)
def test_managed_policies_hold_what_a_customers_key_takes(
    sandboxed: Synthesis, policy: str, actions: set[str], services: list[str]
) -> None:
    check_key(managed(sandboxed)[policy], actions, services)


def check_key(said: list[dict[str, Any]], actions: set[str], services: list[str]) -> None:
    [use] = [statement for statement in said if statement.get("Sid") == "Key"]
    assert set(use["Action"]) == actions
    assert use["Resource"] == "arn:aws:kms:eu-west-1:111122223333:key/1234abcd"
    via = listed(use["Condition"]["StringEquals"]["kms:ViaService"])
    assert [filled(item) for item in via] == [
        f"{service}.eu-west-1.amazonaws.com" for service in services
    ]
