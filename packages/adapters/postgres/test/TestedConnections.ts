/**
 * The connections of docs/operating/database.md: its tables have these rows and no others, and a test makes each of them.
 */

export const MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] as const
const ROOTS = { none: "", ca: "&sslrootcert=FOLDER/ca.pem", other: "&sslrootcert=FOLDER/other-ca.pem" }
const OWN = "&sslcert=FOLDER/client.pem&sslkey=FOLDER/client.key"

/** The result of each of `MODES`: e is encrypted, p plain, - refused. */
export const MATRIX: ReadonlyArray<readonly [what: string, server: "tls" | "plain", who: string, parameters: string, outcomes: string]> = [
  ["TLS, no CA", "tls", "slipway@localhost", ROOTS.none, "p p e e - -"],
  ["TLS, its CA", "tls", "slipway@localhost", ROOTS.ca, "p p e e e e"],
  ["TLS, its CA, another name", "tls", "slipway@127.0.0.1", ROOTS.ca, "p p e e e -"],
  ["TLS, another CA", "tls", "slipway@localhost", ROOTS.other, "p p p - - -"],
  ["TLS alone is let in, no CA", "tls", "tls_only@127.0.0.1", ROOTS.none, "- e e e - -"],
  ["TLS alone is let in, its CA", "tls", "tls_only@localhost", ROOTS.ca, "- e e e e e"],
  ["TLS alone is let in, another CA", "tls", "tls_only@localhost", ROOTS.other, "- - - - - -"],
  ["TLS is not let in", "tls", "plain_only@localhost", ROOTS.ca, "p p p - - -"],
  ["a certificate is let in", "tls", "certified@localhost", `${ROOTS.ca}${OWN}`, "- e e e e e"],
  ["a certificate is let in, none is shown", "tls", "certified@localhost", ROOTS.ca, "- - - - - -"],
  ["no TLS, no CA", "plain", "slipway@localhost", ROOTS.none, "p p p - - -"],
  ["no TLS, a CA", "plain", "slipway@localhost", ROOTS.ca, "p p p - - -"]
]

/** The password that the role gets for a row. Each character of it has a meaning somewhere in a URL. */
export const PASSWORD = "p@:/%#?&=+ é日'\"\\$w"

/**
 * `needs`: what has to be there. `url` has words in capitals for values of the test; in the page they are as here. `result`: `works`, or
 * a part of the error.
 */
export interface Row {
  readonly what: string
  readonly url: string
  readonly result: string
  readonly needs?: "IPv6" | "pgbouncer"
  /** The password of the role, if it is another than {@link PASSWORD}. */
  readonly password?: string
}

const SEVERAL = "more than one host is not supported: use a host name that always leads to the primary, or HAProxy"

export const ROWS: ReadonlyArray<Row> = [
  { what: "a name", url: "postgres://slipway@localhost:PORT/slipway", result: "works" },
  { what: "an address of IPv4", url: "postgres://slipway@127.0.0.1:PORT/slipway", result: "works" },
  { what: "an address of IPv6", url: "postgres://slipway@[::1]:PORT/slipway", result: "works", needs: "IPv6" },
  { what: "an address of IPv6 as a parameter", url: "postgres://slipway@/slipway?host=::1&port=PORT", result: "works", needs: "IPv6" },
  { what: "the folder of a socket", url: "postgres://slipway@/slipway?host=FOLDER&port=PORT", result: "works" },
  { what: "the folder of a socket as the host", url: "postgres://slipway@ENCODED_FOLDER:PORT/slipway", result: "works" },
  { what: "an abstract socket", url: "postgres://slipway@/slipway?host=@slipway", result: "cannot be used: getaddrinfo" },
  { what: "a password, percent-encoded", url: "postgres://with_password:ENCODED_PASSWORD@localhost:PORT/slipway", result: "works" },
  {
    what: "a password as a parameter",
    url: "postgres://with_password@localhost:PORT/slipway?password=ENCODED_PASSWORD",
    result: "works"
  },
  {
    what: "a password with `@ : # & = +` as they are",
    url: "postgres://with_password:p@:#&=+w@localhost:PORT/slipway",
    result: "works",
    password: "p@:#&=+w"
  },
  {
    what: "a password with `/` or `?` as it is",
    url: "postgres://with_password:p/w@localhost:PORT/slipway",
    result: "a password with / or ? must be percent-encoded: / is %2F, ? is %3F",
    password: "p/w"
  },
  {
    what: "a password with `%` as it is",
    url: "postgres://with_password:p%w@localhost:PORT/slipway",
    result: "its password is not percent-encoded text",
    password: "p%w"
  },
  {
    what: "a wrong password",
    url: "postgres://with_password:wrong@localhost:PORT/slipway",
    result: "password authentication failed for user \"with_password\""
  },
  {
    what: "no password, but `PGPASSWORD`",
    url: "postgres://with_password@localhost:PORT/slipway",
    result: "the server asks for a password: write it into the URL, percent-encoded"
  },
  {
    what: "a file of passwords",
    url: "postgres://with_password@localhost:PORT/slipway?passfile=/home/slipway/.pgpass",
    result: "the parameter passfile is not supported: write the password into the URL, percent-encoded"
  },
  {
    what: "a service",
    url: "postgres:///slipway?service=main",
    result: "the parameter service is not supported: write the service's parameters into the URL"
  },
  { what: "several hosts", url: "postgres://slipway@localhost:PORT,127.0.0.1:PORT/slipway", result: SEVERAL },
  {
    what: "several hosts, the primary among them",
    url: "postgres://slipway@localhost,127.0.0.1/slipway?target_session_attrs=read-write",
    result: "the parameter target_session_attrs can only be any: use a host name that always leads to the primary"
  },
  { what: "the server's options", url: "postgres://slipway@localhost:PORT/slipway?options=-c%20work_mem%3D64MB", result: "works" },
  {
    what: "a name and a time to connect",
    url: "postgres://slipway@localhost:PORT/slipway?application_name=mine&connect_timeout=5",
    result: "works"
  },
  { what: "a missing database", url: "postgres://slipway@localhost:PORT/missing", result: "database \"missing\" does not exist" },
  { what: "no server", url: "postgres://slipway@localhost:1/slipway", result: "ECONNREFUSED" },
  {
    what: "a CA of `SLIPWAY_CA_FILE`",
    url: "postgres://slipway@localhost:PORT/slipway?sslmode=verify-full&sslrootcert=system",
    result: "works"
  },
  {
    what: "a CA of `SLIPWAY_CA_FILE`, another name",
    url: "postgres://slipway@127.0.0.1:PORT/slipway?sslmode=verify-full&sslrootcert=system",
    result: "the connection cannot be encrypted as sslmode=verify-full asks for"
  },
  {
    what: "channel binding, which libpq alone has",
    url: "postgres://with_password:ENCODED_PASSWORD@localhost:PORT/slipway?channel_binding=require",
    result: "the parameter channel_binding=require is not supported: use prefer or disable"
  },
  {
    what: "TLS without a question before",
    url: "postgres://slipway@localhost:PORT/slipway?sslnegotiation=direct",
    result: "the parameter sslnegotiation can only be postgres"
  },
  { what: "PgBouncer, by session", url: "BOUNCER_SESSION", result: "works", needs: "pgbouncer" },
  {
    what: "PgBouncer, by session, with TLS",
    url: "BOUNCER_TLS?sslmode=verify-full&sslrootcert=system",
    result: "works",
    needs: "pgbouncer"
  },
  {
    what: "PgBouncer, by transaction",
    url: "BOUNCER_TRANSACTION",
    result: "Slipway needs its sessions: pool_mode = session",
    needs: "pgbouncer"
  },
  {
    what: "PgBouncer, by statement",
    url: "BOUNCER_STATEMENT",
    result: "Slipway needs its sessions: pool_mode = session",
    needs: "pgbouncer"
  },
  {
    what: "PgBouncer, with fewer than 15 connections",
    url: "BOUNCER_SMALL",
    result: "it has 4 connections for this process, which uses up to 15",
    needs: "pgbouncer"
  },
  {
    what: "PgBouncer, with options",
    url: "BOUNCER_SESSION&options=-c%20work_mem%3D64MB",
    result: "unsupported startup parameter",
    needs: "pgbouncer"
  }
]
