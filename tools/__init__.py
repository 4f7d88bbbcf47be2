"""What the project is examined with: security scanners and benchmarks."""
