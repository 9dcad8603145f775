#!/bin/sh
# Temporal's two databases, made or brought up to date. Safe to run again: each step passes when its work is done.
# The tool reads SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD and SQL_PLUGIN by itself.
set -eu

for database in temporal temporal_visibility; do
  kind=$(echo "$database" | sed 's/^temporal$/temporal/; s/^temporal_//')
  tool="temporal-sql-tool --database $database"
  $tool create
  $tool setup-schema -v 0.0
  $tool update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$kind/versioned"
done
