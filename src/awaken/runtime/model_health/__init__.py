"""The health of models: a circuit breaker for each, shared through the store."""
