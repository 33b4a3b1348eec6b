"""MCP over HTTP: `endpoint` answers clients, by streams that they can resume; `upstream` is a real server."""
