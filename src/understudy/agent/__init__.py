"""The guarded tool-calling loop, and the guards for loops of others."""

from understudy.agent.client import ChunkType, LLMClient, LLMResponse, StreamChunk, TextResponse
from understudy.agent.context import ContextManager, NoCompact, SlidingWindowCompact, TieredCompact
from understudy.agent.guards.guardrails import Guardrails
from understudy.agent.guards.policy import GuardPolicy
from understudy.agent.message import Message, MessageMeta, MessageRole, MessageType, ToolCallInfo
from understudy.agent.provider_client import ProviderClient
from understudy.agent.rescue import rescue
from understudy.agent.run import AgentRun
from understudy.agent.runner import WorkflowRunner
from understudy.agent.scripted_client import ScriptedClient
from understudy.agent.transcript import Transcript
from understudy.agent.turn import Verdict
from understudy.agent.workflow import Workflow
from understudy.errors import (
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
from understudy.messages import ToolCall
from understudy.tools import ToolDef, ToolSpec, tool, tool_of

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
