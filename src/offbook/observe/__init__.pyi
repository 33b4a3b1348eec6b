from offbook.observe.json_lines import JsonLinesSink as JsonLinesSink
from offbook.observe.json_lines import read_events as read_events
from offbook.observe.otel import OtelSink as OtelSink
from offbook.observe.otlp import OtlpSink as OtlpSink
from offbook.observe.prometheus import PrometheusSink as PrometheusSink
from offbook.observe.span_file import SpanFileSink as SpanFileSink
