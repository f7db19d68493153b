#!/usr/bin/env bash
# Makes the container image for the architecture of this machine.
#
#   deploy/image/build.sh [NAME:TAG]     builds the program, and the image with buildah or podman
#   deploy/image/build.sh --files DIR    builds the program, and fills DIR with the files of the image, by architecture
#
# PROGRAM=FILE takes a static program that was built before. The debug information is kept beside the files, in DIR.debug.
set -euo pipefail
cd "$(dirname "$0")/../.."

machine=$(uname -m)
case $machine in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64 ;;
  *) echo "build.sh: no image is made for $machine, only for x86_64 and aarch64" >&2; exit 1 ;;
esac
target=$machine-unknown-linux-gnu
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# Static with glibc, the C library that everything is tested with: no loader and no library in the image.
program() {
  [ -n "${PROGRAM:-}" ] && { echo "$PROGRAM"; return; }
  RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --ignore-rust-version --package amphora --target "$target" >&2
  echo "target/$target/release/amphora"
}

# files DIR: the tree of the image below DIR/ARCH.
files() {
  local root=$1/$arch built headers
  built=$(program)
  # Not in one pipeline: without objdump, or if grep ends before it, that would pass for a static program.
  headers=$(objdump --private-headers "$built")
  ! grep -q NEEDED <<<"$headers" || { echo "build.sh: $built is not static" >&2; return 1; }
  rm -rf "$root" "$1.debug/$arch"
  mkdir -p "$root/usr/bin" "$root/usr/share/doc/amphora" "$root/etc" "$1.debug/$arch"
  objcopy --only-keep-debug "$built" "$1.debug/$arch/amphora.debug"
  objcopy --strip-all --add-gnu-debuglink="$1.debug/$arch/amphora.debug" "$built" "$root/usr/bin/amphora"
  install -m 644 LICENSE "$root/usr/share/doc/amphora/LICENSE"
  printf 'root:x:0:0:root:/:/sbin/nologin\namphora:x:65532:65532::/:/sbin/nologin\n' >"$root/etc/passwd"
  printf 'root:x:0:\namphora:x:65532:\n' >"$root/etc/group"
  install -d -m 1777 "$root/tmp"
}

if [ "${1:-}" = --files ]; then
  files "${2:?usage: build.sh --files DIR}"
  exit
fi
name=${1:-amphora:$version}
context=$(mktemp -d)
trap 'rm -rf "$context" "$context.debug"' EXIT
files "$context"
mkdir -p target/image && cp "$context.debug/$arch/amphora.debug" "target/image/amphora-$version-$arch.debug"
for tool in buildah podman docker; do
  command -v "$tool" >/dev/null || continue
  revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
  args=(build --file deploy/image/Containerfile --tag "$name" --build-arg "TARGETARCH=$arch"
    --build-arg "VERSION=$version" --build-arg "REVISION=$revision" "$context")
  "$tool" "${args[@]}"
  echo "$name, made with $tool; debug information: target/image/amphora-$version-$arch.debug"
  exit
done
echo "build.sh: none of buildah, podman and docker is installed (Debian: apt-get install buildah)" >&2
exit 1
