"""`python -m console` is `dlq` from a checkout."""

from .cli.main import main

main()
