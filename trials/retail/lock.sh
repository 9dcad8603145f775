#!/bin/sh
# Resolve the trial's environment anew: perdure's own dependencies at the versions it is locked to, and the shop's.
set -eu
cd "$(dirname "$0")/../.."
uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --python-version 3.11 \
  --config-file trials/retail/uv.toml --constraint requirements.lock \
  --custom-compile-command "trials/retail/lock.sh" \
  --output-file trials/retail/requirements.lock pyproject.toml trials/retail/requirements.in
