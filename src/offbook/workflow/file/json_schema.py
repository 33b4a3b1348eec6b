"""The JSON schema of a workflow file, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any

import msgspec

from offbook.messages import JsonObject
from offbook.workflow.file.schema import FunctionPath, WorkflowDefinition


def workflow_json_schema() -> JsonObject:
    """Return the JSON schema of a workflow file, for editors that complete and check YAML."""
    schema: JsonObject = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(WorkflowDefinition)))
    _allow_short_forms(schema["$defs"])
    return schema


def _allow_short_forms(definitions: dict[str, Any]) -> None:
    """Add the forms that are written out before a file is converted."""
    function = definitions["PythonFunctionTool"]
    function["properties"].pop("builtin")
    function["required"].remove("builtin")
    tools = definitions["WorkflowDefinition"]["properties"]["tools"]["additionalProperties"]
    tools.pop("discriminator")
    tools["anyOf"].insert(0, msgspec.json.schema(FunctionPath))
    agent = definitions["AgentStep"]["properties"]
    agent["terminal_tool"] = {"anyOf": [agent["terminal_tool"]["items"], agent["terminal_tool"]]}
    rules = agent["prerequisites"]["additionalProperties"]
    rules["items"] = {"anyOf": [{"type": "string", "minLength": 1}, rules["items"]]}
