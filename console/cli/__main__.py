"""`python -m console.cli` is `dlq` from a checkout, as `python -m console` is."""

from .entry import main

main()
