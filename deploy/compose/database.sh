#!/bin/sh
# Run by the image of Postgres when its folder is empty: Slipway's role owns its database, and nothing else.
set -eu
psql --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv password DATABASE_PASSWORD
CREATE ROLE slipway LOGIN PASSWORD :'password';
CREATE DATABASE slipway OWNER slipway;
SQL
