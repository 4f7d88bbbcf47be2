"""What our events on EventBridge say: one schema, for code, page and tests."""
