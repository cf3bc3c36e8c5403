/** A test server with a token of an account that is a member of the projects in `Acme`, and `SourceHost` on it. */
import type { SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { Changes } from "@slipway/git/testing/BareRepository"
import { Context, Effect, Layer, Redacted } from "effect"
import { randomUUID } from "node:crypto"
import type { Options } from "../src/GitLabApi.ts"
import * as SourceHostGitLab from "../src/SourceHostGitLab.ts"
import * as GitLabServer from "../testing/GitLabServer.ts"

export const ADA = { id: 7, username: "Ada" }
export const BOB = { id: 8, username: "bob" }
export const CARL = { id: 12, username: "carl" }
/** The account of the token: a person's, so that GitLab does not say that it is a program's. */
export const OWN = { id: 2, username: "deploy" }

export class TestGitLab extends Context.Service<TestGitLab, GitLabServer.GitLabServer & { readonly secret: string }>()(
  "@slipway/gitlab/TestGitLab"
) {
  static readonly layer = (options: GitLabServer.Options = {}): Layer.Layer<TestGitLab> =>
    Layer.effect(
      TestGitLab,
      Effect.map(GitLabServer.start(options), (server) => {
        server.users.push(ADA, BOB, CARL)
        server.groups.set("Acme", new Map([[OWN.id, 40]]))
        return { ...server, secret: server.token(OWN) }
      })
    )
}

/** As the service has it, with what is wrong in `wrong`. */
export const optionsOf = (
  server: GitLabServer.GitLabServer & { readonly secret: string },
  wrong: Partial<Options> = {}
): Options => ({ url: server.webUrl, token: () => Effect.succeed(Redacted.make(server.secret)), ...wrong })

export const hostOf = (
  server: GitLabServer.GitLabServer & { readonly secret: string },
  wrong: Partial<Options> = {}
): Layer.Layer<SourceHost, SourceHostError> => SourceHostGitLab.layer(optionsOf(server, wrong))

export const layer = (options?: GitLabServer.Options): Layer.Layer<SourceHost | TestGitLab, SourceHostError> =>
  Layer.unwrap(Effect.map(TestGitLab, (server) => hostOf(server))).pipe(Layer.provideMerge(TestGitLab.layer(options)))

/** How it fails. Success would make `Effect.flip` fail without a message. */
export const failureOf = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<E, never, R> =>
  Effect.catch(Effect.flip(self), () => Effect.die(new Error("it succeeded")))

/** A new private project of `Acme`. */
export const project = Effect.fnUntraced(function*(files: Changes, path = `Acme/App-${randomUUID()}`) {
  const server = yield* TestGitLab
  return { fullName: path, project: yield* server.project(path, files) }
})
