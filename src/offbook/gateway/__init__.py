"""The provider gateway and its parts: routing, retry, circuit breaker, rate limit, deadline and budget."""
