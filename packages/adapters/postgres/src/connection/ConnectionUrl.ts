/**
 * The address of a Postgres server with the parameters of libpq that we can honour. A parameter that we cannot honour is an error:
 * otherwise the operator would believe that the connection has it, such as encryption.
 * PostgreSQL 18, 32.1 (connection strings) and 32.19 (SSL support).
 */
import * as Result from "effect/Result"

const SSL_MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] as const
export type SslMode = (typeof SSL_MODES)[number]

/** No connection can be made as the URL asks for. The message names the parameter, and another attempt fails alike. */
export class UnusableUrl extends Error {
  override readonly name = "UnusableUrl"
}

/** How a connection over TCP is encrypted. A connection through a socket file never is, as with libpq. */
export interface Encryption {
  readonly sslmode: SslMode
  /** A file, or `system`. */
  readonly sslrootcert: string | null
  readonly sslcert: string | null
  readonly sslkey: string | null
  readonly sslpassword: string | null
}

export interface ConnectionUrl {
  /** A name, an IP address, or the folder of a socket file. */
  readonly host: string
  readonly port: number
  readonly username: string | null
  readonly password: string | null
  readonly database: string | null
  /** Command line options for the server process. */
  readonly options: string | null
  readonly applicationName: string | null
  /** Seconds for one attempt. */
  readonly connectTimeout: number | null
  readonly encryption: Encryption
}

/** Parameters that may have only values which ask for nothing beyond what we do, and what to say of others. */
const FIXED: Readonly<Record<string, readonly [allowed: RegExp, problem: string]>> = {
  ssl: [/^true$/u, "ssl can only be true, which is sslmode=require: use sslmode"],
  channel_binding: [/^(?:prefer|disable)$/u, "channel_binding=require is not supported: use prefer or disable"],
  client_encoding: [/^(?:auto|utf-?8)$/iu, "client_encoding can only be UTF8"],
  gssencmode: [/^(?:prefer|disable)$/u, "gssencmode=require is not supported: use prefer or disable"],
  sslnegotiation: [/^postgres$/u, "sslnegotiation can only be postgres"],
  target_session_attrs: [/^any$/u, "target_session_attrs can only be any: use a host name that always leads to the primary"]
}

/** The remedy for parameters that we do not honour. */
const INSTEAD: Readonly<Record<string, string>> = {
  hostaddr: "write the address as the host",
  passfile: "write the password into the URL, percent-encoded",
  service: "write the service's parameters into the URL",
  servicefile: "write the service's parameters into the URL",
  load_balance_hosts: "write one host",
  keepalives: "connections are always kept alive",
  requiressl: "use sslmode=require"
}

const SEVERAL_HOSTS = "more than one host is not supported: use a host name that always leads to the primary, or HAProxy"

/** A slash or a question mark ends the password. */
const UNENCODED = "a password with / or ? must be percent-encoded: / is %2F, ? is %3F"

/** Parameters with a meaning of their own. */
const KNOWN = [
  "host",
  "port",
  "user",
  "password",
  "dbname",
  "options",
  "application_name",
  "connect_timeout",
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "sslpassword"
]

const decoded = (text: string): string | null => {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

/** Whether this is a URL for Postgres at all; {@link parse} says what is wrong with one. */
const SHAPE = /^postgres(?:ql)?:\/\/(?:(?<credentials>[^/?]*)@)?(?<place>[^/?@]*)(?:\/(?<database>[^?]*))?(?:\?(?<query>.*))?$/su

/** As libpq reads it: the last value of a parameter counts, an empty one is as good as none, and `+` is no blank. */
const parametersOf = (query: string): Result.Result<ReadonlyMap<string, string>, string> => {
  const found = new Map<string, string>()
  for (const pair of query.split("&")) {
    if (pair === "") continue
    const [key = "", ...values] = pair.split("=")
    const name = decoded(key) ?? ""
    // Anything else may be a part of a password that was not percent-encoded, so it is not repeated.
    if (!/^[a-z_]{1,40}$/u.test(name) || values.length === 0) {
      return Result.fail("its parameters must be name=value between &, percent-encoded")
    }
    const meant = decoded(values.join("="))
    if (meant === null) return Result.fail(`the parameter ${name} is not percent-encoded text`)
    const [allowed, problem] = FIXED[name] ?? []
    if (allowed === undefined && !KNOWN.includes(name)) {
      const instead = INSTEAD[name]
      return Result.fail(`the parameter ${name} is not supported${instead === undefined ? "" : `: ${instead}`}`)
    }
    if (allowed?.test(meant) === false) return Result.fail(`the parameter ${problem}`)
    if (name === "ssl") found.set("sslmode", "require")
    else if (meant !== "") found.set(name, meant)
  }
  return Result.succeed(found)
}

const encryptionOf = (parameters: ReadonlyMap<string, string>): Result.Result<Encryption, string> => {
  const sslrootcert = parameters.get("sslrootcert") ?? null
  // Anybody can have a certificate of a public CA: only one for the name of the server says something (libpq 16).
  const isPublic = sslrootcert === "system"
  const given = parameters.get("sslmode") ?? (isPublic ? "verify-full" : "prefer")
  const sslmode = SSL_MODES.find((mode) => mode === given)
  if (sslmode === undefined) return Result.fail(`the parameter sslmode must be one of ${SSL_MODES.join(", ")}`)
  if (isPublic && sslmode !== "verify-full") return Result.fail("the parameter sslrootcert=system needs sslmode=verify-full")
  return Result.succeed({
    sslmode,
    sslrootcert,
    sslcert: parameters.get("sslcert") ?? null,
    sslkey: parameters.get("sslkey") ?? null,
    sslpassword: parameters.get("sslpassword") ?? null
  })
}

/** Host and port of the part behind the credentials. IPv6 addresses are in brackets. */
const placeOf = (text: string): readonly [host: string | null, port: string] => {
  const [, address, name, port = ""] = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(.*))?$/su.exec(text) ?? []
  return [address ?? (name === undefined ? null : decoded(name)), port]
}

const integer = (text: string, least: number, most: number): number | null => {
  const number = /^\d{1,9}$/u.test(text) ? Number(text) : NaN
  return number >= least && number <= most ? number : null
}

/** Fails with what is wrong, in words that have neither the password nor any other value of the URL. */
export const parse = (text: string): Result.Result<ConnectionUrl, string> => {
  const { credentials = "", database = "", place = "", query = "" } = SHAPE.exec(text)?.groups ?? {}
  if (!SHAPE.test(text) || text.includes("\0")) return Result.fail("it must begin with postgres://")
  const [user = "", ...secret] = credentials.split(":")
  const [host, written] = placeOf(place)
  const parts = { username: decoded(user), password: decoded(secret.join(":")), database: decoded(database), host }
  for (const [part, value] of Object.entries(parts)) {
    if (value === null) return Result.fail(`its ${part} is not percent-encoded text`)
  }
  return Result.gen(function*() {
    const parameters = yield* parametersOf(query)
    const chosen = (name: string, part: string | null) => parameters.get(name) ?? (part === "" ? null : part)
    const [port, timeout] = [chosen("port", written), chosen("connect_timeout", null)]
    const numbers = {
      port: port === null ? 5432 : integer(port, 1, 65_535),
      connectTimeout: timeout === null ? null : integer(timeout, 1, 86_400)
    }
    const host = chosen("host", parts.host) ?? "localhost"
    if (`${host}${port}`.includes(",")) return yield* Result.fail(SEVERAL_HOSTS)
    if (numbers.port === null) {
      const isPassword = credentials === "" && /@[^@]*$/u.test(`${database}?${query}`)
      return yield* Result.fail(isPassword ? UNENCODED : "the port must be a number from 1 to 65535")
    }
    if (timeout !== null && numbers.connectTimeout === null) {
      return yield* Result.fail("the parameter connect_timeout must be a number of seconds from 1 to 86400")
    }
    return {
      host,
      port: numbers.port,
      username: chosen("user", parts.username),
      password: chosen("password", parts.password),
      database: chosen("dbname", parts.database),
      options: chosen("options", null),
      applicationName: chosen("application_name", null),
      connectTimeout: numbers.connectTimeout,
      encryption: yield* encryptionOf(parameters)
    }
  })
}

/** Why the URL cannot be used; `null`: it can. */
export const problemOf = (text: string): string | null =>
  Result.match(parse(text), { onFailure: (problem) => problem, onSuccess: () => null })
