"""Amazon Bedrock: Converse and ConverseStream."""

from offbook.codecs.bedrock.stream import CODEC

__all__ = ["CODEC"]
