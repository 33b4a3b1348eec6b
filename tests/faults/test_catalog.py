"""The catalog: every fault by the name under which it is declared."""

from offbook.faults import FAULT_TYPES, TOOL_FAULT_TYPES, Fault, ToolFault
from offbook.faults.catalog import PLANNED_FAULT_TYPES, fault_variants


def test_faults_are_listed_by_the_names_they_are_declared_by():
    assert {"connection_reset", "http_error", "malformed_response", "stream_truncate", "timeout"} <= FAULT_TYPES.keys()
    for name, fault in FAULT_TYPES.items():
        assert issubclass(fault, Fault)
        assert name == fault.__struct_config__.tag


def test_faults_of_tools_are_a_family_of_their_own():
    assert {"tool_empty", "tool_error", "tool_garbled", "tool_lost", "tool_timeout"} <= TOOL_FAULT_TYPES.keys()
    assert not TOOL_FAULT_TYPES.keys() & FAULT_TYPES
    for name, fault in TOOL_FAULT_TYPES.items():
        assert issubclass(fault, ToolFault)
        assert name == fault.__struct_config__.tag


def test_variants_are_named_after_their_faults_and_persistent_ones_come_first():
    for over_http in (False, True):
        variants = fault_variants(PLANNED_FAULT_TYPES.values(), over_http=over_http)
        assert len({variant.name for variant in variants}) == len(variants)
        assert all(variant.name.split()[0] == variant.fault.type for variant in variants)
        order = [(variant.http_only, not variant.is_persistent) for variant in variants]
        assert order == sorted(order)


def test_variants_of_http_alone_are_tried_only_there_and_last():
    calls, http = (fault_variants(FAULT_TYPES.values(), over_http=over_http) for over_http in (False, True))
    further = http[len(calls) :]
    assert [variant.name for variant in http[: len(calls)]] == [variant.name for variant in calls]
    assert all(variant.http_only for variant in further)
    assert [variant.name for variant in further] == ["wrong_content_type", "stream_truncate cut"]
