"""The vendors' APIs over WebSocket: frames, replayed and recorded sessions, and their faults."""
