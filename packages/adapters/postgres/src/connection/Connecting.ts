/** The driver's configuration for a database: the fields of its URL, and how a connection is opened. */
import type { Config } from "@effect/sql-pg/PgConnection"
import { Duration, Redacted, Result } from "effect"
import type { NetConnectOpts } from "node:net"
import { type ConnectionUrl, parse, UnusableUrl } from "./ConnectionUrl.ts"
import type { DatabaseLocation } from "./DatabaseLocation.ts"
import { EncryptedSocket } from "./EncryptedSocket.ts"
import { optionsOf } from "./EncryptionFiles.ts"
import type { Settings } from "./SessionSettings.ts"
import { TimeoutSocket } from "./TimeoutSocket.ts"

/** How long an idle connection may lie before the kernel asks whether its peer is there: ten times, a second apart. */
const KEEP_ALIVE_MILLIS = 5_000

const addressOf = ({ host, port }: ConnectionUrl): NetConnectOpts =>
  host.startsWith("/")
    ? { path: `${host}/.s.PGSQL.${port}` }
    : { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MILLIS }

const isEncrypted = ({ encryption, host }: ConnectionUrl) => !host.startsWith("/") && encryption.sslmode !== "disable"

const plain = (address: NetConnectOpts, silence: Duration.Duration | null, settings: Settings) => {
  const socket = new TimeoutSocket(silence, settings)
  socket.connect(address)
  return socket
}

/** Fields that are `null` are left to the driver. */
const fieldsOf = ({ applicationName, connectTimeout, database, options, password, username }: ConnectionUrl): Partial<Config> => ({
  ...applicationName === null ? {} : { applicationName },
  ...connectTimeout === null ? {} : { connectTimeout: Duration.seconds(connectTimeout) },
  ...database === null ? {} : { database },
  ...options === null ? {} : { startupOptions: options },
  ...password === null ? {} : { password: Redacted.make(password) },
  ...username === null ? {} : { username }
})

/**
 * Connections that are destroyed when what they sent stays unanswered for `silence`. `null`: they wait for as long as it takes.
 * `settings`: of the session.
 */
export const configOf = (
  { url, ...place }: DatabaseLocation,
  silence: Duration.Duration | null,
  settings: Settings = {}
): Partial<Config> => {
  if (url === undefined) return { ...place, stream: () => plain({ path: place.path ?? "" }, silence, settings) }
  const parsed = parse(Redacted.value(url))
  if (Result.isFailure(parsed)) {
    // A connection that fails is where a caller expects it.
    return {
      username: "",
      stream: () => {
        throw new UnusableUrl(parsed.failure)
      }
    }
  }
  const target = parsed.success
  const address = addressOf(target)
  return {
    ...fieldsOf(target),
    ssl: false,
    stream: () => {
      if (!isEncrypted(target)) return plain(address, silence, settings)
      // Read before the server was asked: a missing file is reported even where it does not offer encryption.
      return new EncryptedSocket(address, target.encryption.sslmode, optionsOf(target.encryption, target.host), silence, settings)
    }
  }
}

/** Host, port and database, for people. Neither user nor password. */
export const placeOf = (url: Redacted.Redacted): string =>
  Result.match(parse(Redacted.value(url)), {
    onFailure: () => "that address",
    onSuccess: ({ database, host, port }) =>
      `${host.includes(":") ? `[${host}]` : host}${port === 5432 ? "" : `:${port}`}${database === null ? "" : `/${database}`}`
  })
