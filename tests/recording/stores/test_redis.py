"""Recordings in Redis: what lives how long, what a reader asks for, and what is refused with which words."""

import builtins
import threading
from itertools import pairwise

import pytest

from offbook.errors import InputError, RecordingFormatError, RecordingUnavailableError
from offbook.installed import install_hint
from offbook.recording.edit import copy_store
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.match.cursor import Cursor
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.redis.location import parse_redis_url
from offbook.recording.stores.redis.reader import BATCH
from offbook.recording.stores.redis.store import Leases
from tests.servers import redis_server

HOUR_MS = 3_600_000


@pytest.fixture
def server():
    return redis_server.shared()


def said(content, *, request_hash=None, recorded_at=None):
    return Exchange(content=content, request_hash=request_hash, recorded_at=recorded_at)


def append(store, *keyed):
    writer = store.write()
    for key, exchange in keyed:
        writer.append(key, exchange)
    writer.close()


def contents(store):
    return [(key, exchange.content) for key, exchange in store.load()]


def exchange_keys(server, store):
    return [key for key in server.keys(store.location) if ":x:" in key]


class TestLocation:
    def test_a_url_may_say_everything(self):
        at = parse_redis_url("rediss://me:p%40ss@Cache:7000/3?prefix=my.app/1&ttl=24h&timeout=250ms&on_error=live")
        assert at.host == "cache"
        assert at.port == 7000
        assert at.database == 3
        assert at.has_tls
        assert at.username == "me"
        assert at.password == "p@ss"
        assert at.prefix == "my.app/1"
        assert at.ttl_ms == 24 * HOUR_MS
        assert at.timeout_s == 0.25
        assert at.on_error == "live"

    def test_a_host_is_enough(self):
        at = parse_redis_url("redis://cache")
        assert at.port == 6379
        assert at.database == 0
        assert at.prefix == "offbook"
        assert at.ttl_ms == 0
        assert at.timeout_s == 5.0

    def test_one_recording_has_one_identity_however_it_is_written(self):
        same = ["redis://cache", "redis://:pw@CACHE:6379/0?prefix=offbook&ttl=1h", "redis://cache/?timeout=9"]
        assert len({parse_redis_url(url).identity for url in same}) == 1
        assert parse_redis_url("redis://cache?prefix=other").identity != parse_redis_url("redis://cache").identity

    @pytest.mark.parametrize(
        ("url", "reason", "hint"),
        [
            ("redis://", "no host", "redis://host"),
            ("redis://cache:port/0", "the host or the port is invalid", "redis://host"),
            ("redis://cache:99999/0", "the host or the port is invalid", "redis://host"),
            ("redis://:pw/d@cache/0", "the host or the port is invalid", "%2F"),
            ("redis://:pw#d@cache/0", "the host or the port is invalid", "%23"),
            ("redis://cache/0#x", "fragment", "%23"),
            ("redis://cache/zero", "not the number of a database", "redis://host"),
            ("redis://cache?prefx=a", "unknown parameter 'prefx'", "did you mean 'prefix'?"),
            (
                "redis://cache?nonsense=a",
                "unknown parameter 'nonsense'",
                "ca, cert, key, on_error, prefix, timeout, ttl",
            ),
            ("redis://cache?ttl=1h&ttl=2h", "ttl is given twice", "keep one"),
            ("redis://cache?ttl=24", "invalid ttl '24'", "24h"),
            ("redis://cache?ttl=0h", "invalid ttl '0h'", "24h"),
            ("redis://cache?ttl=999999999w", "invalid ttl", "ten years"),
            ("redis://cache?prefix=a%20b", "invalid prefix", "letters"),
            ("redis://cache?prefix=", "invalid prefix", "letters"),
            ("redis://cache?timeout=never", "invalid timeout 'never'", "24h"),
            ("redis://cache?timeout=0", "invalid timeout '0'", "5s"),
            ("redis://cache?ca=pyproject.toml", "ca requires TLS", "rediss://"),
            ("redis://cache?on_error=liev", "invalid on_error 'liev'", "did you mean 'live'?"),
        ],
    )
    def test_what_is_wrong_is_named_with_a_hint(self, url, reason, hint):
        with pytest.raises(InputError) as caught:
            open_store(url)
        assert reason in caught.value.reason
        assert hint in caught.value.hint

    @pytest.mark.parametrize("password", ["s3cret", "s3c/ret", "s3c@ret", "s3c#ret", "s3c:ret"])
    @pytest.mark.parametrize("rest", ["h:1/0", "h:x/0", "h/0?ttl=x", "h:1/0?on=1"])
    def test_no_error_has_the_password(self, password, rest):
        with pytest.raises(InputError) as caught:
            open_store(f"redis://me:{password}@{rest}").write()
        assert "s3c" not in str(caught.value)
        assert "me:***@" in str(caught.value)

    def test_without_the_package_the_extra_is_named(self, monkeypatch):
        load = builtins.__import__

        def refuse(name, *arguments, **options):
            if name == "redis":
                raise ImportError(name)
            return load(name, *arguments, **options)

        monkeypatch.setattr(builtins, "__import__", refuse)
        with pytest.raises(InputError, match="redis is not installed") as caught:
            open_store("redis://cache")
        assert caught.value.hint == install_hint("redis")


class TestLifetime:
    def test_an_exchange_lives_as_long_as_the_url_says_and_reading_changes_nothing(self, server):
        store = open_store(server.url(ttl="1h"))
        append(store, ("a", said("1", request_hash="x")), ("b", said("2")))
        before = {key: server.client.pexpiretime(key) for key in server.keys(store.location)}
        assert all(0 < server.client.pttl(key) <= HOUR_MS for key in before)
        reader = store.read()
        assert [stored.exchange.content for stored in reader] == ["1", "2"]
        assert reader.repeating("a").exchange.content == "1"
        assert reader.last(key=None, fingerprint="x").exchange.content == "1"
        reader.close()
        assert {key: server.client.pexpiretime(key) for key in server.keys(store.location)} == before

    def test_an_index_lives_as_long_as_its_youngest_exchange(self, server):
        url = server.url()
        append(open_store(f"{url}&ttl=1h"), ("a", said("1")))
        append(open_store(f"{url}&ttl=2h"), ("a", said("2")))
        append(open_store(f"{url}&ttl=1m"), ("a", said("3")))
        others = [key for key in server.keys(url) if ":x:" not in key]
        assert all(server.client.pttl(key) > HOUR_MS for key in others)
        append(open_store(url), ("a", said("4")))
        assert {server.client.pttl(key) for key in others if ":exp" not in key} == {-1}

    def test_what_has_expired_is_gone_everywhere_and_in_nobodys_way(self, server):
        store = open_store(server.url(ttl="1h"))
        append(store, ("a", said("1", request_hash="x")), ("a", said("2", request_hash="y")), ("b", said("3")))
        server.client.delete(exchange_keys(server, store)[0])
        reader = store.read()
        assert [stored.exchange.content for stored in reader] == ["2", "3"]
        assert reader.repeating("a").exchange.content == "2"
        assert reader.find(key="a", fingerprint="x", after=-1) is None
        assert reader.find(key=None, fingerprint="x", after=-1) is None
        assert reader.last(key=None, fingerprint="x") is None
        assert reader.gone == 2
        reader.close()
        append(store, ("a", said("4", request_hash="x")))
        assert contents(store) == [("a", "2"), ("a", "4"), ("b", "3")]

    def test_what_was_due_is_removed_from_every_index_by_those_who_write(self, server):
        store = open_store(server.url(ttl="1h"))
        append(store, ("a", said("1", request_hash="x")))
        (member,) = server.client.zrange(f"{{{store.at.prefix}}}:m:exp", 0, -1)
        server.client.zadd(f"{{{store.at.prefix}}}:m:exp", {member: 1})
        server.client.delete(*exchange_keys(server, store))
        assert len(store.read()) == 0
        append(store, ("b", said("2", request_hash="y")))
        assert not [key for key in server.keys(store.location) if key.endswith((":k:a", ":f:x"))]
        assert server.client.zcard(f"{{{store.at.prefix}}}:m:all") == 1

    def test_editing_does_not_make_anything_live_longer(self, server):
        url = server.url()
        append(open_store(f"{url}&ttl=1h"), ("a", said("1", recorded_at="2026")))
        append(open_store(url), ("b", said("2", recorded_at="2027")))
        open_store(f"{url}&ttl=5h").update(lambda document: document.add("c", said("3", recorded_at="2028")))
        left = [server.client.pttl(key) for key in exchange_keys(server, open_store(url))]
        assert 0 < left[0] <= HOUR_MS
        assert left[1] == -1
        assert 4 * HOUR_MS < left[2] <= 5 * HOUR_MS

    def test_a_recording_that_was_flushed_while_it_is_written_starts_again(self, server):
        store = open_store(server.url())
        writer = store.write()
        writer.append("a", said("1"))
        server.client.delete(*server.keys(store.location))
        writer.append("b", said("2"))
        writer.close()
        assert contents(store) == [("b", "2")]
        assert store.load().meta["created_by"].startswith("offbook ")


class TestSharing:
    def test_prefixes_and_databases_do_not_see_each_other(self, server):
        url = server.url("one")
        places = [url, url.replace("=one", "=one.more"), url.replace("/0?", "/1?")]
        for number, place in enumerate(places):
            append(open_store(place), ("a", said(str(number))))
        assert [contents(open_store(place)) for place in places] == [[("a", str(number))] for number in range(3)]
        open_store(places[0]).remove()
        assert [open_store(place).exists() for place in places] == [False, True, True]
        assert not [key for key in server.keys(url) if key.startswith("{one}")]

    def test_a_process_that_died_while_it_edited_keeps_nobody_out_for_ever(self, server):
        store = open_store(server.url())
        append(store, ("a", said("1")))
        Leases(store._connection).acquire("lock")
        lock = f"{{{store.at.prefix}}}:lock"
        assert 0 < server.client.pttl(lock) <= 10_000
        writer = threading.Thread(target=append, args=[store, ("a", said("2"))])
        writer.start()
        server.client.delete(lock)  # as it expires
        writer.join()
        assert contents(store) == [("a", "1"), ("a", "2")]

    def test_an_edit_that_lost_its_lock_writes_nothing(self, server, monkeypatch):
        monkeypatch.setattr("offbook.recording.stores.redis.connection.LOCK_WAIT_S", 0.0)
        store = open_store(server.url())
        append(store, ("a", said("1")))

        def lose(document):
            server.client.set(f"{{{store.at.prefix}}}:lock", "of another", px=60_000)
            document.entries.clear()

        with pytest.raises(RecordingUnavailableError, match="another process edits"):
            store.update(lose)
        assert contents(store) == [("a", "1")]

    def test_an_edit_that_died_changes_nothing_and_the_next_one_removes_what_it_left(self, server, monkeypatch):
        store = open_store(server.url())
        append(store, ("a", said("1")))
        before = server.keys(store.location)
        with monkeypatch.context() as patch:
            patch.setattr(store, "_drain", lambda generations: None)
            patch.setattr(store._connection, "run_each", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.save(Document(entries={"b": said("2")}))
        assert contents(store) == [("a", "1")]
        assert len(server.keys(store.location)) > len(before)
        store.save(Document(entries={"b": said("2")}))
        assert contents(store) == [("b", "2")]
        assert len(server.keys(store.location)) == len(before)

    def test_a_generation_that_is_in_use_is_never_removed(self, server):
        store = open_store(server.url())
        append(store, ("a", said("1")))
        server.client.sadd(f"{{{store.at.prefix}}}:old", "")  # as if it had been replaced, and recorded anew
        store._drain([""])
        assert contents(store) == [("a", "1")]

    def test_a_recording_of_many_batches_is_replaced_and_removed(self, server):
        store = open_store(server.url())
        for content in ("old", "new"):
            store.save(Document(entries={f"step {number}": said(content) for number in range(600)}))
        assert {content for _, content in contents(store)} == {"new"}
        store.remove()
        assert server.keys(store.location) == []


class TestReading:
    @staticmethod
    def round_trips(server, work):
        """How many commands of clients a function needs."""
        before = server.client.info("commandstats")
        work()
        after = server.client.info("commandstats")
        counts = [
            sum(stats[name]["calls"] - stats[name]["failed_calls"] for name in ("cmdstat_evalsha", "cmdstat_eval"))
            for stats in (before, after)
        ]
        return counts[1] - counts[0]

    def test_a_key_takes_one_round_trip_and_what_was_read_is_kept(self, server):
        store = open_store(server.url())
        append(store, *(("loop", said(str(number))) for number in range(50)), ("other", said("x")))
        reader = store.read()

        def replay_the_loop():
            cursor = Cursor(reader)
            for number in range(50):
                match = cursor.match("loop", "")
                cursor.use(match.stored)
                assert match.stored.exchange.content == str(number)

        assert self.round_trips(server, replay_the_loop) == 1
        assert self.round_trips(server, replay_the_loop) == 0
        reader.close()

    def test_a_replay_in_the_order_of_the_recording_reads_ahead(self, server):
        store = open_store(server.url())
        append(store, *((f"step {number}", said(str(number))) for number in range(300)))
        reader = store.read()

        def replay():
            for number in range(300):
                assert reader.repeating(f"step {number}").exchange.content == str(number)

        assert self.round_trips(server, replay) <= 12
        reader.close()

    def test_a_replay_in_another_order_does_not_read_everything_again_and_again(self, server):
        store = open_store(server.url())
        append(store, *((f"step {number}", said("x" * 100)) for number in range(200)))
        reader = store.read()
        before = server.client.info("stats")["total_net_output_bytes"]
        for number in range(0, 200, 7):
            assert reader.repeating(f"step {number}") is not None
        assert server.client.info("stats")["total_net_output_bytes"] - before < 200 * 100
        reader.close()

    def test_a_key_with_more_than_a_batch_is_read_batch_by_batch(self, server):
        store, size = open_store(server.url()), BATCH + 50
        keyed = {"loop": [said(str(number), request_hash=f"h{number}") for number in range(size)]}
        store.save(Document(entries=keyed, tools={"get": [ToolExchange(result=1)] * size}))
        reader = store.read()
        assert reader.repeating("loop") is None
        assert reader.last(key="loop", fingerprint=None).exchange.content == str(size - 1)
        assert reader.find(key="loop", fingerprint=f"h{size - 1}", after=-1).exchange.content == str(size - 1)
        assert reader.last(key="loop", fingerprint="h3").exchange.content == "3"
        assert len(reader) == size
        assert len(reader.tools) == size
        assert len(list(reader.tools)) == size
        reader.close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """The URL of a server that wants certificates, and the folder with those of its clients."""
    folder = tmp_path_factory.mktemp("tls")
    with redis_server.running_with_tls(folder) as url:
        yield url, folder


class TestTls:
    def test_a_client_with_the_right_certificates_records_and_replays(self, tls):
        url, folder = tls
        store = open_store(f"{url}?ca={folder}/ca.pem&cert={folder}/me.pem&key={folder}/me.key")
        append(store, ("a", said("1")))
        assert contents(store) == [("a", "1")]

    @pytest.mark.parametrize(
        ("query", "reason", "hint"),
        [
            ("", "the certificate of the server is not trusted", "ca=/path/ca.pem"),
            ("?ca={0}/ca.pem", "no TLS with the server", "cert=/path/me.pem"),
            ("?ca={0}/me.key", "no TLS with the server", "cert=/path/me.pem"),
            ("?ca={0}/none.pem", "invalid ca", "there is no such file"),
        ],
    )
    def test_what_does_not_fit_is_refused_with_what_to_write(self, tls, query, reason, hint):
        url, folder = tls
        with pytest.raises(InputError) as caught:
            open_store(url + query.format(folder)).write()
        assert reason in caught.value.reason
        assert hint in caught.value.hint

    def test_a_client_without_tls_is_told_of_it(self, tls):
        with pytest.raises(RecordingUnavailableError) as caught:
            open_store(tls[0].replace("rediss", "redis")).write()
        assert "rediss://" in caught.value.hint


class TestRefusals:
    """Each with a real server: one message, nothing lost."""

    def test_a_wrong_password_is_refused_and_not_shown(self):
        with redis_server.running("--requirepass", "right-s3cret") as server:
            for user in ("", ":wrong-s3cret@", "me:wrong-s3cret@"):
                url = server.url("a").replace("://", f"://{user}")
                with pytest.raises(InputError, match="refuses the user or the password") as caught:
                    open_store(url).write()
                assert "s3cret" not in str(caught.value)
            append(open_store(server.url("a").replace("://", "://:right-s3cret@")), ("a", said("1")))

    def test_a_port_where_nobody_listens_is_named(self):
        with redis_server.running() as server:
            url = server.url()
        with pytest.raises(RecordingUnavailableError, match="no connection to the server") as caught:
            open_store(url).write()
        assert "check that the server runs" in caught.value.hint

    @pytest.mark.parametrize("place", ["meta", "m:k:a", "m:f:x", "m:all"])
    def test_a_key_of_another_type_is_left_alone_and_no_half_exchange_is_written(self, server, place):
        store = open_store(server.url())
        writer = store.write()
        server.client.delete(f"{{{store.at.prefix}}}:{place}")
        server.client.set(f"{{{store.at.prefix}}}:{place}", "mine")
        with pytest.raises(RecordingFormatError, match="a key of another type") as caught:
            writer.append("a", said("1", request_hash="x"))
        assert "prefix=" in caught.value.hint
        assert server.client.get(f"{{{store.at.prefix}}}:{place}") == b"mine"
        assert exchange_keys(server, store) == []
        writer.close()

    def test_a_server_without_memory_refuses_and_loses_nothing(self):
        with redis_server.running() as server:
            store = open_store(server.url())
            append(store, ("a", said("1")))
            writer = store.write()
            server.client.config_set("maxmemory", "1mb")
            for attempt in (
                lambda: writer.append("a", said("2")),
                lambda: store.save(Document(entries={"b": said("3")})),
                lambda: store.update(lambda document: document.add("b", said("3"))),
            ):
                with pytest.raises(RecordingUnavailableError, match="is out of memory") as caught:
                    attempt()
                assert "maxmemory" in caught.value.hint
            assert contents(store) == [("a", "1")]
            server.client.config_set("maxmemory", "0")
            writer.append("a", said("2"))
            assert contents(store) == [("a", "1"), ("a", "2")]
            writer.close()

    def test_a_server_that_goes_away_is_an_error_and_one_that_comes_back_is_used_again(self):
        with redis_server.running() as server:
            store = open_store(server.url())
            writer, reader = store.write(), store.read()
            server.client.client_kill_filter(_type="normal", skipme=True)
            with pytest.raises(RecordingUnavailableError, match="no connection"):
                writer.append("a", said("1"))
            writer.append("a", said("2"))
            assert contents(store) == [("a", "2")]
        with pytest.raises(RecordingUnavailableError, match="no connection"):
            writer.append("a", said("3"))
        with pytest.raises(RecordingUnavailableError, match="no connection"):
            reader.repeating("a")

    @pytest.mark.parametrize("fields", [{"version": "9"}, {"version": "2", "meta:x": "{"}, {"other": "1"}])
    def test_a_hash_that_is_no_recording_is_refused(self, server, fields):
        store = open_store(server.url())
        server.client.hset(f"{{{store.at.prefix}}}:meta", mapping=fields)
        for attempt in (store.read, store.load):
            with pytest.raises(RecordingFormatError):
                attempt()


class TestCopying:
    def test_a_recording_is_the_same_after_a_journey_through_all_stores(self, server, tmp_path):
        document = Document(
            meta={"normalise": {"whitespace": True}},
            entries={"one": said("1", request_hash="x"), "list": [said("2")], "two": [said("3"), said("4")]},
            tools={"get": [ToolExchange(result=[1, None])], "put": ToolExchange(result="x")},
            rest={"_plugin": {"a": []}},
            version=1,
        )
        places = [
            tmp_path / "a.json",
            server.url(ttl="1h"),
            f"sqlite:///{tmp_path}/b.db",
            server.url(),
            tmp_path / "c.json",
        ]
        stores = [open_store(place) for place in places]
        stores[0].save(document)
        for source, target in pairwise(stores):
            copy_store(source, target)
        assert stores[-1].path.read_bytes() == stores[0].path.read_bytes()

    def test_a_target_with_exchanges_is_replaced_only_on_demand(self, server, tmp_path):
        source, target = open_store(tmp_path / "a.json"), open_store(server.url())
        append(source, ("a", said("1")))
        append(target, ("b", said("2")))
        with pytest.raises(InputError, match="already exists") as caught:
            copy_store(source, target)
        assert "--force" in caught.value.hint
        assert contents(target) == [("b", "2")]
        copy_store(source, target, force=True)
        assert contents(target) == [("a", "1")]
        with pytest.raises(InputError, match="both the source and the target"):
            copy_store(target, target, force=True)
