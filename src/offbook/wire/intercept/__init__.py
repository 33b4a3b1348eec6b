"""Interception: answers programs that ignore base URLs as their proxy, and clients of this process directly."""
