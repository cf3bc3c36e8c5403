/**
 * The files of a backup: a folder of mode 0700 with
 * - `manifest.json`, {@link Manifest}: its origin, time, and every other file with size and digest,
 * - `manifest.sha256`: its digest in the format of `sha256sum --check`,
 * - `tables/NAME.zst`: the rows of a table, compressed with zstd, one JSON string per line,
 * - `secrets.key`: the key of stored secrets, unless it is kept elsewhere.
 */
import * as DurableFile from "@slipway/machine/node/DurableFile"
import * as Dump from "@slipway/postgres/Dump"
import { Effect, Schema, Stream } from "effect"
import { createHash } from "node:crypto"
import { createReadStream, createWriteStream } from "node:fs"
import { readFile, stat, writeFile } from "node:fs/promises"
import path from "node:path"
import { pipeline } from "node:stream/promises"
import { createZstdCompress, createZstdDecompress } from "node:zlib"

/** The version of this layout. Increase it with each change. */
export const FORMAT = 1
const MANIFEST = "manifest.json"
const CHECK = "manifest.sha256"
export const KEY = "secrets.key"
/** The approximate number of row characters that are passed on at once. */
const AT_ONCE = 4 * 2 ** 20

/** Bytes of a line: a row has at most 2 MiB, and JSON writes some characters as six. */
const LINE_BYTES = 16 * 2 ** 20
/** The cost of a row besides its characters, so that many empty rows are passed on too. */
const ROW = 64
/** Bytes of `manifest.json` and of the key. */
const SMALL_BYTES = 4 * 2 ** 20

const File = Schema.Struct({
  bytes: Schema.Natural,
  /** SHA-256 in hexadecimal. */
  sha256: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/u))
})
type File = typeof File.Type

const Manifest = Schema.Struct({
  format: Schema.Literal(FORMAT),
  /** The version of Slipway. */
  version: Schema.String,
  /** When reading the tables began, in ISO 8601 and UTC. All tables are of one moment soon after. */
  createdAt: Schema.String,
  /** The version of the Postgres server. Any supported server can restore the backup. */
  postgres: Schema.String,
  /** The schema: migrations by number and name. */
  migrations: Schema.Array(Schema.String),
  tables: Schema.Array(Schema.Struct({ ...Dump.Table.fields, ...File.fields, rows: Schema.Natural })),
  sequences: Schema.Array(Dump.Sequence),
  /** `null`: the key is kept elsewhere, or there was none. */
  key: Schema.NullOr(File),
  /** Running sandboxes with data on a machine that is in no checkpoint. */
  unsaved: Schema.Array(Schema.String),
  /** The number of checkpoints whose bytes are in the folder of the settings. */
  checkpointsElsewhere: Schema.Natural
})
export type Manifest = typeof Manifest.Type

/** The folder is not a backup, is damaged, or is for another version. Nothing was restored. */
export class NotRestorable extends Schema.TaggedError<NotRestorable>()("NotRestorable", { folder: Schema.String, problem: Schema.String }) {
  override get message() {
    return `The backup in ${this.folder} cannot be restored: ${this.problem}`
  }
}

/** The disk or its permissions prevent writing. */
export class CannotWrite extends Schema.TaggedError<CannotWrite>()("CannotWrite", { folder: Schema.String, problem: Schema.String }) {
  override get message() {
    return `${this.folder} cannot be written: ${this.problem}`
  }
}

const sentence = (cause: unknown) => `${cause instanceof Error ? cause.message : String(cause)}.`

/** Runs file operations. `folder` is for the error. */
export const writing = <A>(folder: string, run: () => Promise<A>) =>
  Effect.tryPromise({ try: run, catch: (cause) => new CannotWrite({ folder, problem: sentence(cause) }) })

/** Writes a new file and syncs it to the disk. */
export const put = async (file: string, content: string | Uint8Array): Promise<File> => {
  await writeFile(file, content, { flag: "wx", mode: 0o600, flush: true })
  return { bytes: Buffer.byteLength(content), sha256: createHash("sha256").update(content).digest("hex") }
}

export const tableFile = (folder: string, name: string) => path.join(folder, "tables", `${name}.zst`)

/** Writes rows as a new file. */
export const putRows = (file: string, rows: Stream.Stream<ReadonlyArray<string>, unknown>) =>
  // With the context, which contains the transaction of the rows.
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

/** Reads the rows of {@link putRows}, with limits: a manipulated backup may have matching digests. */
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

/** Writes the manifest, as the last file: a folder without it is not a backup. */
export const finish = async (folder: string, manifest: Manifest): Promise<void> => {
  const { sha256 } = await put(path.join(folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`)
  await put(path.join(folder, CHECK), `${sha256}  ${MANIFEST}\n`)
  await DurableFile.sync(path.join(folder, "tables"))
  await DurableFile.sync(folder)
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

/** Reads the manifest without its files. */
export const manifestOf = Effect.fnUntraced(function*(folder: string) {
  const refuse = (problem: string) => new NotRestorable({ folder, problem })
  const [text, check] = yield* Effect.tryPromise({
    try: () => Promise.all([readSmall(path.join(folder, MANIFEST)), readSmall(path.join(folder, CHECK))]),
    catch: (cause) => refuse(`it is not a complete backup. ${sentence(cause)}`)
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
  if (!Dump.isKnown(manifest.value.migrations)) {
    return yield* refuse(
      `its database is of Slipway ${version}, which is newer, or older than this version can load. Restore it with that version.`
    )
  }
  return manifest.value
})

/** Fails unless every file matches the manifest. */
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
