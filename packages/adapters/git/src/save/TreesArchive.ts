/**
 * Saved trees as bytes: {@link MAGIC}, then parts, each after its length (8 bytes, highest first) and its SHA-256. The first part is the
 * JSON of what is known of the trees. The others are a pack for each tree, in the same order; a tree that is still at its first
 * commit has an empty pack. Any agent may have made the bytes, so nothing in them is believed.
 */
import { CheckpointDamaged } from "@slipway/domain/files/ports/WorkingTrees"
import * as Frames from "@slipway/domain/files/rules/Frames"
import { isRefName } from "@slipway/domain/source/schema/Naming"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { Effect, Schema, Stream } from "effect"
import { createHash } from "node:crypto"
import { type FileHandle, open } from "node:fs/promises"
import { join } from "node:path"
import { readChunk } from "../tree/SafeTree.ts"

const CommitId = Schema.String.check(Schema.isPattern(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/u))
const Branch = Schema.String.check(Schema.isMaxLength(255), Schema.makeFilter(isRefName))

/** The description of a saved tree. */
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
const DIGEST_BYTES = 32
const HEAD_BYTES = LENGTH_BYTES + DIGEST_BYTES
/** The most bytes of the first part: far more than sixteen trees with all that they pushed. */
const MAXIMUM_ABOUT_BYTES = 8_388_608

const headOf = (length: number, digest: Buffer): Uint8Array => Frames.joined([Frames.numberOf(length, LENGTH_BYTES), digest])

/** A pack in an open file. */
interface Pack {
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

/** Written and hashed in one go: less than a millisecond. */
const PIECE_BYTES = 262_144

const treesIn = Frames.jsonIn(Schema.Array(SavedTree), "It does not say which trees it has.")

type Part = { readonly trees: ReadonlyArray<SavedTree> } | "pack" | Uint8Array

function* headIn(maximumBytes: number) {
  const head = yield* Frames.bytes(HEAD_BYTES)
  const length = Frames.numberIn(head.subarray(0, LENGTH_BYTES))
  if (length > maximumBytes) throw new Frames.FrameError({ reason: "too_large", detail: "It is larger than it may be." })
  return { length, digest: head.subarray(LENGTH_BYTES) }
}

const check = (digest: Uint8Array, hash: ReturnType<typeof createHash>) => {
  if (Frames.isSame(hash.digest(), digest)) return
  throw new Frames.FrameError({ reason: "changed", detail: "It was changed since it was saved." })
}

/** The trees, then for each of them `"pack"` and the bytes of its pack. */
function* parts(maximumBytes: number): Frames.Format<Part> {
  yield* Frames.magic(MAGIC, "It is no checkpoint.")
  const about = yield* headIn(MAXIMUM_ABOUT_BYTES)
  const bytes = yield* Frames.bytes(about.length)
  check(about.digest, createHash("sha256").update(bytes))
  const trees = treesIn(bytes)
  yield* Frames.give<Part>({ trees })
  for (const _ of trees) {
    const { digest, length } = yield* headIn(maximumBytes)
    yield* Frames.give<Part>("pack")
    const hash = createHash("sha256")
    for (let left = length; left > 0;) {
      const piece = yield* Frames.some(Math.min(left, PIECE_BYTES))
      hash.update(piece)
      left -= piece.length
      yield* Frames.give<Part>(piece)
    }
    check(digest, hash)
  }
}

/** Puts the packs of an archive of at most `maximumBytes` into `folder`, and answers what it says of the trees. */
export const read = <E, R>(content: Stream.Stream<Uint8Array, E, R>, folder: string, maximumBytes: number) =>
  Effect.scoped(Effect.gen(function*() {
    const next = yield* Frames.reader(content, parts(maximumBytes), {
      maximumBytes: maximumBytes + MAXIMUM_ABOUT_BYTES,
      onError: ({ detail }) => new CheckpointDamaged({ detail })
    })
    let trees: ReadonlyArray<SavedTree> = []
    const packs: Array<string> = []
    let output: FileHandle | undefined
    const close = Effect.promise(async () => {
      const file = output
      output = undefined
      await file?.close()
    })
    yield* Effect.addFinalizer(() => close)
    for (let part = yield* next; part !== undefined; part = yield* next) {
      if (part instanceof Uint8Array) {
        const [file, piece] = [output, part]
        yield* Effect.promise(async () => file?.appendFile(piece))
      } else if (part === "pack") {
        yield* close
        const path = join(folder, `${packs.length}.pack`)
        output = yield* Effect.promise(() => open(path, "wx", 0o600))
        packs.push(path)
      } else trees = part.trees
    }
    yield* close
    return trees.map((tree, i) => ({ tree, pack: packs[i] ?? "" }))
  }))
