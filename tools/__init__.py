"""What the project is made and examined with: its set-up, generated pages and scanners."""
