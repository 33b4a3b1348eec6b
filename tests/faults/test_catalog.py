"""The catalog: every fault by the name under which it is declared."""

from offbook.faults import FAULT_TYPES, TOOL_FAULT_TYPES, Fault, ToolFault


def test_faults_are_listed_by_the_names_they_are_declared_by():
    assert {"connection_reset", "http_error", "malformed_response", "stream_truncate", "timeout"} <= FAULT_TYPES.keys()
    for name, fault in FAULT_TYPES.items():
        assert issubclass(fault, Fault)
        assert name == fault.__struct_config__.tag


def test_faults_of_tools_are_a_family_of_their_own():
    assert sorted(TOOL_FAULT_TYPES) == ["tool_empty", "tool_error", "tool_garbled", "tool_lost", "tool_timeout"]
    assert not TOOL_FAULT_TYPES.keys() & FAULT_TYPES
    for name, fault in TOOL_FAULT_TYPES.items():
        assert issubclass(fault, ToolFault)
        assert name == fault.__struct_config__.tag
