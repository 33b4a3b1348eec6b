"""A WebSocket server for tests, of the library `websockets`: answers each message by a script."""

import json
import threading
from contextlib import contextmanager

from websockets.sync.server import serve


def realtime(socket):  # noqa: C901
    """A little of OpenAI's Realtime API: greets, confirms updates, and answers in three deltas.

    It confirms an item with the next answer, so that what a client sends together is always one exchange.
    """
    socket.send(json.dumps({"type": "session.created", "event_id": "event_1"}))
    turn, items = 0, []
    for raw in socket:
        message = json.loads(raw) if isinstance(raw, str) else {"type": "binary"}
        match message.get("type"):
            case "session.update":
                socket.send(json.dumps({"type": "session.updated", "session": message["session"]}))
            case "conversation.item.create":
                items.append({"type": "conversation.item.added", "item": message["item"]})
            case "response.create":
                turn += 1
                while items:
                    socket.send(json.dumps(items.pop(0)))
                for text in ("one", "two", f"turn {turn}"):
                    socket.send(json.dumps({"type": "response.output_text.delta", "delta": text}))
                socket.send(json.dumps({"type": "response.done", "turn": turn}))
            case "binary":
                socket.send(raw)
            case "leave":
                return socket.close(4001, "as you wish")
            case "input_audio_buffer.commit":
                socket.send(json.dumps({"type": "input_audio_buffer.committed"}))
    return None


def gemini_live(socket):
    """A little of Gemini's Live API, which sends JSON in binary messages."""
    for raw in socket:
        if "setup" in json.loads(raw):
            socket.send(b'{"setupComplete": {}}')
            continue
        for text in ("Good mo", "rning", "!"):
            content = {"modelTurn": {"parts": [{"text": text}]}}
            socket.send(json.dumps({"serverContent": content}).encode())
        socket.send(b'{"serverContent": {"turnComplete": true}}')


@contextmanager
def upstream(handler=realtime, **options):
    """The `http://` base URL of a server that runs `handler` for each connection."""
    with serve(handler, "127.0.0.1", 0, **options) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
    thread.join()
