"""The `dlq` command line: what an on-call engineer reads and types.

`main` is the way in and `command` what all commands share. Each command group is
one module: `status`, `redrive`, `parked`. Below them, `app` finds the deployed app,
`aws` holds the clients, `output` prints, `problem` says how a command can end, and
`reference` writes docs/cli.md.
"""
