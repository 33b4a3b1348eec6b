"""Interception: answers programs that no base URL moves, as their proxy, and clients of this process where they are."""
