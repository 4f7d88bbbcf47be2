"""The CDK side of Deadletter: one construct per noun.

    pipeline      RedrivePipeline, everything one pipeline needs, in one statement
    queues        main queue, DLQ, dedicated DLQs, parking lot
    storage       the tables and the bucket that pipelines share
    redriver      the function that moves letters, and its schedules
    router        the function that decides about them
    rule_check    the function that checks edits of rules
    circuit       the circuit breaker: a state machine, and the functions it calls
    consumer      the webhook dispatcher
    alarms        the alarms; pager is the topic that they notify
    dashboard     a band a pipeline; `widgets` is that band for a dashboard of yours
    registration  how the command line finds all of it
    on_call       the policies of people on call
    permissions   grants to a role: the nouns above offer them as `grant_...`
    layer         ConsumerLayer, the consumer library for functions of teams
    asset         the zip of our own functions

    settings      the settings, by noun (context reads them, refusal explains a wrong one)
    stacks        the app itself

Nothing is imported here, so that reading settings doesn't start the CDK. Names that the runtime
shares come from `deadletter.contract`, the only runtime module that is imported.
"""
