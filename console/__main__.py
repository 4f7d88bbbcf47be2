"""`python -m console` is `dlq` from a checkout."""

from console.main import main

main()
