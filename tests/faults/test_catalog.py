"""The catalog: every fault by the name under which it is declared."""

from understudy.faults import FAULT_TYPES, Fault


def test_faults_are_listed_by_the_names_they_are_declared_by():
    assert {"connection_reset", "http_error", "malformed_response", "stream_truncate", "timeout"} <= FAULT_TYPES.keys()
    for name, fault in FAULT_TYPES.items():
        assert issubclass(fault, Fault)
        assert name == fault.__struct_config__.tag
