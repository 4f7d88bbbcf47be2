"""Parts that several functions share, one module each."""
