"""`dlq ui`: a page on this machine, with the person's own rights; nothing is deployed."""
