"""Tools: what a model can call, and how calls are run."""

from offbook.tools.definition import ToolDef, ToolFunction, ToolSpec
from offbook.tools.dispatch import ToolOutcome, run_tool, run_tools
from offbook.tools.function_tool import FunctionTool, tool, tool_of
from offbook.tools.parameters import DeclaredParameters, Parameters
from offbook.tools.result_text import result_text
from offbook.tools.toolbox import GivenTool, GivenTools, Toolbox

__all__ = [
    "DeclaredParameters",
    "FunctionTool",
    "GivenTool",
    "GivenTools",
    "Parameters",
    "ToolDef",
    "ToolFunction",
    "ToolOutcome",
    "ToolSpec",
    "Toolbox",
    "result_text",
    "run_tool",
    "run_tools",
    "tool",
    "tool_of",
]
