"""Watching a run whose tasks go on at once."""

import asyncio
import json

from offbook import explore_function


def test_an_endless_task_among_others_has_hung(tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"_version": 2, "hello": {"content": "Hello!"}}))

    async def hello(stage):
        while True:
            try:
                return await stage.provider.complete([{"role": "user", "content": "Hi"}], "m", step_id="hello")
            except ConnectionError:
                pass

    async def agent(stage):
        async with asyncio.TaskGroup() as group:
            group.create_task(hello(stage))

    exploration = explore_function(agent, file, faults="connection_reset")
    assert {str(each.case): each.verdict for each in exploration.explored} == {
        "step=hello call=1 attempt=1: connection_reset": "recovered",
        "step=hello call=1: connection_reset": "hung",
    }
