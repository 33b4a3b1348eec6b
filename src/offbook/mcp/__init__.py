"""Stands in for MCP servers: records, replays and breaks the tools of any program, over stdio and HTTP.

The way of a request, in order:

1. `stdio` or `http` takes it from the client (`connect` is the small process that joins a session over stdio).
2. `message` parses it and says of which era it is: the handshake era (`initialize`) or the modern one (`_meta`).
3. `session` numbers it among the calls of the run, finds its fault, and asks `replay`; what only the real server can
   answer goes to an `upstream`, and `recorder` records it.
4. `answer` is what the client gets, as a value: messages with their times, and an ending. `faults` breaks it.
5. `dialogue` sends it message by message, and waits where the server asks the client something.

`hub` puts these together for a server of `offbook.wire`, `config` reads and writes the `mcpServers` of clients, and
`offbook/server.py` is a server with both, for Python and pytest.

`mock` answers by functions, mocks and schemas instead of a recording. `surface` is what a server offers and what of it
moved, `check` says what is wrong with it, and `verify` compares a live server with its recording.

Seams for what is built on this: an `McpSource` (in `answer`) answers requests, be it a recording or a `MockServer`, and
says whose turn a call is where processes share a recording (`shared`);
`on_tool_call` of a hub gets each call with its arguments and its answer, and `annotations_of` in `replay` says what a
tool declares about its side effects.
"""
