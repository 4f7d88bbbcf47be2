"""What rules, hostile messages and the consumer library cost."""
