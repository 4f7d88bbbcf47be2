"""What rules, hostile messages, the consumer library and moving letters cost."""
