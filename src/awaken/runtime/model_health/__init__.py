"""Which models are well: a circuit breaker for each, shared through the store."""
