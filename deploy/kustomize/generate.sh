#!/usr/bin/env bash
# Writes amphora.yaml beside this file: what the chart renders with its defaults, for clusters without Helm. Needs helm.
set -euo pipefail
cd "$(dirname "$0")"
PATH=$PWD/../../.test-tools/bin:$PATH
{
  echo "# Rendered from deploy/helm/amphora by generate.sh: change the chart, not this file."
  helm template amphora ../helm/amphora --kube-version 1.34.0 --namespace amphora-system
} >amphora.yaml.new
mv amphora.yaml.new amphora.yaml
