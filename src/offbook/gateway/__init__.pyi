"""The provider gateway and its parts: routing, retry, circuit breaker, rate limit, deadline and budget."""

from offbook.gateway.breaker import BreakerPolicy as BreakerPolicy
from offbook.gateway.gateway import ProviderGateway as ProviderGateway
from offbook.gateway.limits import RateLimit as RateLimit
from offbook.gateway.retry import RetryPolicy as RetryPolicy
