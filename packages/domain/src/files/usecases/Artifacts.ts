/** Reads the files that agents left for people (docs/decisions/32). */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Principal } from "../../access/schema/Principal.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { type SandboxNotFound, SandboxStore } from "../../sandbox/ports/SandboxStore.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { ArtifactStore, type StoredArtifact } from "../ports/ArtifactStore.ts"
import { type BlobNotFound, Blobs } from "../ports/Blobs.ts"
import type { Artifact, ArtifactList } from "../schema/Artifact.ts"

/** The sandbox has no artifact of this name, or it is no longer kept. */
export class ArtifactNotFound extends Schema.TaggedError<ArtifactNotFound>()("ArtifactNotFound", {}) {
  override get message() {
    return "No such artifact."
  }
}

/** Bytes of an artifact: `start` is the first, `end` the one after the last. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/** An artifact whose bytes can be read. */
export interface OpenArtifact {
  readonly artifact: Artifact
  /** The bytes in this range. The stream fails if they are deleted meanwhile. */
  read(range: ByteRange): Stream.Stream<Uint8Array, BlobNotFound | StoreUnavailable>
}

const shown = ({ createdAt, mediaType, name, sha256, size, turnId }: StoredArtifact): Artifact => ({
  name,
  mediaType,
  size,
  sha256,
  turnId,
  createdAt
})

/** The artifacts of the caller's sandboxes. A sandbox of another grant is an unknown one. */
export class Artifacts extends Context.Service<Artifacts, {
  /** By name. Those of a finished sandbox are kept for as long as its events. */
  list(by: Principal, id: SandboxId): Effect.Effect<ArtifactList, SandboxNotFound | StoreUnavailable>
  open(by: Principal, id: SandboxId, name: string): Effect.Effect<OpenArtifact, ArtifactNotFound | SandboxNotFound | StoreUnavailable>
}>()("@slipway/domain/Artifacts") {
  static readonly layer = Layer.effect(
    Artifacts,
    Effect.gen(function*() {
      const sandboxes = yield* SandboxStore
      const store = yield* ArtifactStore
      const blobs = yield* Blobs

      const find = Effect.fnUntraced(function*({ grantId }: Principal, id: SandboxId) {
        yield* sandboxes.find({ grantId, id })
        return yield* store.find(id)
      })

      return Artifacts.of({
        list: Effect.fn("Artifacts.list")(function*(by, id) {
          const { artifacts, leftOut } = yield* find(by, id)
          return { data: artifacts.map(shown), leftOut }
        }),
        open: Effect.fn("Artifacts.open")(function*(by, id, name) {
          const found = (yield* find(by, id)).artifacts.find((artifact) => artifact.name === name)
          if (found === undefined) return yield* new ArtifactNotFound()
          const { grantId } = by
          return {
            artifact: shown(found),
            read: ({ end, start }) => {
              let before = 0
              const parts = found.pieces.flatMap((piece) => {
                const from = before
                before += piece.size
                if (before <= start || from >= end) return []
                let at = from
                return [Stream.map(blobs.get({ grantId, ...piece }), (bytes) => {
                  const first = at
                  at += bytes.length
                  return bytes.subarray(Math.max(0, start - first), Math.max(0, end - first))
                })]
              })
              return Stream.filter(Stream.flatten(Stream.fromIterable(parts)), ({ length }) => length > 0)
            }
          }
        })
      })
    })
  )
}
