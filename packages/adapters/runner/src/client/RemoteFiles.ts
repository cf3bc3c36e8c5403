/** Files in a runner's machine, below its tree. The machine chooses their bytes and names. */
import { Effect, Schema, type Scope, Stream } from "effect"
import type { Reason } from "../wire/ChannelWire.ts"
import { type Entry, EntryReader } from "../wire/DirectoryListing.ts"
import { isCount, Violation } from "../wire/Wire.ts"
import * as ChannelEffects from "./ChannelEffects.ts"
import { FileRefused, FileRefusalReason, type RunnerError } from "./RunnerErrors.ts"

export interface RemoteFile {
  /** The size when the file was opened. */
  readonly size: number
  /** At most `size` bytes, fewer if the file got shorter. Read once. */
  readonly bytes: Stream.Stream<Uint8Array, FileRefused | RunnerError>
}

export interface RemoteFolder {
  /** Folders first, then in the order of bytes, if the runner is honest; a name may occur twice. */
  readonly entries: ReadonlyArray<Entry>
  /** Whether there are more names. */
  readonly isCut: boolean
}

const isReason = Schema.is(FileRefusalReason)

const refusedBy = ({ code }: Reason) => new FileRefused({ reason: isReason(code) ? code : "unreadable" })

/** A path with `/` between names, as one character for each byte. */
const pathOf = (path: Uint8Array): string => Buffer.from(path).toString("latin1")

/** The longest path: PATH_MAX. */
const MAX_PATH_BYTES = 4096

const notFound = new FileRefused({ reason: "not_found" })

/** Opens a plain file with one name, without following links. It is closed with the scope. */
export const readFile = (link: ChannelEffects.Link) =>
  Effect.fn("RunnerClient.readFile")(function*(path: Uint8Array, options: { readonly maximumBytes: number }): Effect.fn.Return<
    RemoteFile,
    FileRefused | RunnerError,
    Scope.Scope
  > {
    if (path.length > MAX_PATH_BYTES) return yield* notFound
    const { maximumBytes } = options
    const channel = yield* ChannelEffects.open(link, "file", { read: pathOf(path), maximumBytes }, refusedBy)
    channel.end()
    const size = yield* ChannelEffects.oneNote(link, channel, (note) => {
      const { size } = note
      if (!isCount(size) || size > maximumBytes) throw new Violation("a file of another size than was asked for")
      return size
    }, refusedBy)
    let read = 0
    return {
      size,
      bytes: ChannelEffects.bytesOf(link, channel, refusedBy).pipe(
        Stream.mapEffect((bytes) =>
          ChannelEffects.checked(link, () => {
            read += bytes.length
            if (read > size) throw new Violation("a file that is longer than it said")
            return bytes
          })
        )
      )
    }
  })

/** The first `most` names in a folder, without `.git`; the empty path is the tree itself. */
export const list = (link: ChannelEffects.Link) =>
  Effect.fn("RunnerClient.list")(function*(path: Uint8Array, options: { readonly most: number }): Effect.fn.Return<
    RemoteFolder,
    FileRefused | RunnerError,
    Scope.Scope
  > {
    if (path.length > MAX_PATH_BYTES) return yield* notFound
    const channel = yield* ChannelEffects.open(link, "file", { list: pathOf(path), most: options.most }, refusedBy)
    channel.end()
    const reader = new EntryReader(options.most)
    const cut = ChannelEffects.oneNote(link, channel, ({ isCut }) => {
      if (typeof isCut !== "boolean") throw new Violation("an invalid listing")
      return isCut
    }, refusedBy)
    const names = ChannelEffects.bytesOf(link, channel, refusedBy).pipe(
      Stream.runForEach((bytes) => ChannelEffects.checked(link, () => reader.add(bytes)))
    )
    const [isCut] = yield* Effect.all([cut, names], { concurrency: "unbounded" })
    return { entries: yield* ChannelEffects.checked(link, () => reader.end()), isCut }
  }, Effect.scoped)
