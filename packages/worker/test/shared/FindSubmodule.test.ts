import { assert, describe, it } from "@effect/vitest"
import { RepoNotAccessible, SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { repositoryAt } from "@slipway/domain/source/schema/SubmoduleAddress"
import { Effect, Layer, Redacted } from "effect"
import { findSubmodule } from "../../src/shared/FindSubmodule.ts"

const repos = ["acme/app", "Tools/build"].map((name) => ({ fullName: RepoName.make(name) }))
const authorization = Redacted.make("Basic x")

/** The answer for an address, and which credentials were made. */
const asking = Effect.fnUntraced(function*(address: string) {
  const minted: Array<string> = []
  const host = Layer.mock(SourceHost, {
    names: ["test"],
    nameOf: () => Effect.succeed("test"),
    repositoryAt: (address) => Effect.succeed(repositoryAt(address, "github.com")),
    remote: (repo, access) => {
      minted.push(`${repo} ${access}`)
      if (repo === "acme/missing") return Effect.fail(new RepoNotAccessible({ repo, advice: "Install the App." }))
      if (repo === "acme/busy") {
        return Effect.fail(new SourceHostError({ operation: "read the repository", detail: "Busy.", retryable: true }))
      }
      return Effect.succeed({ url: `https://github.com/${repo}.git`, authorization })
    }
  })
  const answer = yield* Effect.flatMap(findSubmodule(repos), (find) => find(address)).pipe(Effect.provide(host))
  return { answer, minted }
})

describe("submodules of a sandbox", () => {
  it.effect("are of the accounts of its own repositories, with credentials to read that one", () =>
    Effect.gen(function*() {
      for (const [address, repo] of [["https://github.com/acme/lib", "acme/lib"], ["git@github.com:tools/x.git", "tools/x"]] as const) {
        assert.deepStrictEqual(yield* asking(address), {
          answer: { repo, remote: { url: `https://github.com/${repo}.git`, authorization } },
          minted: [`${repo} read`]
        })
      }
    }))

  it.effect("of another account or address are not, and no credentials are made for them", () =>
    Effect.gen(function*() {
      const { answer, minted } = yield* asking("https://github.com/others/secret.git")
      assert.match(String(answer), /^others\/secret belongs to another account than the repositories of the sandbox\./u)
      for (const address of ["file:///etc", "/srv/acme/lib", "https://evil.example/acme/lib", "ext::sh"]) {
        assert.deepStrictEqual(yield* asking(address), { answer: "The source host has no such address.", minted: [] })
      }
      assert.deepStrictEqual(minted, [])
    }))

  it.effect("that the host refuses have its reason", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        (yield* asking("https://github.com/acme/missing")).answer,
        "The repository acme/missing is not accessible. Install the App."
      )
      assert.strictEqual(
        (yield* asking("https://github.com/acme/busy")).answer,
        "The source host could not read the repository: Busy."
      )
    }))
})
