"""`python -m console.cli` is `dlq` from a checkout, as `python -m console` is."""

from .main import main

main()
