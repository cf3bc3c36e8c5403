/** `SourceHostEvents` from GitHub: webhooks of a GitHub App, signed with its secret. */
import { verify } from "@octokit/webhooks-methods"
import { SourceHostEvents, NotAuthentic } from "@slipway/domain/source/ports/SourceHostEvents"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Layer, Option, Redacted, Schema } from "effect"

/** https://docs.github.com/en/webhooks/webhook-events-and-payloads#pull_request, and the similar events of reviews. */
const PullRequestNews = Schema.fromJsonString(Schema.Struct({
  pull_request: Schema.Struct({ head: Schema.Struct({ ref: Schema.String }) }),
  repository: Schema.Struct({ full_name: RepoName })
}))
const decode = Schema.decodeUnknownOption(PullRequestNews)

export const layer = (options: { readonly secret: Redacted.Redacted }): Layer.Layer<SourceHostEvents> =>
  Layer.succeed(SourceHostEvents, {
    read: Effect.fn("SourceHostEvents.read")(function*({ body, headers }) {
      const signature = headers["x-hub-signature-256"] ?? ""
      // The library fails for an empty signature instead of rejecting it.
      const authentic = signature !== "" && body !== "" &&
        (yield* Effect.promise(() => verify(Redacted.value(options.secret), body, signature)))
      if (!authentic) return yield* new NotAuthentic()
      return Option.match(decode(body), {
        onNone: () => null,
        onSome: ({ pull_request, repository }) => ({ repo: repository.full_name, branch: pull_request.head.ref })
      })
    })
  })
