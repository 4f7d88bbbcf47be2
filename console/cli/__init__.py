"""The `dlq` command line: what an on-call engineer reads and types.

`entry` is where it begins, `main` lists the commands, `command` holds what all commands
share, `output` prints, `asking` asks the person, `reference` writes docs/commands.md and
docs/answers.schema.json. Each command has a module of options and output, named as the module
of `console.operations` that does its work.
"""
