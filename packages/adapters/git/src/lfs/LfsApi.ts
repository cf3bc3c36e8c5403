/**
 * The batch API of Git LFS with its basic transfers (git-lfs, docs/api/batch.md and basic-transfers.md). The server of a repository is the
 * one at its own address: `.lfsconfig` counts for nothing, since it is a file of the repository.
 */
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { hostWords } from "@slipway/domain/source/rules/HostWords"
import { Option, Redacted, Schema } from "effect"
import { transport } from "../Remotes.ts"
import { type Destinations, LfsFailed, problemOf, read, send, textOf } from "./LfsHttp.ts"
import type { LfsObject } from "./LfsPointer.ts"

/** Objects of one request, as git-lfs asks. */
export const BATCH = 100

const MEDIA_TYPE = "application/vnd.git-lfs+json"

/** Headers of an action, and bytes of all of them. */
const MAX_HEADERS = 32
const MAX_HEADER_BYTES = 16_384
const NAME = /^[\w!#$%&'*+.^`|~-]{1,128}$/u
const VALUE = /^[\t\x20-\x7e]*$/u
/** Headers that are of the connection, or ours. */
const OURS = new Set([
  "host",
  "connection",
  "content-length",
  "transfer-encoding",
  "upgrade",
  "expect",
  "te",
  "trailer",
  "proxy-authorization",
  "accept-encoding",
  "user-agent"
])

const Action = Schema.Struct({
  href: Schema.String,
  header: Schema.optionalKey(Schema.NullOr(Schema.Record(Schema.String, Schema.String)))
})
export type Action = typeof Action.Type

const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const Batch = Schema.fromJsonString(Schema.Struct({
  transfer: optional(Schema.String),
  objects: Schema.Array(Schema.Struct({
    oid: Schema.String,
    actions: optional(Schema.Struct({ download: optional(Action), upload: optional(Action), verify: optional(Action) })),
    error: optional(Schema.Struct({ code: optional(Schema.Finite), message: optional(Schema.String) }))
  }))
}))

/** The answer about one object: an error is a sentence for people. */
export interface Told {
  readonly actions: { readonly download?: Action | undefined; readonly upload?: Action | undefined; readonly verify?: Action | undefined }
  readonly error: string | null
}

/** The server of a repository. */
export interface LfsServer {
  readonly source: URL
  readonly endpoint: string
  readonly remote: Remote
  readonly destinations: Destinations
}

/** `undefined`: the repository is a folder of this machine, or has an address that git itself would not use. */
export const serverOf = (remote: Remote, destinations: Destinations): LfsServer | undefined => {
  const via = transport(remote)
  if (via === undefined || via.options.isLocal === true) return undefined
  const path = remote.url.endsWith("/") ? remote.url.slice(0, -1) : remote.url
  return {
    source: new URL(remote.url),
    endpoint: `${path}${path.endsWith(".git") ? "" : ".git"}/info/lfs/objects/batch`,
    remote,
    destinations
  }
}

const credential = ({ remote: { authorization } }: LfsServer): Readonly<Record<string, string>> =>
  authorization === null ? {} : { authorization: Redacted.value(authorization) }

/** Headers of an action, as the server gave them. Our credential goes to the source host alone, and not in place of another one. */
const headersOf = (server: LfsServer, { header, href }: Action): Record<string, string> => {
  const given = Object.entries(header ?? {}).map(([name, value]) => [name.toLowerCase(), value] as const)
  const bytes = given.reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  const isValid = given.length <= MAX_HEADERS && bytes <= MAX_HEADER_BYTES &&
    given.every(([name, value]) => NAME.test(name) && VALUE.test(value))
  if (!isValid) throw new LfsFailed("The server names invalid headers.", false)
  const headers = Object.fromEntries(given.filter(([name]) => !OURS.has(name)))
  const isOurs = URL.canParse(href) && new URL(href).origin === server.source.origin
  return isOurs && headers["authorization"] === undefined ? { ...credential(server), ...headers } : headers
}

const inFull = (text: string) => {
  const bytes = Buffer.from(text)
  return { size: bytes.length, write: (take: (bytes: Uint8Array) => Promise<void>) => take(bytes) }
}

const SERVER = "The Git LFS server"

/** The server's answer about these objects, by their ids: at most {@link BATCH}. Others than these count for nothing. */
export const batch = async (
  server: LfsServer,
  operation: "download" | "upload",
  objects: ReadonlyArray<LfsObject>,
  signal: AbortSignal
): Promise<ReadonlyMap<string, Told>> => {
  const asked = objects.map(({ oid, size }) => ({ oid, size }))
  const answer = await send({
    method: "POST",
    url: server.endpoint,
    source: server.source,
    headers: { ...credential(server), accept: MEDIA_TYPE, "content-type": MEDIA_TYPE },
    body: inFull(JSON.stringify({ operation, transfers: ["basic"], objects: asked, hash_algo: "sha256" })),
    destinations: server.destinations,
    signal
  })
  const problem = problemOf(answer, SERVER)
  if (problem !== undefined) {
    answer.destroy()
    throw [404, 405, 410, 501].includes(answer.statusCode ?? 0)
      ? new LfsFailed("The source host has no Git LFS for the repository.", false)
      : problem
  }
  const decoded = Schema.decodeOption(Batch)(await textOf(answer))
  if (Option.isNone(decoded)) throw new LfsFailed(`${SERVER} gave an invalid answer.`, false)
  if ((decoded.value.transfer ?? "basic") !== "basic") throw new LfsFailed(`${SERVER} wants another transfer than "basic".`, false)
  const wanted = new Set(objects.map(({ oid }) => oid))
  const told = new Map<string, Told>()
  for (const { actions, error, oid } of decoded.value.objects) {
    if (!wanted.has(oid) || told.has(oid)) continue
    const words = hostWords(error?.message ?? "")
    told.set(oid, {
      actions: {
        download: actions?.download ?? undefined,
        upload: actions?.upload ?? undefined,
        verify: actions?.verify ?? undefined
      },
      error: error === undefined || error === null
        ? null
        : error.code === 404
        ? `${SERVER} does not have it.`
        : words === ""
        ? `${SERVER} refuses it.`
        : `${SERVER} refuses it: ${words}`
    })
  }
  return told
}

/** Gives the bytes of an object to `take`. */
export const download = async (
  server: LfsServer,
  action: Action,
  take: (bytes: Buffer) => Promise<void> | void,
  signal: AbortSignal
): Promise<void> => {
  const { destinations, source } = server
  const answer = await send({ method: "GET", url: action.href, source, headers: headersOf(server, action), destinations, signal })
  const problem = problemOf(answer, "The server of its content")
  if (problem !== undefined) {
    answer.destroy()
    throw problem
  }
  await read(answer, take)
}

/** Sends an object, and has it verified if the server asks for that. */
export const upload = async (
  server: LfsServer,
  { oid, size }: LfsObject,
  { upload, verify }: Told["actions"],
  write: (take: (bytes: Uint8Array) => Promise<void>) => Promise<void>,
  signal: AbortSignal
): Promise<void> => {
  const { destinations, source } = server
  const finish = async (answer: Awaited<ReturnType<typeof send>>) => {
    answer.destroy()
    const problem = problemOf(answer, "The server of its content")
    if (problem !== undefined) throw problem
  }
  if (upload !== undefined) {
    const headers = { "content-type": "application/octet-stream", ...headersOf(server, upload) }
    await finish(await send({ method: "PUT", url: upload.href, source, headers, body: { size, write }, destinations, signal }))
  }
  if (verify === undefined) return
  const headers = { accept: MEDIA_TYPE, ...headersOf(server, verify), "content-type": MEDIA_TYPE }
  const body = inFull(JSON.stringify({ oid, size }))
  await finish(await send({ method: "POST", url: verify.href, source, headers, body, destinations, signal }))
}
