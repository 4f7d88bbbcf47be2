"""The CDK side of Deadletter: one construct per noun.

    pipeline      RedrivePipeline, everything one pipeline needs, in one statement
    queues        main queue, DLQ, dedicated DLQs, parking lot
    storage       the tables and the bucket that pipelines share
    redriver      the function that moves letters, and its schedules
    router        the function that decides about them
    circuit       the circuit breaker: a state machine, and the functions it calls
    consumer      the webhook dispatcher
    alarms        what pages a person; pager is where the page goes
    registration  how the command line finds all of it

    settings      what a person may say (context reads it, refusal turns it down)
    stacks        the app itself

Nothing is imported here, so that reading settings doesn't start the CDK.
"""
