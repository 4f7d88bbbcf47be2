"""The `dlq` command line: `operations` asks and does, `cli` reads arguments and prints."""
