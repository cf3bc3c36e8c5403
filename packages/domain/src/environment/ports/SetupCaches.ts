/**
 * Port: folders that a setup filled, packed, kept on one machine for the next sandbox of the same repository and grant
 * (docs/decisions/17). What is in the bytes is no matter of it. Checked by `SetupCachesContract`.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { RepoName } from "../../source/schema/RepoRef.ts"

/** Bytes of one cache as it is filled, at most. */
export const MAX_CACHE_BYTES = 4 * 2 ** 30

/** Whose it is, and what names it: see `CacheKey`. Repositories are the same in any case of letters. */
export interface CachePlace {
  readonly grantId: string
  readonly repo: RepoName
  readonly key: string
}

/** What was to be kept is not; nothing of it is left. The sandbox that filled it has what it needs all the same. */
export class CacheNotKept extends Schema.TaggedError<CacheNotKept>()("CacheNotKept", {
  /** `too_large`: trying again does not help until it has less, or the machine keeps more. */
  reason: Schema.Literals(["too_large", "unavailable"]),
  /** A sentence for operators. */
  detail: Schema.String
}) {
  override get message() {
    return `The cache is not kept. ${this.detail}`
  }
}

/** It broke while it was read. What was read of it does not count, and it is no longer kept. */
export class CacheDamaged extends Schema.TaggedError<CacheDamaged>()("CacheDamaged", {}) {
  override get message() {
    return "The cache is damaged."
  }
}

interface Hit {
  readonly _tag: "Hit"
  /** As they were filled. A stream that ends had all of them. To be read before the scope closes. */
  readonly bytes: Stream.Stream<Uint8Array, CacheDamaged>
  /** A file with the same that this machine's boxes can mount (`Box.overlay`), until the scope closes; `null`: there is none. */
  readonly image: string | null
}

interface Miss {
  readonly _tag: "Miss"
  /** Keeps all of `bytes`, or nothing if they fail or this is cut off. They are never whole in memory. */
  fill<E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Effect.Effect<void, E | CacheNotKept, R>
}

export type FoundCache = Hit | Miss

/** A cache never keeps anybody from a boot: what cannot be read is missing. */
export class SetupCaches extends Context.Service<SetupCaches, {
  /**
   * What is kept there, until the scope closes: so long it is not removed. Of many who find nothing at once the first one gets a
   * miss, and the others wait for it, at most for `patience`, then they get one too. Once it has filled the cache, all of them
   * hit. If it is interrupted, the next one gets the miss; if its scope closes in another way or its fill fails, all do at once,
   * since each would fail after the other.
   */
  find(place: CachePlace, patience: Duration.Input): Effect.Effect<FoundCache, never, Scope.Scope>
  /** Removes all that nobody reads. */
  readonly makeRoom: Effect.Effect<void>
}>()("@slipway/domain/SetupCaches") {
}
