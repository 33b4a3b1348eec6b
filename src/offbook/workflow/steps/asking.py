"""What all steps that ask a model have in common."""

from __future__ import annotations

from typing import TypeVar

from offbook.agent import Message, MessageMeta, MessageRole, MessageType, ProviderClient
from offbook.agent.client import ChunkType, StreamChunk
from offbook.errors import InputError
from offbook.gateway.gateway import ProviderGateway
from offbook.workflow.step_definition import ModelFields
from offbook.workflow.steps.step import Environment, Scope, Step
from offbook.workflow.template import Template

M = TypeVar("M", bound=ModelFields)


class AskingStep(Step[M]):
    """A step with a prompt, a system prompt and a model."""

    def __init__(self, definition: M, environment: Environment) -> None:
        super().__init__(definition, environment)
        config = environment.config
        self._prompt = Template.parse(definition.prompt)
        self._system_prompt = Template.parse(definition.system_prompt)
        self.model = _model(definition, environment)
        self.temperature = config.temperature if definition.temperature is None else definition.temperature
        self.max_tokens = definition.max_tokens or config.max_tokens
        self.step_id = f"{environment.prefix}{definition.id}"

    def prompts(self, scope: Scope) -> tuple[str, str]:
        """The system prompt and the prompt, filled in."""
        names, place = scope.names, f"steps.{self.step_id}"
        return (
            self._system_prompt.render(names, place=f"{place}.system_prompt"),
            self._prompt.render(names, place=f"{place}.prompt"),
        )

    def opening(self, scope: Scope) -> list[Message]:
        """The prompts as the beginning of a transcript."""
        system, prompt = self.prompts(scope)
        opening = [Message(MessageRole.USER, prompt, MessageMeta(MessageType.USER_INPUT))]
        if system:
            opening.insert(0, Message(MessageRole.SYSTEM, system, MessageMeta(MessageType.SYSTEM_PROMPT)))
        return opening

    def client(self, gateway: ProviderGateway) -> ProviderClient:
        return ProviderClient(
            gateway,
            self.model,
            step_id=self.step_id,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            workflow=self.environment.workflow,
        )

    def tell_chunk(self, chunk: StreamChunk) -> None:
        """Let listeners hear the text of a stream."""
        if chunk.type is ChunkType.TEXT_DELTA:
            self.environment.on_text(self.step_id, chunk.content)


def _model(definition: ModelFields, environment: Environment) -> str:
    model = definition.model or environment.config.model
    if model is None:
        raise InputError(
            "no model is named", source=environment.workflow, place=f"steps.{definition.id}", hint="config: {model: …}"
        )
    return model
