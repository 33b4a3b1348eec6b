"""The server: answers calls over a socket."""
