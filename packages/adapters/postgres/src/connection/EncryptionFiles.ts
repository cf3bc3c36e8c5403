/** The certificates and keys that a connection to Postgres is encrypted with. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { X509Certificate } from "node:crypto"
import { readFileSync } from "node:fs"
import { isIP } from "node:net"
import { homedir } from "node:os"
import path from "node:path"
import * as Tls from "node:tls"
import { type Encryption, UnusableUrl } from "./ConnectionUrl.ts"

/**
 * No home, or nothing there for us: a user that the system does not know (ERR_SYSTEM_ERROR), or a service that must not look into
 * homes (EACCES). libpq takes that as no file, too.
 */
const NONE_IN_HOME: ReadonlyArray<unknown> = ["ENOENT", "ENOTDIR", "EACCES", "ERR_SYSTEM_ERROR"]

/** The file of that name where libpq looks for what the URL does not name; `null`: there is no such file. */
const inHome = (name: string): Buffer | null => {
  try {
    return readFileSync(path.join(homedir(), ".postgresql", name))
  } catch (error) {
    if (NONE_IN_HOME.includes(codeOf(error))) return null
    throw error
  }
}

const messageOf = (error: unknown) => error instanceof Error ? error.message : String(error)

const read = (parameter: "sslrootcert" | "sslcert" | "sslkey", file: string | null, standard: string): Buffer | null => {
  try {
    return file === null ? inHome(standard) : readFileSync(file)
  } catch (error) {
    throw new UnusableUrl(`the file of ${parameter} cannot be read: ${messageOf(error)}`)
  }
}

/** Those of Node, of NODE_EXTRA_CA_CERTS and of the system. Node before 22.15 does not tell those of the system. */
const publicRoots = () =>
  typeof Tls.getCACertificates === "function" ? [...Tls.getCACertificates("default"), ...Tls.getCACertificates("system")] : undefined

/** A file without certificates is an error here: Node would take it, and trust no server. */
const withCertificate = <A extends Buffer | "public">(roots: A): A => {
  try {
    if (roots !== "public") new X509Certificate(roots)
    return roots
  } catch (error) {
    throw new UnusableUrl(`the file of sslrootcert has no certificate in PEM: ${messageOf(error)}`)
  }
}

/** `null`: the certificate of the server is not verified. `public`: the roots that everybody trusts. */
const rootsOf = ({ sslmode, sslrootcert }: Encryption): Buffer | "public" | null => {
  const roots = sslrootcert === "system" ? "public" : read("sslrootcert", sslrootcert, "root.crt")
  if (roots !== null) return withCertificate(roots)
  if (sslmode === "verify-full") return "public"
  if (sslmode !== "verify-ca") return null
  throw new UnusableUrl("sslmode=verify-ca needs a CA: name the file with its certificate as sslrootcert")
}

/** The certificate that we show to the server, if there is one. */
const ownOf = ({ sslcert, sslkey, sslpassword }: Encryption): Tls.SecureContextOptions => {
  const cert = read("sslcert", sslcert, "postgresql.crt")
  if (cert === null) return {}
  const key = read("sslkey", sslkey, "postgresql.key")
  if (key === null) throw new UnusableUrl("sslcert needs its key: name the file as sslkey")
  return { cert, key, ...sslpassword === null ? {} : { passphrase: sslpassword } }
}

const contextOf = (options: Tls.SecureContextOptions): Tls.SecureContext => {
  try {
    return Tls.createSecureContext(options)
  } catch (error) {
    throw new UnusableUrl(`the files of sslrootcert, sslcert and sslkey cannot be used: ${messageOf(error)}`)
  }
}

let known: { readonly defaults: unknown; readonly context: Tls.SecureContext } | undefined

/** There are hundreds of roots: they are read again only when others became the default ones, as by `SLIPWAY_CA_FILE`. */
const ofPublicRoots = (): Tls.SecureContext => {
  // Node answers with the same list until then.
  const defaults = typeof Tls.getCACertificates === "function" ? Tls.getCACertificates("default") : null
  if (known?.defaults !== defaults || known === undefined) known = { defaults, context: contextOf({ ca: publicRoots() }) }
  return known.context
}

/**
 * For a connection to `host`. Files are read each time, so those that were renewed count for the next connection. Throws
 * `UnusableUrl`.
 *
 * As libpq does, the chain of certificates is verified wherever there is a CA, and the name with `verify-full` alone. Unlike
 * libpq, `verify-full` without a CA trusts the public ones.
 */
export const optionsOf = (encryption: Encryption, host: string): Tls.ConnectionOptions => {
  const [roots, own] = [rootsOf(encryption), ownOf(encryption)]
  const isPlain = roots === "public" && own.cert === undefined
  return {
    host,
    ...isIP(host) === 0 ? { servername: host } : {},
    secureContext: isPlain ? ofPublicRoots() : contextOf({ ...own, ca: roots === "public" ? publicRoots() : roots ?? undefined }),
    rejectUnauthorized: roots !== null,
    ...encryption.sslmode === "verify-full" ? {} : { checkServerIdentity: () => undefined }
  }
}
