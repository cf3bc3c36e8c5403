/** `SourceHostEvents` from GitHub: webhooks of a GitHub App, signed with its secret. */
import { verify } from "@octokit/webhooks-methods"
import { NotAuthentic, SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { DateTime, Effect, Layer, Option, Redacted, Schema } from "effect"
import { authorOf, newsOf } from "./News.ts"

/** https://docs.github.com/en/webhooks/webhook-events-and-payloads: common to all events of a repository. */
const Delivery = Schema.fromJsonString(Schema.StructWithRest(
  Schema.Struct({
    repository: Schema.Struct({ full_name: RepoName }),
    sender: Schema.optionalKey(
      Schema.NullOr(Schema.Struct({ id: Counter, login: Schema.String, type: Schema.optionalKey(Schema.String) }))
    )
  }),
  [Schema.Record(Schema.String, Schema.Unknown)]
))
const decode = Schema.decodeUnknownOption(Delivery)

export const layer = (options: { readonly secret: Redacted.Redacted }): Layer.Layer<SourceHostEvents> =>
  Layer.succeed(SourceHostEvents, {
    read: Effect.fn("SourceHostEvents.read")(function*({ body, headers }) {
      const signature = headers["x-hub-signature-256"] ?? ""
      // The library fails for an empty signature instead of rejecting it.
      const authentic = signature !== "" && body !== "" &&
        (yield* Effect.promise(() => verify(Redacted.value(options.secret), body, signature)))
      if (!authentic) return yield* new NotAuthentic()
      const at = yield* DateTime.now
      return Option.match(decode(body), {
        onNone: () => [],
        onSome: (payload) =>
          newsOf({
            name: headers["x-github-event"] ?? "",
            payload,
            repo: payload.repository.full_name,
            at,
            actor: authorOf(payload.sender)
          })
      })
    })
  })
