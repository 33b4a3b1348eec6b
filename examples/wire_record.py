"""Record the agent of examples/wire again, against a model on this machine.

Run it: python examples/wire_record.py [path]
"""

import os
import subprocess
import sys
from pathlib import Path

from local_model import serving
from offbook.messages import Request, Response, ToolCall, Usage

WIRE = Path(__file__).parent / "wire"
OFFBOOK = Path(sys.executable).with_name("offbook")


def answer(request: Request) -> Response:
    """Call the weather tool for both cities, then say where it rains."""
    if request.messages[-1]["role"] == "tool":
        content = "In Bergen, where it rains. In Oslo the sun shines."
        return Response(content, model=request.model, usage=Usage.of(96, 13))
    calls = (
        ToolCall("get_weather", {"city": "Oslo"}, id="call_oslo"),
        ToolCall("get_weather", {"city": "Bergen"}, id="call_bergen"),
    )
    usage = Usage.of(71, 32)
    return Response(model=request.model, tool_calls=calls, usage=usage, finish_reason="tool_calls")


def main(path: Path) -> None:
    path.unlink(missing_ok=True)
    with serving(answer) as base_url:
        environment = os.environ | {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none"}
        command = [str(OFFBOOK), "exec", "--record", str(path), "--", sys.executable, str(WIRE / "weather_agent.py")]
        subprocess.run(command, env=environment, check=True)  # noqa: S603 - our own command


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else WIRE / "weather.json")
