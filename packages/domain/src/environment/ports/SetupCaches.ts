/**
 * Port: packed folders that a setup filled, kept on one machine for the next sandbox of the same repository and grant
 * (docs/decisions/17). The bytes are opaque to the port. Checked by `SetupCachesContract`.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { RepoName } from "../../source/schema/RepoRef.ts"

/** The largest size of one cache, in bytes before storage. */
export const MAX_CACHE_BYTES = 4 * 2 ** 30

/** The owner and the name of a cache: see `CacheKey`. Repositories are not case-sensitive. */
export interface CachePlace {
  readonly grantId: string
  readonly repo: RepoName
  readonly key: string
}

/** The cache was not stored and nothing of it is left. The sandbox that filled it is not affected. */
export class CacheNotKept extends Schema.TaggedError<CacheNotKept>()("CacheNotKept", {
  /** `too_large`: a retry does not help until the cache is smaller or the machine's limit larger. */
  reason: Schema.Literals(["too_large", "unavailable"]),
  /** A sentence for operators. */
  detail: Schema.String
}) {
  override get message() {
    return `The cache is not kept. ${this.detail}`
  }
}

/** The cache failed while it was read. Discard what was read; the cache is no longer kept. */
export class CacheDamaged extends Schema.TaggedError<CacheDamaged>()("CacheDamaged", {}) {
  override get message() {
    return "The cache is damaged."
  }
}

interface Hit {
  readonly _tag: "Hit"
  /** The bytes as they were filled. A stream that ends without an error is complete. Read it before the scope closes. */
  readonly bytes: Stream.Stream<Uint8Array, CacheDamaged>
  /** A file with the same content that boxes of this machine can mount (`Box.overlay`) until the scope closes; `null`: no such file. */
  readonly image: string | null
}

interface Miss {
  readonly _tag: "Miss"
  /** Stores all of `bytes`. Stores nothing if the stream fails or the fiber is interrupted. Memory holds only parts of the bytes. */
  fill<E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Effect.Effect<void, E | CacheNotKept, R>
}

/** The result of a lookup: the cache, or the right to fill it. */
export type FoundCache = Hit | Miss

/** A cache never blocks a boot: an unreadable cache counts as missing. */
export class SetupCaches extends Context.Service<SetupCaches, {
  /**
   * Finds a cache and protects it from removal until the scope closes. Of concurrent callers the first gets a miss. The others wait for
   * it up to `patience`, then they get a miss too. When the first has filled the cache, all get a hit. If the first is interrupted, the
   * next gets the miss. If its scope closes otherwise or its fill fails, all get a miss at once, because each would fail after the
   * other.
   */
  find(place: CachePlace, patience: Duration.Input): Effect.Effect<FoundCache, never, Scope.Scope>
  /** Removes all caches that are not being read. */
  readonly makeRoom: Effect.Effect<void>
}>()("@slipway/domain/SetupCaches") {
}
