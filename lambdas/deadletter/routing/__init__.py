"""What to do with a letter: decisions, the judgements in their order, the router."""
