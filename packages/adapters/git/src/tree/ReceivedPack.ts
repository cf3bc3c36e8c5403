/**
 * Objects as a box writes them: an id and a line feed, then a pack. Nothing of it is trusted: it lies beside the repository
 * until it was looked at, and git names every object by its bytes anew.
 */
import { isCommitId } from "@slipway/domain/source/schema/Naming"
import * as IsThere from "@slipway/machine/node/IsThere"
import { Effect, Schema } from "effect"
import { chmod, mkdir, open, rename } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type HostRepository, run, scratch } from "./HostRepository.ts"

/** Why they are not taken. */
export class Unsound extends Schema.TaggedError<Unsound>()("Unsound", { reason: Schema.String }) {
  override get message() {
    return this.reason
  }
}

export const unsound = (reason: string) => new Unsound({ reason })

const TIMEOUT = "1 minute"

/** The content of a tree's `.gitmodules` is not checked: this service does not use it, and source hosts check pushes themselves. */
export const STRICT = `--strict=${["Large", "Name", "Path", "Update", "Url"].map((what) => `gitmodules${what}=ignore`).join(",")}`

const LINE_FEED = 0x0a
/** The length of an id and its line feed. */
const HEAD_BYTES = 41

export interface ReceivedPack {
  /** The next bytes. Fails beyond the limit. */
  readonly append: (bytes: Uint8Array) => Effect.Effect<void, Unsound>
  /** How many bytes have come so far, without the id. */
  readonly bytes: () => number
  /** The line before the pack; `undefined`: nothing came at all. */
  readonly id: Effect.Effect<string | undefined, Unsound>
  /** Has git read every object, which fails where one is broken or lacks another. */
  readonly index: ReturnType<typeof run>
  /** The folder with them, once they are indexed. */
  readonly objects: string
  /** As `run`, and sees the objects beside the repository's own. */
  readonly beside: typeof run
  /** Makes them a part of the repository. Under the same name they take no more room. */
  keep(name: string): Effect.Effect<void>
}

const keptAs = (gitDir: string, name: string): string => join(gitDir, "objects", "pack", `pack-${name}`)

/** A pack without its index is not there yet. */
const isThere = (kept: string): Promise<boolean> => IsThere.isThere(`${kept}.idx`)

/** Whether the objects were kept under that name, and lie there still. */
export const isKept = (gitDir: string, name: string): Effect.Effect<boolean> => Effect.promise(() => isThere(keptAs(gitDir, name)))

export const receive = Effect.fnUntraced(function*(repository: HostRepository, maximumBytes: number) {
  const place = yield* scratch(repository)
  const folder = join(place, "pack")
  const [pack, index] = [join(folder, "pack-received.pack"), join(folder, "pack-received.idx")]
  yield* Effect.promise(() => mkdir(folder, { recursive: true }))
  const output = yield* Effect.acquireRelease(
    Effect.promise(() => open(pack, "wx", 0o600)),
    (output) => Effect.promise(() => output.close())
  )
  let head = Buffer.alloc(0)
  let left = maximumBytes

  const received: ReceivedPack = {
    append: Effect.fnUntraced(function*(bytes) {
      const missing = Math.min(HEAD_BYTES - head.length, bytes.length)
      head = Buffer.concat([head, bytes.subarray(0, missing)])
      const rest = bytes.subarray(missing)
      left -= rest.length
      if (left < 0) return yield* unsound(`They have more than ${maximumBytes} bytes.`)
      if (rest.length === 0) return
      yield* Effect.tryPromise({ try: () => output.appendFile(rest), catch: () => unsound("This machine has no room for them.") })
    }),
    bytes: () => maximumBytes - left,
    id: Effect.suspend(() => {
      if (head.length === 0) return Effect.undefined
      const id = head.subarray(0, -1).toString("latin1")
      const isWhole = head.length === HEAD_BYTES && head[HEAD_BYTES - 1] === LINE_FEED && isCommitId(id)
      return isWhole ? Effect.succeed(id) : Effect.fail(unsound("They do not begin with the id of an object."))
    }),
    index: run(repository, ["index-pack", STRICT, "--threads=1", "-o", index, pack], {
      timeout: TIMEOUT,
      isLimited: true
    }),
    objects: place,
    beside: (asked, args, options) =>
      run(asked, args, {
        timeout: TIMEOUT,
        isLimited: true,
        ...options,
        env: { GIT_ALTERNATE_OBJECT_DIRECTORIES: place, ...options?.env }
      }),
    keep: (name) =>
      Effect.uninterruptible(Effect.promise(async () => {
        const kept = keptAs(repository.gitDir, name)
        if (await isThere(kept)) return
        const packs = dirname(kept)
        await mkdir(packs, { recursive: true })
        // The box, which runs as another user, is told to leave out what is in it, and so has to read it.
        await Promise.all([chmod(pack, 0o444), chmod(index, 0o444), chmod(packs, 0o755)])
        await rename(pack, `${kept}.pack`)
        await rename(index, `${kept}.idx`)
      }))
  }
  return received
})
