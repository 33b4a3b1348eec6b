"""Texts that are the same in every run."""

from offbook.explore.run import normalize_text


def test_names_are_replaced_longest_first():
    names = {"http://127.0.0.1:4010": "URL", "http://127.0.0.1:4010/s/x": "SESSION", "127.0.0.1:4010": "HOST"}
    text = "http://127.0.0.1:4010/s/x/v1 http://127.0.0.1:4010/v1 127.0.0.1:4010"
    assert normalize_text(text, names) == "SESSION/v1 URL/v1 HOST"


def test_addresses_of_objects_are_taken_out_and_other_numbers_are_left():
    assert normalize_text("<Thing at 0x7f1122334455> 0xff 0x12") == "<Thing at 0x…> 0xff 0x12"
