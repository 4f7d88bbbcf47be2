"""Each minute: how old and how safe every letter is, and whether runs can do their work."""
