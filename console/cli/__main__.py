"""`python -m console` is `dlq` from a checkout."""

from console.cli.main import main

main()
