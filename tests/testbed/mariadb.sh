# A MariaDB in the folder DIR for one service; sourced by cinder.sh, neutron.sh and nova.sh, after daemons.sh. These
# scripts set CACHE, a folder for schemas, and define `die`.
#
#   database NAME PACKAGE COMMAND...   starts MariaDB. The first time, creates the database NAME with its schema
#   database_server                    starts MariaDB
#   schema NAME PACKAGE COMMAND...     creates the database NAME with its schema. COMMAND creates the schema by the
#                                      migrations of all releases, which takes half a minute or more. One version of
#                                      PACKAGE always gives the same schema, so CACHE keeps it
#   sql ARGUMENTS...                   the client

sql() { mariadb --no-defaults -u root -S "$DIR/mariadb.sock" "$@"; }

database() {
  database_server
  [ ! -e "$DIR/database.made" ] || return 0
  schema "$@"
  : >"$DIR/database.made"
}

database_server() {
  if [ ! -d "$DIR/mariadb" ]; then
    mariadb-install-db --no-defaults --user=root --datadir="$DIR/mariadb" --auth-root-authentication-method=normal \
      --skip-test-db >"$DIR/log/mariadb-install.log" 2>&1
  fi
  spawn mariadb /usr/sbin/mariadbd --no-defaults --user=root --datadir="$DIR/mariadb" --socket="$DIR/mariadb.sock" --skip-networking \
    --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M --innodb-log-file-size=16M --max-connections=200
  within 60 sql -e 'SELECT 1' || die "MariaDB does not start: see $DIR/log/mariadb.out"
}

schema() {
  local name=$1 package=$2 dump; shift 2
  sql -e "CREATE DATABASE $name CHARACTER SET utf8"
  dump=$CACHE/$name-$(dpkg-query -W -f '${Version}' "$package" | tr -c '[:alnum:].\n' _).sql
  if [ ! -s "$dump" ]; then
    "$@" >"$DIR/log/schema.log" 2>&1 || die "creating the schema of $name failed: $(tail -n 3 "$DIR/log/schema.log")"
    mkdir -p "$CACHE"
    mariadb-dump --no-defaults -u root -S "$DIR/mariadb.sock" "$name" >"$dump.$$" && mv "$dump.$$" "$dump"
  else
    sql "$name" <"$dump"
  fi
}
