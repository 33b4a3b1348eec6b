"""Tools: what a model may call, and how calls are run."""

from understudy.tools.definition import ToolDef, ToolFunction
from understudy.tools.dispatch import run_tool, run_tools
from understudy.tools.function_tool import FunctionTool, tool, tool_of
from understudy.tools.outcome import ToolOutcome
from understudy.tools.parameters import DeclaredParameters, Parameters
from understudy.tools.result_text import result_text
from understudy.tools.spec import ToolSpec
from understudy.tools.toolbox import GivenTool, GivenTools, Toolbox

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
