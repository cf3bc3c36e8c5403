/** Port: events that a source host sends over the web, if the operator has configured them. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { RepoName } from "../schema/RepoRef.ts"

/** The signature of the request is invalid. Sending it again does not help. */
export class NotAuthentic extends Schema.TaggedError<NotAuthentic>()("NotAuthentic", {}) {
  override get message() {
    return "The signature is not the source host's."
  }
}

/** A received request. */
export interface SignedNews {
  /** Headers by lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The exact received text, because the signature covers its bytes. */
  readonly body: string
}

/** An event about a pull request from this branch. The change itself has to be asked for. */
export interface News {
  readonly repo: RepoName
  readonly branch: string
}

/** Reads events of the source host. */
export class SourceHostEvents extends Context.Service<SourceHostEvents, {
  /** `null`: authentic but irrelevant. */
  read(sent: SignedNews): Effect.Effect<News | null, NotAuthentic>
}>()("@slipway/domain/SourceHostEvents") {}
