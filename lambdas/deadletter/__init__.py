"""Moving, judging and accounting for dead letters.

Pure, but for `aws`: no clock, no randomness, no environment and no boto3; whoever
needs one of them takes it as an argument. What decides: `judgement` and the modules it
imports, asked through `router`. What acts: `redriver`, `queue_worker`, `room_worker` and
`mover`, which writes into the `journal` first.
"""
