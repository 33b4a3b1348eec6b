"""The vendors' APIs over WebSocket: frames, sessions that are replayed or recorded, and their faults."""
