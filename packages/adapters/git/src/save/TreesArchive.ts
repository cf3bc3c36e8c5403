/**
 * Saved trees as bytes: {@link MAGIC}, then parts, each with its length (8 bytes, the highest first) and its SHA-256 before it.
 * The first part says what is known of the trees, as JSON; then comes a pack for each of them, in the same order, empty where
 * there is nothing beyond the commit it started from. Whoever reads it believes nothing: any agent may have filled it.
 */
import { CheckpointDamaged } from "@slipway/domain/files/ports/WorkingTrees"
import { isRefName } from "@slipway/domain/source/schema/Naming"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { Effect, Option, Schema, Stream } from "effect"
import { createHash } from "node:crypto"
import { open } from "node:fs/promises"
import { join } from "node:path"
import { readChunk } from "../tree/SafeTree.ts"

const CommitId = Schema.String.check(Schema.isPattern(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/u))
const Branch = Schema.String.check(Schema.isMaxLength(255), Schema.makeFilter(isRefName))

/** What is known of a saved tree. */
export const SavedTree = Schema.Struct({
  repo: RepoName,
  baseSha: CommitId,
  baseRef: Schema.NullOr(Branch),
  /** As of the tree it was made from. */
  preparedAt: Counter,
  /** The commit of the tree as it was. */
  sha: CommitId,
  /** The newest commit of the agent; `null`: it is where the tree started. */
  head: Schema.NullOr(CommitId),
  /** The branch the agent is on, where that can be told. */
  branch: Schema.NullOr(Branch),
  published: Schema.NullOr(CommitId),
  pushed: Schema.Array(Schema.Struct({
    branch: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/u)),
    commits: Schema.Array(CommitId)
  }))
})
export type SavedTree = typeof SavedTree.Type

const Content = Schema.fromJsonString(Schema.Array(SavedTree))

const MAGIC = Buffer.from("slipway trees 1\n")
const LENGTH_BYTES = 8
const HEAD_BYTES = LENGTH_BYTES + 32
/** Of what is known of the trees: far more than sixteen with all that they pushed. */
const MAXIMUM_ABOUT_BYTES = 8_388_608

const headOf = (length: number, digest: Buffer): Buffer => {
  const head = Buffer.alloc(LENGTH_BYTES)
  head.writeBigUInt64BE(BigInt(length))
  return Buffer.concat([head, digest])
}

/** A pack in an open file. */
export interface Pack {
  readonly fd: number
  readonly size: number
}

const bytesOf = ({ fd, size }: Pack): Stream.Stream<Uint8Array> =>
  Stream.unfold(0, (position) =>
    position === size ? Effect.undefined : Effect.flatMap(
      readChunk(fd, position, size),
      (chunk) => chunk.length === 0 ? Effect.die(new Error("a pack was cut")) : Effect.succeed([chunk, position + chunk.length] as const)
    ))

/** The archive of these trees. The files have to stay open as long as it is read. */
export const write = Effect.fnUntraced(function*(trees: ReadonlyArray<{ readonly tree: SavedTree; readonly pack: Pack | null }>) {
  const about = Buffer.from(yield* Effect.orDie(Schema.encodeEffect(Content)(trees.map(({ tree }) => tree))))
  let content: Stream.Stream<Uint8Array> = Stream.make(
    Buffer.concat([MAGIC, headOf(about.length, createHash("sha256").update(about).digest()), about])
  )
  let size = MAGIC.length + HEAD_BYTES + about.length
  for (const { pack } of trees) {
    const bytes = pack === null ? Stream.empty : bytesOf(pack)
    const hash = createHash("sha256")
    yield* Stream.runForEach(bytes, (chunk) => Effect.sync(() => void hash.update(chunk)))
    const head = headOf(pack?.size ?? 0, hash.digest())
    content = Stream.concat(content, Stream.concat(Stream.make(head), bytes))
    size += HEAD_BYTES + (pack?.size ?? 0)
  }
  return { content, size }
})

const damaged = (detail: string) => new CheckpointDamaged({ detail })
const CUT = "It ends too early."

/** What is in front of the next bytes. */
type State =
  | { readonly _tag: "Magic" }
  | { readonly _tag: "Head" }
  | { readonly _tag: "Part"; readonly length: number; readonly digest: Buffer; readonly hash: ReturnType<typeof createHash> }
  | { readonly _tag: "End" }

/** Puts the packs of an archive, of at most `maximumBytes`, into `folder` and says what it knows of them. */
export const read = <E, R>(content: Stream.Stream<Uint8Array, E, R>, folder: string, maximumBytes: number) =>
  Effect.scoped(Effect.gen(function*() {
    const at: { state: State } = { state: { _tag: "Magic" } }
    /** Bytes of a head, or of the first part, so far. */
    let begun: Array<Buffer> = []
    /** Bytes of the state that are missing. */
    let missing = MAGIC.length
    let left = maximumBytes + MAXIMUM_ABOUT_BYTES
    let trees: ReadonlyArray<SavedTree> | undefined
    const packs: Array<string> = []
    let output: Awaited<ReturnType<typeof open>> | undefined
    yield* Effect.addFinalizer(() => Effect.promise(async () => output?.close()))

    /** The state is whole. */
    const advance = Effect.fnUntraced(function*() {
      const { state } = at
      switch (state._tag) {
        case "Magic":
          if (!Buffer.concat(begun).equals(MAGIC)) return yield* damaged("It is no checkpoint.")
          at.state = { _tag: "Head" }
          missing = HEAD_BYTES
          break
        case "Head": {
          const head = Buffer.concat(begun)
          const length = Number(head.readBigUInt64BE())
          if (length > (trees === undefined ? MAXIMUM_ABOUT_BYTES : maximumBytes)) return yield* damaged("It is larger than it may be.")
          if (trees !== undefined) {
            const path = join(folder, `${packs.length}.pack`)
            output = yield* Effect.promise(() => open(path, "wx", 0o600))
            packs.push(path)
          }
          at.state = { _tag: "Part", length, digest: head.subarray(LENGTH_BYTES), hash: createHash("sha256") }
          missing = length
          break
        }
        case "Part": {
          if (!state.hash.digest().equals(state.digest)) return yield* damaged("It was changed since it was saved.")
          if (trees === undefined) {
            const about = Schema.decodeOption(Content)(Buffer.concat(begun).toString())
            if (Option.isNone(about)) return yield* damaged("It does not say what it is of.")
            trees = about.value
          } else {
            const file = output
            output = undefined
            yield* Effect.promise(async () => file?.close())
          }
          const isLast = packs.length === trees.length
          at.state = isLast ? { _tag: "End" } : { _tag: "Head" }
          missing = isLast ? Number.POSITIVE_INFINITY : HEAD_BYTES
          break
        }
        case "End":
      }
      begun = []
    })

    const append = Effect.fnUntraced(function*(bytes: Uint8Array) {
      left -= bytes.length
      if (left < 0) return yield* damaged("It is larger than it may be.")
      for (let rest = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length); rest.length > 0;) {
        const { state } = at
        if (state._tag === "End") return yield* damaged("It goes on after its end.")
        const piece = rest.subarray(0, Math.min(missing, PIECE_BYTES))
        rest = rest.subarray(piece.length)
        missing -= piece.length
        if (state._tag === "Part") state.hash.update(piece)
        const file = output
        if (file === undefined) begun.push(piece)
        else yield* Effect.promise(() => file.appendFile(piece))
        while (missing === 0) yield* advance()
      }
    })
    yield* Stream.runForEach(content, append)
    if (at.state._tag !== "End" || trees === undefined) return yield* damaged(CUT)
    return trees.map((tree, i) => ({ tree, pack: packs[i] ?? "" }))
  }))

/** Written and hashed in one go: less than a millisecond. */
const PIECE_BYTES = 262_144
