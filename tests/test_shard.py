"""Shards: a hash says which one has an id, and parts that do not belong together are refused by name."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import InputError
from offbook.shard import Shard, ShardPart, check_ids, check_parts, parse_shard, shard_of


@given(st.text(), st.integers(1, 200))
def test_an_id_is_in_exactly_one_shard(name, count):
    assert [Shard(number, count).has(name) for number in range(1, count + 1)].count(True) == 1


@given(st.integers(1, 64))
def test_a_shard_is_read_as_it_is_written(count):
    shards = [Shard(number, count) for number in range(1, count + 1)]
    assert [parse_shard(str(shard)) for shard in shards] == shards


def test_the_hash_is_the_same_in_every_process_and_version():
    assert [shard_of(name, 16) for name in ("0001", "0002", "books a room/booking", "é", "\ud800")] == [5, 4, 8, 16, 9]
    script = "from offbook.shard import shard_of; print(shard_of('0001', 16))"
    done = subprocess.run([sys.executable, "-c", script], env={"PYTHONHASHSEED": "7"}, capture_output=True, check=True)
    assert done.stdout == b"5\n"


def test_many_ids_are_spread_evenly():
    counts = [sum(Shard(number, 16).has(f"{case:04}") for case in range(1, 16_001)) for number in range(1, 17)]
    assert min(counts) > 850
    assert max(counts) < 1150


@pytest.mark.parametrize(
    "text", ["0/4", "5/4", "0/0", "a/b", "1", "", "1/2/3", "-1/4", "1.0/4", "٣/٤", "1/99999999999"]
)
def test_a_shard_that_is_none_is_refused_with_a_hint(text):
    with pytest.raises(InputError) as refused:
        parse_shard(text)
    assert "--shard" in refused.value.source
    assert "--shard 1/" in refused.value.hint or "--shard 3/16" in refused.value.hint


def parts(*numbers, count=3, **run):
    same = {"version": "1", "command": "offbook explore", "recording": "abc"}
    return [ShardPart(f"part{number}.json", Shard(number, count), same | run) for number in numbers]


def refusal(given):
    with pytest.raises(InputError) as refused:
        check_parts(given)
    return str(refused.value)


def test_all_shards_of_a_run_in_any_order_are_accepted():
    check_parts(parts(2, 3, 1))


def test_missing_shards_are_named():
    assert "2 shards missing: 2/3, 3/3" in refusal(parts(1))
    assert "989 shards missing: 11/999, " in (text := refusal(parts(*range(1, 11), count=999)))
    assert "20/999 and 979 more" in text


def test_a_shard_that_is_there_twice_is_named():
    assert "part2.json: shard 2/3 appears twice: also in part2.json" in refusal(parts(1, 2, 2))


def test_a_shard_of_a_run_with_another_number_of_shards_is_named():
    assert "part2.json: it is shard 2/4, and part1.json is shard 1/3" in refusal([*parts(1), *parts(2, count=4)])


@pytest.mark.parametrize("field", ["version", "command", "recording", "further"])
def test_a_shard_of_another_run_is_named_with_what_differs(field):
    text = refusal([*parts(1, 2), *parts(3, **{field: "xyz"})])
    assert f"part3.json: it is a shard of another run: its {field} is 'xyz', and" in text


def test_a_shard_that_ended_early_is_named():
    *others, last = parts(1, 2, 3)
    interrupted = ShardPart(last.source, last.shard, last.run, is_complete=False)
    assert "part3.json: the shard 3/3 ended early" in refusal([*others, interrupted])


def test_cases_that_were_added_or_removed_by_hand_are_noticed():
    first, second = parts(1, 2, count=2)
    check_ids([(first, ["a"]), (second, ["b", "c"])], 3, noun="case")
    with pytest.raises(InputError, match=r"part1\.json: the case 'a' appears twice"):
        check_ids([(first, ["a"]), (second, ["a"])], 2, noun="case")
    with pytest.raises(InputError, match="there are 2 cases, and the run has 3"):
        check_ids([(first, ["a"]), (second, ["b"])], 3, noun="case")
