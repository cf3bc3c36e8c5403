/** A test server with an organization `Acme`, and `SourceHost` on it. */
import type { SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { Changes } from "@slipway/git/testing/BareRepository"
import { Context, Effect, Layer, Redacted } from "effect"
import { randomUUID } from "node:crypto"
import type { Options } from "../src/ForgejoApi.ts"
import * as SourceHostForgejo from "../src/SourceHostForgejo.ts"
import * as ForgejoServer from "../testing/ForgejoServer.ts"

export class TestForgejo extends Context.Service<TestForgejo, ForgejoServer.ForgejoServer>()("@slipway/forgejo/TestForgejo") {
  static readonly layer = (options: ForgejoServer.Options = {}): Layer.Layer<TestForgejo> =>
    Layer.effect(
      TestForgejo,
      Effect.map(ForgejoServer.start(options), (server) => {
        server.organizations.set("acme", { labels: [{ id: 901, name: "shared" }], teams: new Set(["payments"]) })
        return server
      })
    )
}

/** As the service has it. */
export const optionsOf = (server: ForgejoServer.ForgejoServer): Options => ({
  url: server.webUrl,
  token: () => Effect.succeed(Redacted.make(server.token))
})

export const hostOf = (server: ForgejoServer.ForgejoServer): Layer.Layer<SourceHost, SourceHostError> =>
  SourceHostForgejo.layer(optionsOf(server))

export const layer = (options?: ForgejoServer.Options): Layer.Layer<SourceHost | TestForgejo, SourceHostError> =>
  Layer.unwrap(Effect.map(TestForgejo, hostOf)).pipe(Layer.provideMerge(TestForgejo.layer(options)))

/** A new private repository of `Acme`. */
export const repository = Effect.fnUntraced(function*(files: Changes) {
  const server = yield* TestForgejo
  const fullName = RepoName.make(`Acme/App-${randomUUID()}`)
  return { fullName, repository: yield* server.repository(fullName, files) }
})
