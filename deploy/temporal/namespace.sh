#!/bin/sh
# The namespace, how long it keeps closed runs, and the search attributes that perdure's lists are made from.
# The CLI reads TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE by itself. Safe to run again.
set -eu

patiently() { # a new namespace takes some seconds to be known everywhere
  tries=30
  until "$@"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || exit 1
    sleep 1
  done
}

patiently temporal operator cluster health
if temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1; then
  temporal operator namespace update --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
else
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
fi
patiently temporal operator search-attribute create --name PerdureAgent --type Keyword --name PerdureState --type Keyword
