"""One outage of a dependency, from the trip until the consumer runs at full rate again."""
