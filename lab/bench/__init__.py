"""What rules, hostile messages, the consumer library, webhooks and moving letters cost."""
