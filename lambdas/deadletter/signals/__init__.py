"""What the app says of itself."""
