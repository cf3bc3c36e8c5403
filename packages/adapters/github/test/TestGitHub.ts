/** A test server with the App installed for `Acme`, and `SourceHost` on it. */
import type { SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { Changes } from "@slipway/git/testing/BareRepository"
import { Context, Effect, Layer, Redacted } from "effect"
import { randomUUID } from "node:crypto"
import * as SourceHostGitHub from "../src/SourceHostGitHub.ts"
import type { Installation } from "../testing/AppAuthentication.ts"
import * as GitHubServer from "../testing/GitHubServer.ts"

export class TestGitHub extends Context.Service<TestGitHub, GitHubServer.GitHubServer & { readonly installation: Installation }>()(
  "@slipway/github/TestGitHub"
) {
  static readonly layer = (options: GitHubServer.Options = {}): Layer.Layer<TestGitHub> =>
    Layer.effect(TestGitHub, Effect.map(GitHubServer.start(options), (server) => ({ ...server, installation: server.app.install("Acme") })))
}

/** As the service has it, with what is wrong in `wrong`. */
export const hostOf = (
  server: GitHubServer.GitHubServer,
  wrong: Partial<SourceHostGitHub.Options> = {}
): Layer.Layer<SourceHost, SourceHostError> =>
  SourceHostGitHub.layer({
    appId: String(server.app.appId),
    privateKey: Redacted.make(server.app.privateKey),
    apiUrl: server.apiUrl,
    ...wrong
  })

export const layer = (options?: GitHubServer.Options): Layer.Layer<SourceHost | TestGitHub, SourceHostError> =>
  Layer.unwrap(Effect.map(TestGitHub, (server) => hostOf(server))).pipe(Layer.provideMerge(TestGitHub.layer(options)))

/** A new private repository of `Acme`. */
export const repository = Effect.fnUntraced(function*(files: Changes) {
  const server = yield* TestGitHub
  const fullName = RepoName.make(`Acme/App-${randomUUID()}`)
  return { fullName, repository: yield* server.repository(fullName, files) }
})
