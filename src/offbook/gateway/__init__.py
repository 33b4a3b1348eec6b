"""The gateway and its parts: routing, retry, breaker, rate limit, deadline, budget."""
