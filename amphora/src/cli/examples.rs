//! The examples in the `--help` of each command group. A test parses each line of them.

pub(super) const ALL: &str = "\
Examples:
  amphora serve --data-dir /var/lib/amphora
  amphora bucket create photos --quota 10Gi
  amphora account create alice
  amphora grant add photos --account alice --mode rw
  amphora key create --account alice
  amphora mount photos /mnt/photos";

pub(super) const BUCKET: &str = "\
Examples:
  amphora bucket create photos --quota 10Gi --versioning
  amphora bucket create photos-copy --from-snapshot photos-monday
  amphora bucket set photos --no-quota
  amphora bucket hidden photos --prefix 2026/
  amphora bucket ls --output json
  amphora bucket rm photos --force";

pub(super) const ACCOUNT: &str = "\
Examples:
  amphora account create alice --may-create-buckets
  amphora account ls
  amphora account rm alice";

pub(super) const KEY: &str = "\
Examples:
  amphora key create --account alice
  amphora key rotate --account alice --output json
  amphora key ls --account alice
  amphora key rm AMPHEXAMPLE";

pub(super) const MASTER_KEY: &str = "\
Examples:
  amphora master-key rotate";

pub(super) const GRANT: &str = "\
Examples:
  amphora grant add photos --account alice --mode rw
  amphora grant ls photos
  amphora grant rm photos --account alice";

pub(super) const ROLE: &str = "\
Examples:
  amphora role create web --account shop --issuer https://k8s.example.org --subject system:serviceaccount:shop:web
  amphora role create reader --account shop --trust-account alice
  amphora role ls --account shop
  amphora role rm web --account shop";

pub(super) const SNAPSHOT: &str = "\
Examples:
  amphora snapshot create photos photos-monday
  amphora snapshot ls photos
  amphora snapshot rm photos-monday";

pub(super) const VOLUME: &str = "\
Examples:
  amphora volume ls
  amphora volume show pvc-1";

pub(super) const SESSION: &str = "\
Examples:
  amphora session ls
  amphora session ls --bucket pvc-1
  amphora session ls --ended
  amphora session show 0123456789abcdef0123456789abcdef
  amphora session end 0123456789abcdef0123456789abcdef";

pub(super) const NODE: &str = "\
Examples:
  amphora node --server store:7000 --csi-node-endpoint unix:///run/amphora-node/csi.sock
  amphora node ls";

pub(super) const MOUNT: &str = "\
Examples:
  amphora mount photos /mnt/photos
  amphora mount photos /mnt/2026 -o ro,prefix=2026
  amphora mount photos /mnt/photos --credentials /etc/amphora/alice
  amphora mount photos /mnt/photos --server store:7000 --ca volume-ca.pem --credentials alice
  amphora mount stats /mnt/photos";

pub(super) const UMOUNT: &str = "\
Examples:
  amphora umount /mnt/photos";

pub(super) const CHECK: &str = "\
Examples:
  amphora check /var/lib/amphora
  amphora check /var/lib/amphora --repair
  amphora check --metadata-url postgres://amphora@db/amphora --content-url s3://content/amphora";

pub(super) const MIGRATE: &str = "\
Examples:
  amphora migrate --data-dir /var/lib/amphora --metadata-url postgres://amphora@db/amphora --content-url s3://content/amphora
  amphora migrate --to-data-dir /var/lib/amphora --metadata-url postgres://amphora@db/amphora --content-url s3://content/amphora";

pub(super) const HANDOVER: &str = "\
Examples:
  amphora handover
  amphora handover --wait 5m";

pub(super) const SCRUB: &str = "\
Examples:
  amphora scrub --rate 100Mi";

pub(super) const BACKUP: &str = "\
Examples:
  amphora backup photos /backups
  amphora backup --all /backups
  amphora backup ls /backups
  amphora backup verify /backups
  amphora backup prune /backups --keep 7";

pub(super) const RESTORE: &str = "\
Examples:
  amphora restore /backups photos
  amphora restore /backups photos --as photos-again
  amphora restore /backups --all";
