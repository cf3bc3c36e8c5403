/**
 * The operator's own certificate authorities, beside those of Node and of the system: for this process, for git, and for boxes. Programs
 * read one file, so there is a bundle with all of them.
 */
import { isAbsence } from "@slipway/domain/files/rules/SystemError"
import { X509Certificate } from "node:crypto"
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { getCACertificates, setDefaultCACertificates } from "node:tls"

export const VARIABLE = "SLIPWAY_CA_FILE"

/** Bytes of the operator's file. The bundle of a system has a quarter of a megabyte. */
const MAX_BYTES = 4 * 2 ** 20

/** Programs of boxes and of ours that read the file that one of these names, instead of their own. */
const VARIABLES = [
  "SSL_CERT_FILE",
  "NODE_EXTRA_CA_CERTS",
  "GIT_SSL_CAINFO",
  "CURL_CA_BUNDLE",
  "REQUESTS_CA_BUNDLE",
  "PIP_CERT",
  "CARGO_HTTP_CAINFO",
  "AWS_CA_BUNDLE",
  "NIX_SSL_CERT_FILE",
  "DENO_CERT"
]

/** The operator's file cannot be used. */
export class UnusableAuthorities extends Error {
  constructor(problem: string) {
    super(`${VARIABLE} must be a file of CA certificates in PEM, but ${problem}.`)
  }
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/gu

/** The certificates in the file, PEM. Throws {@link UnusableAuthorities}. */
export const read = (file: string): ReadonlyArray<string> => {
  const text = (() => {
    try {
      if (statSync(file).size > MAX_BYTES) throw new Error(`it has more than ${MAX_BYTES} bytes`)
      return readFileSync(file, "latin1")
    } catch (error) {
      throw new UnusableAuthorities(`${file} cannot be read (${error instanceof Error ? error.message : error})`)
    }
  })()
  const found = text.match(CERTIFICATE) ?? []
  if (found.length === 0) throw new UnusableAuthorities(`${file} has no certificate`)
  for (const [i, pem] of found.entries()) {
    try {
      new X509Certificate(pem)
    } catch {
      throw new UnusableAuthorities(`certificate ${i + 1} of ${file} is damaged`)
    }
  }
  return found
}

interface Trust {
  /** The bundle: all certificates that count. */
  readonly text: string
  /** The folder of the bundle; `undefined`: not chosen yet. */
  folder: string | undefined
}

let trust: Trust | undefined

/** From now on this process trusts the authorities of the file too. Throws {@link UnusableAuthorities}. */
export const install = (file: string): void => {
  const own = read(file)
  const all = new Set([...getCACertificates("default"), ...getCACertificates("system"), ...own].map((pem) => pem.trim()))
  trust = { text: `${[...all].join("\n")}\n`, folder: undefined }
  setDefaultCACertificates([...all])
}

/** Git and boxes trust them no more. For tests: the process itself goes on trusting them. */
export const uninstall = (): void => {
  trust = undefined
}

/** Keeps the bundle in this folder, which is made. Without it, in a temporary folder that ends with this process. */
export const keepIn = (folder: string): void => {
  if (trust !== undefined) trust.folder = folder
}

const temporary = (): string => {
  const made = mkdtempSync(join(tmpdir(), "slipway-ca-"))
  process.once("exit", () => rmSync(made, { recursive: true, force: true }))
  return made
}

/** `null`: it is not there. */
const textOf = (file: string): string | null => {
  try {
    return readFileSync(file, "latin1")
  } catch (error) {
    if (isAbsence(error)) return null
    throw error
  }
}

/** The file with all authorities, readable by every user; `null`: the operator has none. It is made again if it was removed. */
export const bundle = (): string | null => {
  if (trust === undefined) return null
  const folder = trust.folder ??= temporary()
  const file = join(folder, "ca-bundle.pem")
  // An earlier process of this folder may have had other authorities.
  if (textOf(file) === trust.text) return file
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  const next = `${file}.${process.pid}`
  writeFileSync(next, trust.text, { mode: 0o644 })
  renameSync(next, file)
  return file
}

/** The variables that name the bundle for programs. */
export const variables = (file: string): Readonly<Record<string, string>> => Object.fromEntries(VARIABLES.map((name) => [name, file]))
