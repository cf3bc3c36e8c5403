/** Port: what a source host sends by itself when something happens there, over the web. Only where the operator set it up. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { RepoName } from "../schema/RepoRef.ts"

/** Nobody but the source host could have signed it, and it is not signed so. Sending it again does not help. */
export class NotAuthentic extends Schema.TaggedError<NotAuthentic>()("NotAuthentic", {}) {
  override get message() {
    return "The signature is not the source host's."
  }
}

/** A request as it came in. */
export interface SignedNews {
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Exactly what was sent: the signature is over its bytes. */
  readonly body: string
}

/** Something happened to a pull request from this branch. What, the host tells when it is asked. */
export interface News {
  readonly repo: RepoName
  readonly branch: string
}

export class SourceHostEvents extends Context.Service<SourceHostEvents, {
  /** `null`: authentic, and nothing that concerns us. */
  read(sent: SignedNews): Effect.Effect<News | null, NotAuthentic>
}>()("@slipway/domain/SourceHostEvents") {}
