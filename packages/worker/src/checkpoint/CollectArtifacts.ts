/** Stores the files that the agent left for people when a turn has ended (docs/decisions/32). */
import { type ArtifactPiece, ArtifactStore, MAX_PIECE_BYTES, type StoredArtifact } from "@slipway/domain/files/ports/ArtifactStore"
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import {
  ARTIFACT_HEAD_BYTES,
  artifactType,
  isArtifactName,
  keptArtifacts,
  MAX_ARTIFACT_BYTES,
  MAX_ARTIFACT_NAME_BYTES,
  MAX_ARTIFACTS
} from "@slipway/domain/files/rules/Artifact"
import { ARTIFACTS_FOLDER } from "@slipway/domain/files/rules/ArtifactsFolder"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET } from "@slipway/domain/ids/SandboxId"
import { type FilePart, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { lastEnded } from "@slipway/domain/sandbox/rules/SystemCommand"
import { Data, DateTime, Effect, Option, Stream } from "effect"
import { createHash } from "node:crypto"
import { type LeasedSandbox, untilAvailable } from "../shared/LeasedSandbox.ts"

/** Bytes of the names and lengths that hosts count too. */
const OVERHEAD_BYTES = 2 * 1024 * 1024

/** A failed attempt waits no longer than this for a store that does not answer. */
const REPORT_WITHIN = "5 seconds"

const TOO_MANY = `Some files were not kept: a sandbox may have ${MAX_ARTIFACTS} artifacts with ${MAX_ARTIFACT_BYTES / 1024 / 1024} MiB ` +
  "together. Files are kept in the order of their names, up to the first that does not fit."

const badNames = (count: number) =>
  `${count === 1 ? "1 file was" : `${count} files were`} not kept because of the name: it is longer than ${MAX_ARTIFACT_NAME_BYTES} ` +
  "bytes, or has characters that cannot be shown."

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

/** The file that is being read does not fit. */
class Full extends Data.TaggedError("Full")<{}> {}

/** Puts the bytes of a piece into the store unless they are there. */
type PutPiece<E, R> = (bytes: Uint8Array) => Effect.Effect<ArtifactPiece, E, R>

/** Cuts files into pieces while their parts come: it has at most one piece in memory. */
const makeReader = <E, R>(put: PutPiece<E, R>) => {
  const found: Array<Omit<StoredArtifact, "createdAt" | "turnId">> = []
  let names = 0
  let total = 0
  let file:
    | { readonly name: string; readonly hash: ReturnType<typeof createHash>; readonly pieces: Array<ArtifactPiece>; size: number }
    | null = null
  let head = new Uint8Array(0)
  let waiting: Array<Uint8Array> = []
  let waitingBytes = 0

  const flush = Effect.suspend(() => {
    const bytes = Buffer.concat(waiting)
    waiting = []
    waitingBytes = 0
    return bytes.length === 0 ? Effect.void : Effect.map(put(bytes), (piece) => void file?.pieces.push(piece))
  })

  const add = Effect.fnUntraced(function*(bytes: Uint8Array) {
    if (file === null) return
    total += bytes.length
    if (total > MAX_ARTIFACT_BYTES) return yield* new Full()
    file.size += bytes.length
    file.hash.update(bytes)
    if (head.length < ARTIFACT_HEAD_BYTES) head = Buffer.concat([head, bytes.subarray(0, ARTIFACT_HEAD_BYTES - head.length)])
    for (let rest = bytes; rest.length > 0;) {
      const next = rest.subarray(0, MAX_PIECE_BYTES - waitingBytes)
      waiting.push(next)
      waitingBytes += next.length
      rest = rest.subarray(next.length)
      if (waitingBytes === MAX_PIECE_BYTES) yield* flush
    }
  })

  /** The file is complete. */
  const end = Effect.gen(function*() {
    yield* flush
    if (file === null) return
    const { hash, name, pieces, size } = file
    found.push({ name, mediaType: artifactType(name, head), size, sha256: hash.digest("hex"), pieces })
    file = null
  })

  const begin = Effect.fnUntraced(function*(name: string) {
    yield* end
    head = new Uint8Array(0)
    if (!isArtifactName(name)) {
      names++
      return
    }
    if (found.length === MAX_ARTIFACTS) return yield* new Full()
    file = { name, hash: createHash("sha256"), pieces: [], size: 0 }
  })

  return {
    take: (part: FilePart) => "path" in part ? begin(part.path.slice(ARTIFACTS_FOLDER.length + 1)) : add(part.bytes),
    end,
    /** Forgets the file that may be incomplete, and returns its name; `null`: no such file. */
    drop: () => {
      const dropped = file
      file = null
      waiting = []
      waitingBytes = 0
      total -= dropped?.size ?? 0
      return dropped?.name ?? null
    },
    /** The complete files, and how many had a bad name. */
    result: () => ({ found, names })
  }
}

/** Reads the folder, and stores pieces that the sandbox does not have. */
const read = Effect.fnUntraced(function*(leased: LeasedSandbox, earlier: ReadonlyArray<StoredArtifact>) {
  const host = yield* SandboxHost
  const store = yield* ArtifactStore
  const blobs = yield* Blobs
  const ids = yield* Ids
  const { sandbox: { grantId } } = yield* leased.view
  const known = new Map(earlier.flatMap(({ pieces }) => pieces.map((piece) => [`${piece.sha256} ${piece.size}`, piece] as const)))

  const put = Effect.fnUntraced(function*(bytes: Uint8Array) {
    const wanted = { holder: `art_${yield* ids.random(ID_ALPHABET, 12)}`, sha256: sha256(bytes), size: bytes.length }
    const there = known.get(`${wanted.sha256} ${wanted.size}`)
    if (there !== undefined) return there
    const { holder, isStored } = yield* untilAvailable(store.begin(leased.lease, wanted, yield* DateTime.now))
    const piece: ArtifactPiece = { ...wanted, holder }
    if (!isStored) {
      yield* untilAvailable(blobs.put({ grantId, ...piece }, Stream.make(bytes))).pipe(
        Effect.catchTags({ BlobMismatch: Effect.die, BlobTooLarge: Effect.die })
      )
    }
    known.set(`${piece.sha256} ${piece.size}`, piece)
    return piece
  })

  const reader = makeReader(put)
  const take = (path: string) =>
    Stream.runForEach(host.readFiles(leased.id, path, { maximumBytes: MAX_ARTIFACT_BYTES + OVERHEAD_BYTES }), reader.take).pipe(
      Effect.andThen(reader.end),
      Effect.as(true)
    )
  const isAll = yield* take(ARTIFACTS_FOLDER).pipe(
    // A connection may have lost the end of the last file, so it is read alone.
    Effect.catchTag("HomeTooLarge", () => {
      const last = reader.drop()
      return last === null ? Effect.succeed(false) : Effect.as(take(`${ARTIFACTS_FOLDER}/${last}`), false)
    }),
    Effect.catchTag(["Full", "HomeTooLarge"], () => Effect.succeed(false))
  )
  const { found, names } = reader.result()
  const leftOut = [...(isAll ? [] : [TOO_MANY]), ...(names === 0 ? [] : [badNames(names)])]
  return { found, leftOut: leftOut.length === 0 ? null : leftOut.join(" ") }
})

/** Whether the bytes and the type of the artifact are the same. */
const isSame = (one: Pick<StoredArtifact, "mediaType" | "sha256" | "size">, other: StoredArtifact) =>
  one.sha256 === other.sha256 && one.size === other.size && one.mediaType === other.mediaType

/**
 * Stores the files of the folder. An artifact whose file is unchanged stays as it is. Does nothing if this worker has no store of files.
 * Waits for a store that does not answer. Safe to repeat. No turn may run.
 */
const store = Effect.fnUntraced(function*(leased: LeasedSandbox) {
  const artifacts = yield* ArtifactStore
  const before = yield* untilAvailable(artifacts.find(leased.id))
  const { found, leftOut } = yield* read(leased, before.artifacts)
  const { sandbox } = yield* leased.view
  const createdAt = yield* DateTime.now
  const turnId = lastEnded(sandbox) ?? null
  const earlier = new Map(before.artifacts.map((artifact) => [artifact.name, artifact]))
  const now = found.map((one): StoredArtifact => {
    const known = earlier.get(one.name)
    return known !== undefined && isSame(one, known) ? known : { ...one, turnId, createdAt }
  })
  const kept = keptArtifacts(now, before.artifacts)
  const isUnchanged = leftOut === before.leftOut && kept.length === before.artifacts.length &&
    kept.every((artifact) => artifact === earlier.get(artifact.name))
  if (!isUnchanged) yield* untilAvailable(artifacts.save(leased.lease, { artifacts: kept, leftOut }))
})

/** Says why the files of the last turn are missing. The earlier artifacts stay. */
const report = Effect.fnUntraced(function*(leased: LeasedSandbox, reason: string) {
  yield* Effect.logWarning("artifacts could not be stored", { reason })
  const artifacts = yield* ArtifactStore
  const before = yield* artifacts.find(leased.id)
  const leftOut = `The files of the last turn could not be stored: ${reason}`
  if (before.leftOut !== leftOut) yield* artifacts.save(leased.lease, { ...before, leftOut })
})

/**
 * Stores the artifacts of the ended turn if a checkpoint is owed. `given`: fails when the attempt takes too long. No failure but
 * `StaleLease` leaves this function: the turn and its checkpoint do not depend on artifacts.
 */
export const collect = Effect.fn("artifacts")(function*<E extends { readonly message: string }, R>(
  leased: LeasedSandbox,
  given: Effect.Effect<never, E, R>
) {
  const [artifacts, blobs] = [yield* Effect.serviceOption(ArtifactStore), yield* Effect.serviceOption(Blobs)]
  if (Option.isNone(artifacts) || Option.isNone(blobs) || !(yield* leased.view).sandbox.owesCheckpoint) return
  const attempt = Effect.raceFirst(store(leased), given).pipe(
    Effect.catchIf(
      (error): error is Exclude<typeof error, { readonly _tag: "StaleLease" }> => !("_tag" in error && error._tag === "StaleLease"),
      ({ message }) =>
        report(leased, message).pipe(
          Effect.catchTag("StoreUnavailable", (error) => Effect.logWarning("a failed collection could not be recorded", error)),
          Effect.timeoutOption(REPORT_WITHIN)
        )
    )
  )
  yield* attempt.pipe(Effect.provideService(ArtifactStore, artifacts.value), Effect.provideService(Blobs, blobs.value))
})
