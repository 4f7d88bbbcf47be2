"""One outage of a dependency, from the trip to the consumer's full return."""
