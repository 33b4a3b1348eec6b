"""Recording and replaying exchanges."""

from offbook.recording.format.exchange import RecordedToolError as RecordedToolError
from offbook.recording.match.fingerprint import NormaliseRules as NormaliseRules
from offbook.recording.record import RecordingProvider as RecordingProvider
from offbook.recording.redact.redactor import Redactor as Redactor
from offbook.recording.redact.rules import redacting as redacting
from offbook.recording.replay import MockProvider as MockProvider
from offbook.recording.tool_record import record_tools as record_tools
from offbook.recording.tool_replay import replay_tools as replay_tools
