"""Shorthand for running small workflows on a script of answers."""

import yaml

from offbook import MemorySink, MockProvider, run
from offbook.workflow import WorkflowEngine, parse_workflow


def engine_of(text, responses=None, *, tools=None, **options):
    """An engine for a workflow in YAML, whose models answer from `responses` by step."""
    declared = yaml.safe_load(text) if isinstance(text, str) else text
    whole = {"name": "test", "config": {"model": "m"}} | declared
    definition = parse_workflow(yaml.safe_dump(whole, sort_keys=False), tools=tools or ())
    provider = options.pop("provider", None) or MockProvider(responses=responses or {}, default_response="?")
    return WorkflowEngine(definition, provider, tools=tools or {}, **options)


def run_workflow(text, responses=None, state=None, **options):
    """What becomes of a workflow, in virtual time."""
    return run(engine_of(text, responses, **options).run(state), virtual_time=True)


def events_of(text, responses=None, state=None, **options):
    """The events of a run of a workflow, each as its class and what it is about."""
    sink = MemorySink()
    run_workflow(text, responses, state, sink=sink, **options)
    return [
        (type(event).__name__, *[getattr(event, name) for name in ("step", "status") if hasattr(event, name)])
        for event in sink.events
    ]


def statuses(result):
    return {path: step.status for path, step in result.steps.items()}
