"""Models: requests and answers, specs and pools, errors, budgets, recovery of streams."""
