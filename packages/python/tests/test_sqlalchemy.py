import asyncio
import os
import sqlite3
import sys
import threading

import pytest

import oneflush

sqlalchemy = pytest.importorskip("sqlalchemy")

from sqlalchemy import exc, pool, text  # noqa: E402
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column  # noqa: E402

from oneflush.sqlalchemy import create_async_engine, create_engine  # noqa: E402


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "item"
    number: Mapped[int] = mapped_column(primary_key=True)
    words: Mapped[str]


def strategy_of(engine):
    with engine.connect() as connection:
        return oneflush.strategy(connection.connection.driver_connection)


def count(engine):
    with Session(engine) as session:
        return session.query(Item).count()


ENGINES = {
    "the function": lambda: create_engine("sqlite:///app.db", strategy="eager"),
    "a URL": lambda: sqlalchemy.create_engine("sqlite+oneflush:///app.db?strategy=eager"),
    "an absolute path": lambda: create_engine(f"sqlite:///{os.getcwd()}/app.db", "eager"),
    "a URI": lambda: create_engine("sqlite:///file:app.db?cache=private&uri=true", "eager"),
}


@pytest.mark.parametrize("how", ENGINES)
def test_the_orm_works_on_it(how, stock):
    engine = ENGINES[how]()
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(Item(number=number, words="word") for number in range(100))
        session.commit()
        session.add(Item(number=1000, words="rolled back"))
        session.rollback()
    assert (strategy_of(engine), count(engine)) == ("eager", 100)
    assert isinstance(engine.pool, pool.QueuePool)
    engine.dispose()
    assert stock("app.db", "SELECT count(*) FROM item") == "[(100,)]"


def test_options_go_to_oneflush_and_the_rest_to_sqlalchemy_and_sqlite3():
    engine = create_engine(
        "sqlite:///app.db?timeout=1.5",
        "eager",
        durability="full",
        group_commit=False,
        log_size=1 << 20,
        echo=False,
        pool_size=3,
        connect_args={"cached_statements": 7},
    )
    assert engine.url.query == {
        "timeout": "1.5",
        "strategy": "eager",
        "durability": "full",
        "group_commit": "off",
        "log_size": "1048576",
    }
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 1500
    assert engine.pool.size() == 3
    engine.dispose()


def test_what_is_wrong_is_said():
    for url in ("sqlite:///app.db", "sqlite:///app.db?journal_mode=wal", "sqlite://"):
        with pytest.raises(oneflush.OptionError, match="allowed: auto, stock, plain"):
            create_engine(url, "fast")
    with pytest.raises(exc.ArgumentError, match="Oneflush is for SQLite"):
        create_engine("postgresql://localhost/app")
    sqlite3.connect("old.db").execute("CREATE TABLE t(a)").connection.close()
    with pytest.raises(exc.OperationalError, match='journal_mode="wal" changes the database'):
        create_engine("sqlite:///old.db", "eager").connect()
    engine = create_engine("sqlite:///old.db", "eager", journal_mode="wal")
    assert strategy_of(engine) == "eager"
    with pytest.raises(exc.OperationalError, match=r"\[OF-119\]"):
        create_engine("sqlite:///old.db", "plain").connect()
    engine.dispose()


def test_reading_only():
    create_engine("sqlite:///app.db", "plain").connect().close()
    engine = sqlalchemy.create_engine("sqlite+oneflush:///app.db?mode=ro")
    with engine.connect() as connection, pytest.raises(exc.OperationalError, match="readonly"):
        connection.execute(text("CREATE TABLE t(a)"))
    engine.dispose()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_works_as_with_sqlalchemy_alone(url):
    engine = create_engine(url, strategy="eager")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Item(number=1, words="word"))
        session.commit()
    assert (strategy_of(engine), count(engine)) == (None, 1)
    assert isinstance(engine.pool, pool.SingletonThreadPool)
    assert os.listdir() == []


def test_threads_share_the_pool():
    engine = create_engine("sqlite:///app.db", "plain", connect_args={"timeout": 30})
    Base.metadata.create_all(engine)

    def add(part):
        for number in range(part, 200, 8):
            with Session(engine) as session:
                session.add(Item(number=number, words="word"))
                session.commit()

    threads = [threading.Thread(target=add, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(engine) == 200
    engine.dispose()


FORK = """
import oneflush, os, sys
from oneflush.sqlalchemy import create_engine, _of_parents
from sqlalchemy import text
engine = create_engine(sys.argv[1], sys.argv[2], connect_args={"timeout": 30})
with engine.begin() as db:
    db.execute(text("CREATE TABLE t(a)"))
    ours = db.connection.driver_connection
children = []
for child in range(4):
    pid = os.fork()
    if pid == 0:
        for number in range(25):
            with engine.begin() as db:
                db.execute(text("INSERT INTO t VALUES (:n)"), {"n": child * 25 + number})
                assert (db.connection.driver_connection is ours) == (sys.argv[3] == "same")
        assert len(_of_parents) == (0 if sys.argv[3] == "same" else 1)
        print(child, db.closed, flush=True)
        sys.stdout.flush()
        sys.exit(0)
    children.append(pid)
for number in range(100, 125):
    with engine.begin() as db:
        db.execute(text("INSERT INTO t VALUES (:n)"), {"n": number})
        assert db.connection.driver_connection is ours
assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
with engine.connect() as db:
    print(db.execute(text("SELECT count(*), count(DISTINCT a) FROM t")).one())
engine.dispose()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.parametrize("strategy", ["plain", "eager"])
def test_a_child_gets_connections_of_its_own(strategy, python, stock):
    ended = python(FORK, "sqlite:///app.db", strategy, "own")
    assert ended.stdout.splitlines()[-1] == "(125, 125)"
    assert stock("app.db", "SELECT count(*) FROM t") == "[(125,)]"
    assert stock("app.db", "PRAGMA integrity_check") == "[('ok',)]"


def test_a_child_goes_on_with_its_copy_of_a_database_in_memory(python):
    ended = python(FORK, "sqlite://", "eager", "same")
    assert ended.stdout.splitlines()[-1] == "(25, 25)"


@pytest.mark.parametrize("how", ["the function", "a URL"])
def test_asyncio(how, stock):
    pytest.importorskip("aiosqlite")
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.ext.asyncio import create_async_engine as of_sqlalchemy

    engines = {
        "the function": lambda: create_async_engine("sqlite+aiosqlite:///app.db", "eager"),
        "a URL": lambda: of_sqlalchemy("sqlite+oneflush_async:///app.db?strategy=eager"),
    }

    async def work():
        engine = engines[how]()
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)

        async def add(part):
            for number in range(part, 100, 4):
                async with AsyncSession(engine) as session:
                    session.add(Item(number=number, words="word"))
                    await session.commit()

        await asyncio.gather(*(add(part) for part in range(4)))
        async with engine.connect() as connection:
            strategy = (await connection.execute(text("PRAGMA oneflush_strategy"))).scalar()
        await engine.dispose()
        return strategy

    assert asyncio.run(work()) == "eager"
    assert stock("app.db", "SELECT count(*) FROM item") == "[(100,)]"


def test_asyncio_says_why_it_was_refused():
    pytest.importorskip("aiosqlite")
    with pytest.raises(oneflush.OptionError, match="allowed: pragma, full"):
        create_async_engine("sqlite:///app.db", "eager", durability="maybe")

    async def work():
        in_use = oneflush.connect("app.db", "eager")
        engine = create_async_engine("sqlite:///app.db", "plain")
        with pytest.raises(exc.OperationalError, match=r"\[OF-119\]"):
            await engine.connect()
        in_use.close()
        await asyncio.sleep(0.1)  # aiosqlite ends its thread by the loop

    asyncio.run(work())
