//! Tables in a bucket, as delta-rs, pyiceberg and DuckDB keep them.

use crate::support::program::{client, run_checks};
use crate::support::*;

#[test]
fn tables_of_delta_iceberg_and_duckdb_are_written_changed_and_read_back() {
    let python = need!(lake_python());
    let server = Server::start();
    make_bucket(&server, "lake", &[]);
    let mut command = client(&python, &server);
    run_checks(command.arg(repo().join("tests/python/lake.py")).args(["delta", "iceberg", "duck"]));
}
