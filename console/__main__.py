"""`python -m console` is `dlq` from a checkout."""

from .cli.entry import main

main()
