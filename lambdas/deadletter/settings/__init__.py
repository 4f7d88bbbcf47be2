"""What a pipeline is told about itself: settings, backoff, registration."""
