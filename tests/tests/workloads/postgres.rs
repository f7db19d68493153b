//! PostgreSQL on a mount: a cluster with checksums under pgbench, killed in the middle, recovered, and verified.

use super::mounted;
use crate::support::postgres::{Postgres, installed};
use crate::support::*;

here_and_elsewhere! {
    fn a_killed_cluster_recovers_all_acknowledged_transactions() {
        need!(root_and_fuse());
        let programs = need!(installed());
        let (seconds, kills, scale) = amount((3, 1, 1), (60, 5, 10));
        let (mount, server) = mounted();
        let cluster = Postgres::init(programs, server.home().path(), mount.path());
        cluster.start();
        cluster.load(scale);
        let mut acknowledged = 0;
        for _ in 0..kills {
            // pgbench notices that its server is gone, and still reports what was done.
            let mut bench = cluster.bench(4, seconds * 10);
            let output = std::thread::scope(|threads| {
                let bench = threads.spawn(move || run(&mut bench, limit(120)).expect("pgbench ends"));
                std::thread::sleep(std::time::Duration::from_secs(seconds));
                cluster.kill9();
                bench.join().expect("pgbench ran")
            });
            assert!(!output.status.success(), "it was killed under pgbench: {output}");
            acknowledged += Postgres::transactions(&output.stdout);
            cluster.start();
            let kept = cluster.audit();
            assert!(kept >= acknowledged, "{kept} transactions are in the tables, {acknowledged} were acknowledged");
            acknowledged = kept;
        }
        assert!(acknowledged > 10, "only {acknowledged} transactions: too little load");
        drop(run(&mut cluster.bench(4, seconds), limit(120)).expect("pgbench ends").ok());
        cluster.check_and_stop();
    }
}
