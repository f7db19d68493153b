#!/usr/bin/env bash
# Installs the servers and mounts that the benchmarks compare with, through the Go and Rust clients, into .test-tools/bench.
#
#   benches/peers.sh                   minio and versitygw (a few minutes each)
#   benches/peers.sh garage s3s-fs     these (garage takes a quarter of an hour to compile)
#   benches/peers.sh minio juicefs weed   those of benches/remote.py
set -euo pipefail

MINIO=v0.0.0-20260212201848-7aac2a2c5b7c
VERSITYGW=v1.8.0
GARAGE=2.5.0
S3S_FS=0.17.0
JUICEFS=v1.4.0
SEAWEEDFS=v0.0.0-20261109003541-7506e5f91cd6

root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/.test-tools/bench
mkdir -p "$home/bin"
export GOBIN=$home/bin GOFLAGS=-buildvcs=false CARGO_TARGET_DIR=$home/target

# Its go.mod replaces modules, which `go install` refuses. What a mount on S3 does not use is left out.
juicefs() {
  source=$(go mod download -json "github.com/juicedata/juicefs@$JUICEFS" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  rm -rf "$home/juicefs-source"
  cp -r "$source" "$home/juicefs-source"
  chmod -R u+w "$home/juicefs-source"
  cd "$home/juicefs-source"
  go build -tags nogateway,nowebdav,nohdfs,nosftp -o "$home/bin/juicefs" .
}

[ $# -gt 0 ] || set -- minio versitygw
for peer in "$@"; do
  [ -x "$home/bin/$peer" ] && continue
  case $peer in
    minio) install=(go install "github.com/minio/minio@$MINIO") ;;
    versitygw) install=(go install "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW") ;;
    garage) install=(cargo install "garage@$GARAGE" --locked --root "$home") ;;
    s3s-fs) install=(cargo install "s3s-fs@$S3S_FS" --features binary --ignore-rust-version --root "$home") ;;
    juicefs) install=(juicefs) ;;
    weed) install=(go install "github.com/seaweedfs/seaweedfs/weed@$SEAWEEDFS") ;;
    *) echo "unknown peer $peer: name minio, versitygw, garage, s3s-fs, juicefs or weed" >&2; exit 2 ;;
  esac
  echo "installing $peer; its output is in $home/$peer.log"
  # A peer that cannot be installed is left out of the comparison.
  (cd "$home" && "${install[@]}" >"$home/$peer.log" 2>&1) || echo "$peer could not be installed" >&2
done
