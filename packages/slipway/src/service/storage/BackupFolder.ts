/**
 * A backup as it lies on a disk: a folder of mode 0700 with
 *
 * - `manifest.json`, {@link Manifest}: what made it, when, and every other file with its size and digest,
 * - `manifest.sha256`: the digest of that, as `sha256sum --check` reads it,
 * - `tables/NAME.zst`: the rows of a table, zstd, a JSON string to a line,
 * - `secrets.key`: what stored secrets are encrypted with, unless it is kept elsewhere.
 */
import * as Dump from "@slipway/postgres/Dump"
import { Effect, Schema, Stream } from "effect"
import { createHash } from "node:crypto"
import { createReadStream, createWriteStream } from "node:fs"
import { open, readFile, stat } from "node:fs/promises"
import path from "node:path"
import { pipeline } from "node:stream/promises"
import { createZstdCompress, createZstdDecompress } from "node:zlib"

/** Of the layout above. A version that makes another one counts on. */
export const FORMAT = 1
const MANIFEST = "manifest.json"
const CHECK = "manifest.sha256"
export const KEY = "secrets.key"
/** Characters of rows that are handed on at once, about. */
const AT_ONCE = 4 * 2 ** 20

/** Of a line: a row has 2 MiB at most, and JSON writes some characters as six. */
const LINE_BYTES = 16 * 2 ** 20
/** What a row costs beside its characters, so that many empty ones are handed on too. */
const ROW = 64
/** Of `manifest.json`, and of the key. */
const SMALL_BYTES = 4 * 2 ** 20

const File = Schema.Struct({
  bytes: Schema.Natural,
  /** SHA-256 in hexadecimal. */
  sha256: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/u))
})
type File = typeof File.Type

const Manifest = Schema.Struct({
  format: Schema.Literal(FORMAT),
  /** Of Slipway. */
  version: Schema.String,
  /** ISO 8601, UTC: when the tables were read; they are of one moment soon after. */
  createdAt: Schema.String,
  /** Version of the server. Any that this Slipway runs can take it. */
  postgres: Schema.String,
  /** By number and name: the schema. */
  migrations: Schema.Array(Schema.String),
  tables: Schema.Array(Schema.Struct({ ...Dump.Table.fields, ...File.fields, rows: Schema.Natural })),
  sequences: Schema.Array(Dump.Sequence),
  /** `null`: it is kept elsewhere, or there was none. */
  key: Schema.NullOr(File),
  /** Running sandboxes whose machine had something that no checkpoint has. */
  unsaved: Schema.Array(Schema.String),
  /** Checkpoints whose bytes are in the folder that the settings named. */
  checkpointsElsewhere: Schema.Natural
})
export type Manifest = typeof Manifest.Type

/** It is no backup, or not one as it was made, or not for this version. Nothing was made of it. */
export class NotRestorable extends Schema.TaggedError<NotRestorable>()("NotRestorable", { folder: Schema.String, problem: Schema.String }) {
  override get message() {
    return `The backup in ${this.folder} cannot be restored: ${this.problem}`
  }
}

/** Its disk, or who may write there. */
export class CannotWrite extends Schema.TaggedError<CannotWrite>()("CannotWrite", { folder: Schema.String, problem: Schema.String }) {
  override get message() {
    return `${this.folder} cannot be written: ${this.problem}`
  }
}

const sentence = (cause: unknown) => `${cause instanceof Error ? cause.message : String(cause)}.`

/** File operations on what is written; `folder` is for the error. */
export const writing = <A>(folder: string, run: () => Promise<A>) =>
  Effect.tryPromise({ try: run, catch: (cause) => new CannotWrite({ folder, problem: sentence(cause) }) })

export const sync = async (at: string): Promise<void> => {
  const handle = await open(at)
  await handle.sync().finally(() => handle.close())
}

/** A new file, on the disk for good. */
export const put = async (file: string, content: string | Uint8Array): Promise<File> => {
  const handle = await open(file, "wx", 0o600)
  try {
    await handle.writeFile(content)
    await handle.sync()
  } finally {
    await handle.close()
  }
  return { bytes: Buffer.byteLength(content), sha256: createHash("sha256").update(content).digest("hex") }
}

export const tableFile = (folder: string, name: string) => path.join(folder, "tables", `${name}.zst`)

/** As a new file. */
export const putRows = (file: string, rows: Stream.Stream<ReadonlyArray<string>, unknown>) =>
  // With the context: the transaction that the rows are read in is part of it.
  Effect.flatMap(Stream.toAsyncIterableEffect(rows), (lines) => {
    const hash = createHash("sha256")
    let bytes = 0
    let count = 0
    return writing(file, async () => {
      await pipeline(
        async function*() {
          for await (const piece of lines) {
            count += piece.length
            yield piece.map((row) => `${JSON.stringify(row)}\n`).join("")
          }
        },
        createZstdCompress(),
        async function*(chunks: AsyncIterable<Buffer>) {
          for await (const chunk of chunks) {
            hash.update(chunk)
            bytes += chunk.length
            yield chunk
          }
        },
        createWriteStream(file, { flags: "wx", mode: 0o600, flush: true })
      )
      return { bytes, rows: count, sha256: hash.digest("hex") }
    })
  })

const Row = Schema.fromJsonString(Schema.String)
const decodeRow = Schema.decodeUnknownSync(Row)

/** What {@link putRows} wrote. Whoever can change a backup can change its digests too, so nothing is read without a bound. */
export const rowsIn = (
  folder: string,
  { name, rows: most }: Pick<Manifest["tables"][number], "name" | "rows">
): Stream.Stream<ReadonlyArray<string>, NotRestorable> => {
  const pieces = async function*() {
    const source = createReadStream(tableFile(folder, name))
    const text = source.pipe(createZstdDecompress())
    source.on("error", (error) => text.destroy(error))
    let rest: Array<Buffer> = []
    let restBytes = 0
    let count = 0
    let rows: Array<string> = []
    let size = 0
    for await (const chunk of text) {
      let from = 0
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
        const row = decodeRow(Buffer.concat([...rest, chunk.subarray(from, end)]).toString("utf8"))
        rest = []
        restBytes = 0
        if (++count > most) throw new Error(`it has more than the ${most} rows that ${MANIFEST} says`)
        rows.push(row)
        size += row.length + ROW
        from = end + 1
        if (size >= AT_ONCE) {
          yield rows
          rows = []
          size = 0
        }
      }
      if (from < chunk.length) rest.push(chunk.subarray(from))
      restBytes += chunk.length - from
      if (restBytes > LINE_BYTES) throw new Error(`a row has more than ${LINE_BYTES} bytes`)
    }
    if (rows.length > 0) yield rows
  }
  return Stream.fromAsyncIterable(pieces(), (cause) => new NotRestorable({ folder, problem: `${name}: ${sentence(cause)}` }))
}

/** Last: without it, it is no backup. */
export const finish = async (folder: string, manifest: Manifest): Promise<void> => {
  const { sha256 } = await put(path.join(folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`)
  await put(path.join(folder, CHECK), `${sha256}  ${MANIFEST}\n`)
  await sync(path.join(folder, "tables"))
  await sync(folder)
}

const digest = async (file: string): Promise<string> => {
  const hash = createHash("sha256")
  for await (const chunk of createReadStream(file)) hash.update(chunk)
  return hash.digest("hex")
}

const Versioned = Schema.fromJsonString(Schema.Struct({ format: Schema.Natural, version: Schema.String }))
const decodeVersioned = Schema.decodeUnknownOption(Versioned)
const decodeManifest = Schema.decodeUnknownOption(Schema.fromJsonString(Manifest))

const readSmall = async (file: string): Promise<string> => {
  const { size } = await stat(file)
  if (size > SMALL_BYTES) throw new Error(`${path.basename(file)} has ${size} bytes, more than the ${SMALL_BYTES} that it may have`)
  return readFile(file, "utf8")
}

/** Reads what it is. Its files are not looked at. */
export const manifestOf = Effect.fnUntraced(function*(folder: string) {
  const refuse = (problem: string) => new NotRestorable({ folder, problem })
  const [text, check] = yield* Effect.tryPromise({
    try: () => Promise.all([readSmall(path.join(folder, MANIFEST)), readSmall(path.join(folder, CHECK))]),
    catch: (cause) => refuse(`it is none, or not a whole one. ${sentence(cause)}`)
  })
  if (check !== `${createHash("sha256").update(text).digest("hex")}  ${MANIFEST}\n`) {
    return yield* refuse(`${MANIFEST} was changed since it was made: it has another digest than ${CHECK} says.`)
  }
  const versioned = decodeVersioned(text)
  if (versioned._tag === "None") return yield* refuse(`${MANIFEST} is not one of Slipway.`)
  const { format, version } = versioned.value
  if (format > FORMAT) return yield* refuse(`it was made by Slipway ${version}, which is newer. Restore it with that version.`)
  const manifest = decodeManifest(text)
  if (manifest._tag === "None") return yield* refuse(`${MANIFEST} does not say what a backup of Slipway ${version} has.`)
  if (Dump.unknown(manifest.value.migrations).length > 0) {
    return yield* refuse(`its database is of Slipway ${version}, which is newer. Restore it with that version.`)
  }
  return manifest.value
})

/** Fails unless every file is as it was made. */
export const verify = Effect.fnUntraced(function*(folder: string, { key, tables }: Manifest) {
  const files = [...tables.map((table) => [tableFile(folder, table.name), table] as const),
    ...key === null ? [] : [[path.join(folder, KEY), key] as const]]
  for (const [file, { bytes, sha256 }] of files) {
    const name = path.relative(folder, file)
    const problem = yield* Effect.tryPromise({
      try: async () => {
        const { size } = await stat(file)
        if (name === KEY && size > SMALL_BYTES) return `${name} has ${size} bytes, more than any key.`
        if (size !== bytes) return `${name} has ${size} bytes where it had ${bytes}.`
        return await digest(file) === sha256 ? null : `${name} was changed since it was made: it has another digest.`
      },
      catch: (cause) => new NotRestorable({ folder, problem: sentence(cause) })
    })
    if (problem !== null) return yield* new NotRestorable({ folder, problem })
  }
})
