"""The guarded tool-calling loop, and the guards for loops of others."""

from offbook.agent.client import ChunkType, LLMClient, LLMResponse, StreamChunk, TextResponse
from offbook.agent.context import ContextManager, NoCompact, SlidingWindowCompact, TieredCompact
from offbook.agent.guards.guardrails import Guardrails
from offbook.agent.guards.policy import GuardPolicy
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType, ToolCallInfo
from offbook.agent.provider_client import ProviderClient
from offbook.agent.rescue import rescue
from offbook.agent.run import AgentRun
from offbook.agent.runner import WorkflowRunner
from offbook.agent.scripted_client import ScriptedClient
from offbook.agent.transcript import Transcript
from offbook.agent.turn import Verdict
from offbook.agent.workflow import Workflow
from offbook.errors import (
    AgentBudgetError,
    AgentError,
    MaxIterationsError,
    PrerequisiteError,
    RepeatedCallError,
    ScriptError,
    StepEnforcementError,
    StreamError,
    ToolArgumentsError,
    ToolCallError,
    ToolExecutionError,
    ToolResolutionError,
    ToolTimeoutError,
    WorkflowCancelledError,
)
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
    "Verdict",
    "Workflow",
    "WorkflowCancelledError",
    "WorkflowRunner",
    "rescue",
    "tool",
    "tool_of",
]
