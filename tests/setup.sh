#!/usr/bin/env bash
# Installs what the tests use beside cargo: Debian packages, a Python venv, Go, Node and Java programs, two cargo tools.
#
#   tests/setup.sh           install what is missing (quick when nothing is)
#   tests/setup.sh --check   install nothing; exit 1 if something is missing
#
# - Everything but the Debian packages goes to .test-tools/, which git ignores.
# - A tool counts as installed when its marker, named after its version, is there; the marker is written last.
# - Without a network, root or a compiler the rest is still installed, one line names what is missing, and the
#   exit status is 0: a test that needs a missing tool skips and says so.
set -uo pipefail

BOTO3=1.44.5
AWSCLI=1.46.3
S3CMD=2.4.0
GRPCIO=1.85.1     # the gRPC C core, for Python
CSI_SANITY=v5.5.0   # needs Go 1.25
PJDFSTEST=0.2.2
FSX=0.3.2
PROMTOOL=debian
DELTALAKE=1.6.6
PYICEBERG=0.12.0
DUCKDB=1.5.5        # its extension httpfs comes as a package of the same version
PYTHON_TOOLS=$BOTO3-$AWSCLI-$S3CMD

cd "$(dirname "$0")/.." || exit 1
TOOLS=$PWD/.test-tools
LOG=$TOOLS/setup.log
MISSING=()

# command:package. Commands are looked up in sbin too, where mkfs is and which a plain user's PATH lacks.
PACKAGES=(sqlite3:sqlite3 git:git mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs strace:strace setfattr:attr setfacl:acl
  openssl:openssl xfs_io:xfsprogs mount:mount prlimit:util-linux cc:gcc node:nodejs npm:npm rsync:rsync /usr/bin/rclone:rclone
  /usr/bin/s3cmd:s3cmd /usr/bin/aws:awscli /usr/bin/restic:restic s3fs:s3fs db_bench:rocksdb-tools fio:fio
  java:default-jre-headless mvn:maven)
PATH=$PATH:/usr/sbin:/sbin

has() { command -v "$1" >/dev/null 2>&1; }
marker() { echo "$TOOLS/.installed/$1"; }

missing_packages() {
  local entry
  for entry in "${PACKAGES[@]}"; do
    has "${entry%%:*}" || echo "${entry##*:}"
  done
  # PostgreSQL's programs are not in PATH.
  compgen -G '/usr/lib/postgresql/*/bin/pg_amcheck' >/dev/null || echo postgresql
  # Most machines have the interpreter; on Debian the module that fills a venv is a separate package.
  [ -e "$(marker "python-$PYTHON_TOOLS")" ] || python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

install_packages() {
  [ "$(id -u)" = 0 ] && has apt-get || { echo "packages need root and apt-get: $*"; return 1; }
  export DEBIAN_FRONTEND=noninteractive
  # The tests create their own clusters, so the package must not create one that starts with the machine.
  [ -e /etc/postgresql-common ] || { mkdir -p /etc/postgresql-common &&
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf; }
  local bounded=(-o Acquire::http::Timeout=20 -o Acquire::Retries=1 -o DPkg::Lock::Timeout=120)
  timeout 300 apt-get "${bounded[@]}" update -q &&
    timeout 600 apt-get "${bounded[@]}" install -q -y --no-install-recommends "$@"
}

install_python() {
  rm -rf "$TOOLS/venv" && python3 -m venv "$TOOLS/venv" &&
    timeout 600 "$TOOLS/venv/bin/pip" install --disable-pip-version-check --timeout 20 --retries 1 \
      "boto3==$BOTO3" "awscli==$AWSCLI" "s3cmd==$S3CMD"
}

install_grpcio() {
  timeout 300 "$TOOLS/venv/bin/pip" install --disable-pip-version-check --timeout 20 --retries 1 "grpcio==$GRPCIO"
}

# In a separate venv: they take hundreds of megabytes and pin their dependencies. The marker inside is written last.
install_lake() {
  rm -rf "$TOOLS/lake" && python3 -m venv "$TOOLS/lake" &&
    timeout 600 "$TOOLS/lake/bin/pip" install --disable-pip-version-check --timeout 20 --retries 1 \
      "deltalake==$DELTALAKE" "pyiceberg[pyarrow,sql-sqlite]==$PYICEBERG" "duckdb==$DUCKDB" \
      "duckdb-extension-httpfs==$DUCKDB" && touch "$TOOLS/lake/done"
}

install_csi_sanity() {
  GOBIN=$TOOLS/bin timeout 900 go install "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@$CSI_SANITY"
}

# The programs of tests/go (s3clients and rclone), restic and Docker's registry; what they are built from is pinned in each
# go.mod.
install_go_programs() {
  (cd tests/go && GOBIN=$TOOLS/bin timeout 600 go install ./...) &&
    (cd tests/go/restic && GOBIN=$TOOLS/bin timeout 600 go install tool) &&
    (cd tests/go/registry && GOBIN=$TOOLS/bin timeout 600 go install tool)
}

# Beside the tree and not in it: what npm makes of tests/js/package-lock.json.
install_node_modules() {
  rm -rf "$TOOLS/js" && mkdir -p "$TOOLS/js" && cp tests/js/package.json tests/js/package-lock.json "$TOOLS/js/" &&
    (cd "$TOOLS/js" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund)
}

# Hadoop's S3A, as Maven resolves tests/java/pom.xml. The mark inside is written last.
install_hadoop() {
  rm -rf "$TOOLS/hadoop" &&
    timeout 600 mvn -q -B -f tests/java/pom.xml dependency:copy-dependencies "-DoutputDirectory=$TOOLS/hadoop" &&
    touch "$TOOLS/hadoop/done"
}

# The version of our own programs: a hash of their sources.
digest() { find "$@" -type f -print0 | sort -z | xargs -0 cat | sha256sum | cut -c1-12; }

# One program out of a Debian package, which would also install a server that the tests do not need.
install_promtool() {
  local dir bounded=(-o Acquire::http::Timeout=20 -o Acquire::Retries=1)
  dir=$(mktemp -d) || return
  (cd "$dir" && { timeout 300 apt-get "${bounded[@]}" download -q prometheus ||
    { timeout 300 apt-get "${bounded[@]}" update -q && timeout 300 apt-get "${bounded[@]}" download -q prometheus; }; } &&
    dpkg -x prometheus_*.deb . && install -m 755 usr/bin/promtool "$TOOLS/bin/promtool")
  local status=$?
  rm -rf "$dir"
  return "$status"
}

install_crate() {
  CARGO_NET_RETRY=1 timeout 1800 "${CARGO:-cargo}" install --locked --force --root "$TOOLS" "$1@$2"
}

# tool NAME VERSION COMMAND...: runs COMMAND unless the marker is there, and leaves the marker if it succeeds.
tool() {
  local name=$1 version=$2 done
  shift 2
  done=$(marker "$name-$version")
  [ -e "$done" ] && return
  if [ "$CHECK" = no ]; then
    echo "setup: installing $name $version"
    if { echo "== $name $version"; "$@"; } >>"$LOG" 2>&1; then
      touch "$done"
      return
    fi
  fi
  MISSING+=("$name")
}

packages() {
  local wanted
  mapfile -t wanted < <(missing_packages)
  [ "${#wanted[@]}" = 0 ] && return
  if [ "$CHECK" = no ]; then
    echo "setup: installing Debian packages: ${wanted[*]}"
    { echo "== packages"; install_packages "${wanted[@]}"; } >>"$LOG" 2>&1
    # Checked again, since apt may have installed some packages and not others.
    mapfile -t wanted < <(missing_packages)
  fi
  MISSING+=("${wanted[@]}")
}

case ${1:-} in
  "") CHECK=no ;;
  --check) CHECK=yes ;;
  *) echo "usage: tests/setup.sh [--check]" >&2; exit 2 ;;
esac

if [ "$CHECK" = no ]; then
  mkdir -p "$TOOLS/.installed" "$TOOLS/bin" || exit 1
  # A lock, since two runs at once would write into the same folders.
  exec 9>"$TOOLS/.lock" && flock 9
  : >"$LOG"
fi

packages
tool python "$PYTHON_TOOLS" install_python
tool grpcio "$GRPCIO-in-$PYTHON_TOOLS" install_grpcio
tool lake "$DELTALAKE-$PYICEBERG-$DUCKDB" install_lake
tool csi-sanity "$CSI_SANITY" install_csi_sanity
tool go-programs "$(digest tests/go)" install_go_programs
tool node-modules "$(digest tests/js/package-lock.json)" install_node_modules
tool hadoop "$(digest tests/java)" install_hadoop
tool pjdfstest "$PJDFSTEST" install_crate pjdfstest "$PJDFSTEST"
tool fsx "$FSX" install_crate fsx "$FSX"
tool promtool "$PROMTOOL" install_promtool

[ "${#MISSING[@]}" = 0 ] && exit 0
if [ "$CHECK" = yes ]; then
  echo "setup: missing: ${MISSING[*]}; run tests/setup.sh"
  exit 1
fi
echo "setup: missing: ${MISSING[*]}; tests that need them are skipped (reasons in .test-tools/setup.log)"
