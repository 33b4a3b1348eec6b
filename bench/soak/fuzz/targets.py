"""All targets by name."""

from __future__ import annotations

from bench.soak.fuzz import files, messages
from bench.soak.fuzz.target import Target

TARGETS: dict[str, type[Target]] = {
    "recording": files.Recording,
    "journal": files.Journal,
    "database": files.Database,
    "plan": files.Plan,
    "fault-text": files.FaultText,
    "config": files.Config,
    "workflow": files.WorkflowFile,
    "expression": files.WorkflowExpression,
    "regression": files.Regression,
    "run": files.StoredRun,
    "events": files.Events,
    "streams": messages.Streams,
    "answers": messages.Answers,
    "requests": messages.Requests,
    "upstream": messages.Upstream,
    "http": messages.Http,
    "proxy": messages.Proxy,
    "calls-in-text": messages.CallsInText,
    "secrets": messages.Secrets,
}
