"""What happens to a batch around a consumer's own handler."""
