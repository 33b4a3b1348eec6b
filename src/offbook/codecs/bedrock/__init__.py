"""Amazon Bedrock: Converse and ConverseStream."""

from offbook.codecs.bedrock.stream import BedrockCodec

CODEC = BedrockCodec()

__all__ = ["CODEC", "BedrockCodec"]
