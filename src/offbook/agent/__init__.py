"""The guarded tool-calling loop, and the guards for other loops."""

from offbook.agent.clients import (
    ChunkType,
    LLMClient,
    LLMResponse,
    ProviderClient,
    ScriptedClient,
    StreamChunk,
    TextResponse,
)
from offbook.agent.context import ContextManager, NoCompact, SlidingWindowCompact, TieredCompact
from offbook.agent.errors import (
    AgentBudgetError,
    MaxIterationsError,
    PrerequisiteError,
    RepeatedCallError,
    StepEnforcementError,
    StreamError,
    ToolCallError,
    ToolExecutionError,
    WorkflowCancelledError,
)
from offbook.agent.guards.guardrails import Guardrails
from offbook.agent.guards.policy import GuardPolicy
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType, ToolCallInfo, Transcript
from offbook.agent.rescue import rescue
from offbook.agent.runner import AgentRun, WorkflowRunner
from offbook.agent.turn import TurnVerdict
from offbook.agent.workflow import Workflow
from offbook.errors import AgentError, ScriptError, ToolArgumentsError, ToolResolutionError, ToolTimeoutError
from offbook.messages import ToolCall
from offbook.tools import ToolDef, ToolSpec, tool, tool_of

__all__ = [
    "AgentBudgetError",
    "AgentError",
    "AgentRun",
    "ChunkType",
    "ContextManager",
    "GuardPolicy",
    "Guardrails",
    "LLMClient",
    "LLMResponse",
    "MaxIterationsError",
    "Message",
    "MessageMeta",
    "MessageRole",
    "MessageType",
    "NoCompact",
    "PrerequisiteError",
    "ProviderClient",
    "RepeatedCallError",
    "ScriptError",
    "ScriptedClient",
    "SlidingWindowCompact",
    "StepEnforcementError",
    "StreamChunk",
    "StreamError",
    "TextResponse",
    "TieredCompact",
    "ToolArgumentsError",
    "ToolCall",
    "ToolCallError",
    "ToolCallInfo",
    "ToolDef",
    "ToolExecutionError",
    "ToolResolutionError",
    "ToolSpec",
    "ToolTimeoutError",
    "Transcript",
    "TurnVerdict",
    "Workflow",
    "WorkflowCancelledError",
    "WorkflowRunner",
    "rescue",
    "tool",
    "tool_of",
]
