"""Parts that several functions share, each put together in one place."""
