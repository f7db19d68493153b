"""Tables in a bucket: delta-rs, pyiceberg and DuckDB, each written, read back, changed and read by another."""

import os
import sys

import duckdb
import duckdb_extension_httpfs
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyiceberg.catalog.sql import SqlCatalog

ENDPOINT = os.environ["AMPHORA_S3"]
ACCESS, SECRET = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
ROWS = 200_000


def rows(first, count):
    numbers = range(first, first + count)
    return pa.table({
        "id": pa.array(numbers, pa.int64()),
        "text": pa.array([f"row {number * 7919 % 100_003}" for number in numbers]),
        "part": pa.array([f"p{number % 3}" for number in numbers]),
    })


def same(found, expected, what):
    found, expected = found.sort_by("id").combine_chunks(), expected.sort_by("id").combine_chunks()
    names = ["id", "text", "part"]
    assert found.select(names).to_pydict() == expected.select(names).to_pydict(), what


def delta():
    options = {
        "AWS_ENDPOINT_URL": ENDPOINT, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
        # delta-rs commits with If-None-Match, so one of two writers wins.
        "conditional_put": "etag",
    }
    at = "s3://lake/delta"
    write_deltalake(at, rows(0, ROWS), partition_by=["part"], storage_options=options)
    write_deltalake(at, rows(ROWS, 1000), mode="append", storage_options=options)
    table = DeltaTable(at, storage_options=options)
    same(table.to_pyarrow_table(), rows(0, ROWS + 1000), "delta: appended")
    stale = DeltaTable(at, storage_options=options)
    table.delete("id < 1000")
    same(DeltaTable(at, storage_options=options).to_pyarrow_table(), rows(1000, ROWS), "delta: deleted")
    try:
        stale.delete("id < 1000")
    except CommitFailedError:
        pass  # Both writers deleted the same rows, so the second one gets an error.
    same(DeltaTable(at, storage_options=options).to_pyarrow_table(), rows(1000, ROWS), "delta: twice deleted")
    same(DeltaTable(at, version=0, storage_options=options).to_pyarrow_table(), rows(0, ROWS), "delta: an old version")
    table = DeltaTable(at, storage_options=options)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    table.create_checkpoint()
    same(DeltaTable(at, storage_options=options).to_pyarrow_table(), rows(1000, ROWS), "delta: compacted, vacuumed")


def iceberg():
    catalog = SqlCatalog("tests", **{
        "uri": "sqlite:///catalog.db", "warehouse": "s3://lake/iceberg", "s3.endpoint": ENDPOINT,
        "s3.access-key-id": ACCESS, "s3.secret-access-key": SECRET, "s3.region": "us-east-1",
    })
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=rows(0, 1).schema)
    table.append(rows(0, ROWS))
    table.append(rows(ROWS, 1000))
    table.delete("id < 1000")
    table = catalog.load_table("n.t")
    same(table.scan().to_arrow(), rows(1000, ROWS), "iceberg: appended and deleted")
    first = table.history()[0].snapshot_id
    same(table.scan(snapshot_id=first).to_arrow(), rows(0, ROWS), "iceberg: an old snapshot")
    catalog.purge_table("n.t")


def duck():
    db = duckdb.connect()
    folder = os.path.dirname(duckdb_extension_httpfs.__file__)
    extension = next(
        os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
        if name == "httpfs.duckdb_extension")
    db.execute(f"LOAD '{extension}'")
    scheme, host = ENDPOINT.split("://")
    db.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{ACCESS}', SECRET '{SECRET}', REGION 'us-east-1', ENDPOINT '{host}', "
        f"URL_STYLE 'path', USE_SSL {str(scheme == 'https').lower()})")
    table = rows(0, 2_000_000)
    db.register("rows", table)
    db.execute("COPY rows TO 's3://lake/duck/rows.parquet' (FORMAT parquet)")
    db.execute("COPY (FROM rows LIMIT 1000) TO 's3://lake/duck/csv' (FORMAT csv, PARTITION_BY (part))")
    found = db.execute("SELECT count(*), sum(id), count(DISTINCT part) FROM 's3://lake/duck/rows.parquet'").fetchone()
    assert found == (2_000_000, sum(range(2_000_000)), 3), found
    some = db.execute("SELECT text FROM 's3://lake/duck/rows.parquet' WHERE id = 1234567").fetchone()
    assert some == (f"row {1234567 * 7919 % 100_003}",), some
    found = db.execute("SELECT count(*) FROM read_csv('s3://lake/duck/csv/*/*.csv')").fetchone()
    assert found == (1000,), found
    # Reads tables that another library wrote.
    found = db.execute("SELECT count(*) >= 200000 FROM read_parquet('s3://lake/delta/**/*.parquet')").fetchone()
    assert found == (True,), found


CHECKS = {"delta": delta, "iceberg": iceberg, "duck": duck}
for check in sys.argv[1:]:
    CHECKS[check]()
print(f"{len(sys.argv) - 1} of {len(sys.argv) - 1} checks passed")
