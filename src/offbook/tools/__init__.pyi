"""Tools: what a model can call, and how calls are run."""

from offbook.messages import result_text as result_text
from offbook.tools.definition import ToolDef as ToolDef
from offbook.tools.definition import ToolFunction as ToolFunction
from offbook.tools.definition import ToolOptions as ToolOptions
from offbook.tools.definition import ToolSpec as ToolSpec
from offbook.tools.dispatch import ObservedTools as ObservedTools
from offbook.tools.dispatch import ToolOutcome as ToolOutcome
from offbook.tools.dispatch import observe_tools as observe_tools
from offbook.tools.dispatch import run_tool as run_tool
from offbook.tools.dispatch import run_tools as run_tools
from offbook.tools.effects import effect as effect
from offbook.tools.effects import reached as reached
from offbook.tools.function_tool import FunctionTool as FunctionTool
from offbook.tools.function_tool import tool as tool
from offbook.tools.function_tool import tool_of as tool_of
from offbook.tools.parameters import DeclaredParameters as DeclaredParameters
from offbook.tools.parameters import Parameters as Parameters
from offbook.tools.toolbox import GivenTool as GivenTool
from offbook.tools.toolbox import GivenTools as GivenTools
from offbook.tools.toolbox import Toolbox as Toolbox
