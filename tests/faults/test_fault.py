"""What all faults have in common: how they are declared, and that they are values."""

import msgspec
import pytest

from offbook.errors import OffbookError
from offbook.faults import FAULT_TYPES, Fault

LEAST = {"http_error": {"status_code": 500}, "tool_call_fault": {"tool": "get"}}


def declared(name):
    return {"type": name} | LEAST.get(name, {})


@pytest.mark.parametrize("name", sorted(FAULT_TYPES))
def test_a_fault_is_declared_by_its_type_and_written_the_same_way(name):
    fault = msgspec.convert(declared(name), FAULT_TYPES[name])
    assert isinstance(fault, Fault)
    assert fault.type == name
    written = msgspec.to_builtins(fault)
    assert written["type"] == name
    assert msgspec.convert(written, FAULT_TYPES[name]) == fault


@pytest.mark.parametrize("name", sorted(FAULT_TYPES))
def test_a_fault_has_no_fields_but_its_own(name):
    with pytest.raises(msgspec.ValidationError, match="unknown field `zzz`"):
        msgspec.convert(declared(name) | {"zzz": 1}, FAULT_TYPES[name])


@pytest.mark.parametrize("name", ["connection_reset", "http_error", "malformed_response", "stream_truncate", "timeout"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_fault_fires_the_same_every_time(apply, name, stream):
    fired = [apply(declared(name), stream=stream, content="one two three") for _ in range(3)]
    assert len({(str(came), repr(error), after_s) for came, error, after_s in fired}) == 1
    assert isinstance(fired[0][1], OffbookError)


def test_a_fault_cannot_be_changed():
    fault = msgspec.convert(declared("timeout"), FAULT_TYPES["timeout"])
    with pytest.raises(AttributeError):
        fault.after_ms = 5.0
