"""Against a real `fencing serve`: FENCING_URL is its address, FENCING_SERVE_PID its process.

The client FENCING_CLIENT_TOKEN may lock everything, the client `nobody` nothing."""
import asyncio
import os
import signal
import socket
import sqlite3
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import psycopg
import psycopg2

from fencing import AsyncLease, FencingError, Held, InDoubt, Lease, Lost, Refused, Stale, Unavailable, fenced

PID = int(os.environ["FENCING_SERVE_PID"])


def until(what, happens):
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Leases(unittest.TestCase):
    def test_held_by_another(self):
        with Lease("held", ttl=30) as lease:
            with self.assertRaises(Held) as held:
                Lease("held").acquire()
            self.assertGreater(held.exception.retry_after, 0)
            self.assertFalse(lease.lost)
            self.assertEqual(lease.sequencer, f"{lease.token} held")
            self.assertEqual(lease.headers["Fencing-Token"], str(lease.token))
        self.assertTrue(lease.lost)
        self.assertFalse(lease.release())
        with self.assertRaises(Lost):
            lease.check()
        with Lease("held", wait=20) as later:
            self.assertGreater(later.token, lease.token)

    def test_it_is_renewed_beyond_its_ttl(self):
        with Lease("renewed", ttl=12) as lease:
            self.assertFalse(lease.wait_lost(14))
            with self.assertRaises(Held):
                Lease("renewed").acquire()

    def test_a_wait_that_is_longer_than_the_ttl(self):
        first = Lease("waits", ttl=12).acquire()
        threading.Timer(14, first.release).start()
        with Lease("waits", ttl=12, wait=60) as lease:
            self.assertFalse(lease.lost)

    def test_names_of_all_kinds(self):
        for name in ["a b/ü%2F", "a?b#c/d", "x+y;z", "weiß/日本"]:
            with Lease(name) as lease:
                self.assertEqual(lease.sequencer, f"{lease.token} {name}")

    def test_what_is_wrong_is_refused(self):
        for name in ["", "a//b", "../a"]:
            with self.assertRaises(Refused):
                Lease(name).acquire()
        with self.assertRaises(Refused):
            Lease("a", ttl=1e6).acquire()
        with self.assertRaises(Refused):
            Lease("a", url="ftp://127.0.0.1")

    def test_who_is_unknown_or_has_no_right_is_refused(self):
        for token in ["unknown", "nobody"]:
            with self.assertRaises(Refused):
                Lease("a", client_token=token).acquire()

    def test_an_error_in_the_block_releases(self):
        with self.assertRaises(ZeroDivisionError):
            with Lease("error", ttl=60):
                1 / 0
        with Lease("error", wait=20):
            pass

    def test_nobody_is_there_or_no_lock_service(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            with self.assertRaises(Unavailable):
                Lease("a", url=f"http://127.0.0.1:{free.getsockname()[1]}").acquire()
        for answer in [b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/1.1 201 Created\r\n\r\nhello", b""]:
            with socket.create_server(("127.0.0.1", 0)) as server:
                def serve():
                    client, _ = server.accept()
                    client.recv(65536)
                    client.sendall(answer)
                    client.close()

                thread = threading.Thread(target=serve)
                thread.start()
                with self.assertRaises(InDoubt):
                    Lease("a", url=f"http://127.0.0.1:{server.getsockname()[1]}").acquire()
                thread.join()

    def test_asyncio(self):
        async def use():
            async with AsyncLease("async", ttl=30) as lease:
                with self.assertRaises(Held):
                    await AsyncLease("async").__aenter__()
                waiting = asyncio.ensure_future(AsyncLease("async", ttl=600, wait=50).__aenter__())
                await asyncio.sleep(0.5)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting
                return lease

        lease = asyncio.run(use())
        self.assertTrue(lease.lost)
        # What the cancelled one got is given back.
        with Lease("async", wait=50):
            pass

    def test_asyncio_clients_that_wait_do_not_hold_up_a_release(self):
        async def one():
            async with AsyncLease("in turn", ttl=30, wait=50):
                await asyncio.sleep(0.1)

        async def three():
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            await asyncio.gather(one(), one(), one())

        asyncio.run(three())

    def test_an_asynchronous_cursor_is_refused(self):
        async def use():
            async with await psycopg.AsyncConnection.connect(user="fencing") as database:
                with self.assertRaises(TypeError), fenced(database.cursor(), None):
                    self.fail("it would not be fenced")

        asyncio.run(use())

    def test_a_stale_write_is_refused_by_sqlite(self):
        self.refuses_a_stale_write("sqlite", sqlite3.connect(os.environ["FENCING_TEST_DATABASE"]))

    def test_a_stale_write_is_refused_by_postgresql(self):
        for library in [psycopg, psycopg2]:
            self.refuses_a_stale_write(library.__name__, library.connect(user="fencing"))

    def refuses_a_stale_write(self, name, database):
        cursor = database.cursor()
        cursor.execute("DROP TABLE IF EXISTS files")
        cursor.execute("CREATE TABLE files (path TEXT PRIMARY KEY, body TEXT)")
        database.commit()
        old = Lease(name, ttl=60).acquire()
        with fenced(cursor, old):
            cursor.execute("INSERT INTO files VALUES ('files/report', 'old')")
        old.release()
        with Lease(name, wait=20) as new:
            with fenced(cursor, new):
                cursor.execute("UPDATE files SET body = 'new'")
        # As a client that has slept, and does not know that its lease is over.
        old._over.clear()
        old._deadline += 1000
        with self.assertRaisesRegex(Stale, r"^token \d+ is stale, \d+ was seen$"):
            with fenced(cursor, old):
                cursor.execute("UPDATE files SET body = 'late'")
        with self.assertRaises(ZeroDivisionError):
            with Lease(name, wait=20) as newest, fenced(cursor, newest):
                cursor.execute("UPDATE files SET body = 'half'")
                1 / 0
        cursor.execute("SELECT body FROM files")
        self.assertEqual(cursor.fetchall(), [("new",)])
        database.commit()
        # A statement that failed and was caught, or one that has ended the transaction.
        with self.assertRaisesRegex(FencingError, "nothing after that is fenced"):
            with Lease(name, wait=20) as last, fenced(cursor, last):
                if name == "sqlite":
                    cursor.executescript("SELECT 1")
                else:
                    with self.assertRaises(Exception):
                        cursor.execute("SELECT 1 / 0")
        database.close()


class Zzz(unittest.TestCase):
    """The last one: it stops the service for a while."""

    def test_a_service_that_hangs_loses_the_lease_by_its_deadline(self):
        lease = Lease("hangs", ttl=8).acquire()
        os.kill(PID, signal.SIGSTOP)
        try:
            until("it is lost", lambda: lease.lost)
            with self.assertRaises(Lost):
                lease.check()
        finally:
            os.kill(PID, signal.SIGCONT)
        lease.release()
        # It was renewed by nobody.
        with Lease("hangs", wait=50) as next_one:
            self.assertGreater(next_one.token, lease.token)


if __name__ == "__main__":
    unittest.main()
