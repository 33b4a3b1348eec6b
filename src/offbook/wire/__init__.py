"""Servers, proxies and transports that stand in for the vendors' HTTP APIs, so that programs need no change."""
