"""Recording and replaying exchanges."""

from offbook.recording.format.exchange import RecordedToolError as RecordedToolError
from offbook.recording.match.fingerprint import NormaliseRules as NormaliseRules
from offbook.recording.redact.redactor import Redactor as Redactor
from offbook.recording.redact.rules import redacting as redacting
from offbook.session.provider import MockProvider as MockProvider
from offbook.session.recording_provider import RecordingProvider as RecordingProvider
from offbook.session.recording_tools import record_tools as record_tools
from offbook.session.replayed_tools import replay_tools as replay_tools
